"""The web app of lineage, made when it is first called: other processes import the plugin and never need it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import FastAPI

    from airflow_kafka_hdfs.hooks.lineage import LineageHook

log = logging.getLogger(__name__)
PREFIX = "/lineage"
API = "/api/v1"
AIRFLOW = "airflow.app"
"""Where a call's scope holds Airflow's own app."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class LazyApp:
    """Stands for the app in the plugin.

    Args:
        make: makes the app; for tests.
    """

    def __init__(self, make: Callable[[], FastAPI] | None = None) -> None:
        self._make = make or create_app
        self._app: FastAPI | None = None
        self._lock = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one call."""
        # The app below puts itself in its place; what acts through Airflow's REST needs Airflow's own.
        scope[AIRFLOW] = scope.get("app")
        await self.app()(scope, receive, send)

    def app(self) -> FastAPI:
        """The app, made at the first call."""
        with self._lock:
            if self._app is None:
                self._app = self._make()
            return self._app


def create_app(hook: LineageHook | None = None) -> FastAPI:
    """The app with every route; none answers without a login.

    Args:
        hook: where the warehouse is; as configured if None.
    """
    from fastapi import FastAPI

    from airflow_kafka_hdfs.hooks.lineage import LineageHook
    from airflow_kafka_hdfs.plugins import (
        lineage_api,
        lineage_events,
        lineage_input,
        lineage_pages,
        lineage_repair,
        lineage_rights,
        lineage_writes,
    )

    # Pages of documentation would be open to everybody: dependencies do not protect them.
    app = FastAPI(title="Lineage", docs_url=None, redoc_url=None, openapi_url=None, dependencies=[lineage_input.PLAIN])
    used = hook or LineageHook()
    app.state.hook = used
    app.state.warehouse = _Once(used)
    app.state.access = lineage_rights.RememberedRights()
    app.state.instance = lambda: used.settings.instance
    app.include_router(lineage_api.router, prefix=API)
    app.include_router(lineage_writes.router, prefix=API)
    app.include_router(lineage_events.router, prefix=API)
    app.include_router(lineage_repair.router, prefix=API)
    app.include_router(lineage_repair.writing, prefix=API)
    lineage_pages.mount(app)
    lineage_input.tell_problems(app)
    _tell_errors(app)
    return app


class _Once:
    """The warehouse of this process, opened at the first question."""

    def __init__(self, hook: LineageHook) -> None:
        self._hook = hook
        self._lock = threading.Lock()
        self._warehouse: Any = None

    def __call__(self) -> Any:
        with self._lock:
            if self._warehouse is None:
                self._warehouse = self._hook.warehouse()
            return self._warehouse


def _tell_errors(app: FastAPI) -> None:
    from fastapi import Request
    from fastapi.responses import JSONResponse

    from airflow_kafka_hdfs.exceptions import ConfigError, KafkaHdfsError, Transient
    from airflow_kafka_hdfs.plugins import lineage_input

    @app.exception_handler(KafkaHdfsError)
    async def told(request: Request, error: KafkaHdfsError) -> JSONResponse:
        """Errors of ours with their text: 422 for a value of the caller's, 503 for what may pass, else 500."""
        code = 422 if isinstance(error, ConfigError) else 503 if isinstance(error, Transient) else 500
        if code >= 500:
            log.warning("lineage: %s %s: %s", request.method, request.url.path, error)
        return JSONResponse({"detail": lineage_input.public(error)}, status_code=code)
