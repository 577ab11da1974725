"""The pages of lineage: one shell for every address, static files beside it, and the places of graphs.

Scripts and styles are shipped in `pages/` and served from here: no build step, no other server. A strict content
security policy lets nothing else run or load, whatever a dataset is called.
"""

from __future__ import annotations

import hashlib
import html
from functools import cache
from importlib import resources
from typing import Annotated

from fastapi import APIRouter, FastAPI, HTTPException, Request, status
from fastapi.exception_handlers import http_exception_handler
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, Field

from airflow_kafka_hdfs.lineage.layout import layered
from airflow_kafka_hdfs.plugins.lineage_security import User

PAGES = ("", "datasets", "jobs", "dataset", "job", "dag", "graph", "impact", "incident")
"""Addresses under the prefix that are pages; what they show stands in their queries."""
MAX_NODES = 2_000
MAX_LINKS = 20_000
_TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}

router = APIRouter()


@cache
def _files() -> dict[str, tuple[bytes, str]]:
    """Name -> content and type of every static file: the only ones that can be asked for."""
    folder = resources.files("airflow_kafka_hdfs.plugins") / "pages"
    found = {}
    for item in folder.iterdir():
        kind = _TYPES.get(item.name.rpartition(".")[2])
        if kind:
            found[item.name] = (item.read_bytes(), kind)
    return found


@cache
def _digest() -> str:
    """Changes with any file, so that browsers keep files for long and never use old ones."""
    made = hashlib.sha256()
    for name, (content, _) in sorted(_files().items()):
        made.update(name.encode() + b"\0" + content)
    return made.hexdigest()[:12]


def shell(root: str) -> str:
    """The document that every page starts from.

    Args:
        root: path under which the app is mounted, without a slash at its end.
    """
    base = html.escape(f"{root}/static/{_digest()}", quote=True)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Lineage</title>
<link rel="icon" href="{base}/lineage.svg">
<link rel="stylesheet" href="{base}/lineage.css">
<script src="{base}/theme.js"></script>
<script type="module" src="{base}/main.js"></script>
</head>
<body>
<noscript>The pages of lineage need JavaScript.</noscript>
</body>
</html>
"""


def _login_needed(root: str) -> HTMLResponse:
    login = html.escape(root.removesuffix("/lineage") + "/auth/login", quote=True)
    text = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Lineage: log in</title></head>
<body><p>Lineage is shown to those who are logged in to Airflow.
<a href="{login}">Log in</a>, then open this page again.</p></body></html>
"""
    return HTMLResponse(text, status.HTTP_401_UNAUTHORIZED, headers=_HEADERS)


def _page(request: Request, user: User) -> Response:
    """A page; what is on it comes from the REST."""
    root = str(request.scope.get("root_path", ""))
    return HTMLResponse(shell(root), headers=_HEADERS | {"Cache-Control": "no-cache"})


for _name in PAGES:
    router.add_api_route(f"/{_name}", _page, methods=["GET"], name=f"page {_name or 'start'}")


@router.get("/static/{digest}/{name}")
def static(user: User, digest: str, name: str) -> Response:
    """A file of the pages; `digest` is in the address for the browser's cache alone."""
    found = _files().get(name)
    if found is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "no such file")
    kept = "private, max-age=31536000, immutable" if digest == _digest() else "no-cache"
    return Response(found[0], media_type=found[1], headers=_HEADERS | {"Cache-Control": kept})


Node = Annotated[int, Field(ge=0, lt=MAX_NODES)]


class Drawing(BaseModel):
    """A graph by numbers: how many nodes, and which leads to which."""

    nodes: Annotated[int, Field(ge=0, le=MAX_NODES)]
    links: Annotated[list[tuple[Node, Node]], Field(max_length=MAX_LINKS)]


@router.post("/layout")
def layout(user: User, body: Drawing) -> Response:
    """Where to draw the nodes of a graph that is on the page; keeps nothing, names nothing."""
    try:
        found = layered(body.nodes, body.links)
    except ValueError as error:
        raise HTTPException(422, str(error)) from error
    return JSONResponse({"columns": found.columns, "rows": found.rows, "bends": found.bends})


def mount(app: FastAPI) -> None:
    """Add the pages to the app: their routes, and a page instead of JSON for people who are not logged in."""
    app.include_router(router)

    @app.exception_handler(status.HTTP_401_UNAUTHORIZED)
    async def not_logged_in(request: Request, error: HTTPException) -> Response:
        """What a browser shows, or Airflow's own answer."""
        if "text/html" in request.headers.get("accept", ""):
            return _login_needed(str(request.scope.get("root_path", "")))
        return await http_exception_handler(request, error)
