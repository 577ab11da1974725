"""A governance platform that takes OpenLineage events by HTTP POST."""

from __future__ import annotations

import email.utils
from datetime import UTC, datetime
from urllib.parse import urlsplit, urlunsplit

import requests
from requests.auth import AuthBase

from airflow_kafka_hdfs.adapters.rest_client import BearerAuth, login_of, without_credentials
from airflow_kafka_hdfs.exceptions import ConfigError, PlatformUnavailableError
from airflow_kafka_hdfs.ports.lineage import Reply
from airflow_kafka_hdfs.ports.runtime import Clock

_CONNECT_SECONDS = 5.0
_TEXT = 500
_MAX_READ = 64 * 1024


class HttpPlatform:
    """Posts events to one address. Its repr and its errors show no secret.

    Args:
        url: where events are posted (`https://host/api/v1/lineage`); user and password in it are used, never shown.
        clock: measures the whole of a request.
        token: for `Authorization: Bearer`; wins over the URL's user.
        timeout: seconds for a whole request.

    Raises:
        ConfigError: no http or https URL.
    """

    def __init__(self, url: str, clock: Clock, *, token: str = "", timeout: float = 30.0) -> None:
        parts = urlsplit(url)
        self.name = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError("export_url", self.name, "an http or https URL without query")
        self._clock = clock
        self._timeout = timeout
        self._session = requests.Session()
        auth: AuthBase = BearerAuth(token) if token else login_of(parts.username, parts.password)
        self._session.auth = auth
        self._session.headers["Content-Type"] = "application/json"

    def __repr__(self) -> str:
        return f"HttpPlatform({self.name!r})"

    def post(self, body: bytes, key: str) -> Reply:
        """See `Platform.post`. Redirects are not followed: a log-in would go to somebody else."""
        deadline = self._clock.monotonic() + self._timeout
        try:
            with self._session.post(
                self.name,
                data=body,
                headers={"Idempotency-Key": key},
                timeout=(min(_CONNECT_SECONDS, self._timeout), self._timeout),
                allow_redirects=False,
                stream=True,
            ) as response:
                return Reply(
                    status=response.status_code,
                    text=self._text(response, deadline),
                    retry_after=_seconds(response.headers.get("Retry-After", "")),
                )
        except requests.RequestException as error:
            said = without_credentials(f"{type(error).__name__}: {error}")[:_TEXT]
            raise PlatformUnavailableError(f"{self.name}: {said}") from error

    def _text(self, response: requests.Response, deadline: float) -> str:
        """The start of the answer; what it says is of no use once the status is known, so it is never waited for."""
        found = bytearray()
        for piece in response.iter_content(8 * 1024):
            found += piece
            if len(found) > _MAX_READ or self._clock.monotonic() > deadline:
                break
        return without_credentials(" ".join(found[: 4 * _TEXT].decode("utf-8", "replace").split()))[:_TEXT]

    def close(self) -> None:
        """See `Platform.close`."""
        self._session.close()


def _seconds(text: str) -> float | None:
    """Seconds of a `Retry-After`, which may be a date."""
    if text.strip().isdigit():
        return float(text)
    try:
        when = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    moment = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return max((moment - datetime.now(UTC)).total_seconds(), 0.0)
