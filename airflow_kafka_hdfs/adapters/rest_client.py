"""A small, bounded HTTP reader: time-outs, a size limit, a few tries, no secret in any text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import requests
from requests.auth import AuthBase, HTTPBasicAuth

from airflow_kafka_hdfs.exceptions import ConfigError, RegistryUnavailableError
from airflow_kafka_hdfs.ports.runtime import Clock

_PAUSES = (0.5, 1.0, 2.0, 4.0)  # between five tries: long enough for a restart behind a balancer, short for a task
_CONNECT_SECONDS, _READ_SECONDS, _WHOLE_SECONDS = 5.0, 15.0, 30.0
_MAX_BYTES = 10 * 1024 * 1024


class BearerAuth(AuthBase):
    """Sends a token. Its repr hides it."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the header."""
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request

    def __repr__(self) -> str:
        return "BearerAuth(***)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the server said.

    Attributes:
        url: that was asked, without user and password.
        location: the `Location` header, empty if there is none.
    """

    url: str
    status: int
    content_type: str
    text: str
    location: str = ""

    def json_or_none(self) -> Any:
        """The body as JSON; None if it is none."""
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return None

    def nonsense(self, what: str) -> RegistryUnavailableError:
        """The error for an answer that can't be the registry's."""
        start = " ".join(self.text[:120].split())
        return RegistryUnavailableError(
            f"{self.url}: status {self.status} with {self.content_type or 'no content type'}: {what}. "
            f"It begins: {start!r}. Is this the registry's base URL, and may the user read?"
        )


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files for https: certificate authorities, and a client's own certificate and key."""

    authorities: str | None = None
    certificate: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestClient:
    """Reads below one base URL. Its repr shows no secret.

    Args:
        base_url: http or https; user and password in it are used and never shown.
        clock: waits between tries.
        auth: how to log in; wins over the URL's user.
        tls: files for https.
    """

    base_url: str
    clock: Clock = field(repr=False)
    auth: AuthBase | None = field(default=None, repr=False)
    tls: TlsFiles = TlsFiles()
    _session: requests.Session = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        shown = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")).rstrip("/")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError("registry", shown, "an http or https URL without query")
        session = requests.Session()
        # An auth object of our own also keeps requests from taking another log-in out of ~/.netrc.
        session.auth = self.auth or login_of(parts.username, parts.password)
        session.verify = self.tls.authorities or True
        if self.tls.certificate:
            session.cert = (self.tls.certificate, self.tls.key) if self.tls.key else self.tls.certificate
        session.headers["Accept"] = "application/vnd.schemaregistry.v1+json, application/json, text/plain;q=0.5"
        object.__setattr__(self, "base_url", shown)
        object.__setattr__(self, "_session", session)

    def get(self, path: str) -> Answer:
        """Read one path.

        Returns:
            The answer of any status below 500 but those that say "not now" or "not you".

        Raises:
            RegistryUnavailableError: after all tries, or at once for a refused log-in.
        """
        url = f"{self.base_url}/{path.lstrip('/')}"
        said = ""
        for pause in (*_PAUSES, None):
            try:
                answer = self._once(url)
            except requests.RequestException as error:
                said = without_credentials(f"{type(error).__name__}: {error}")
            else:
                if answer.status in (401, 403):
                    raise answer.nonsense("the registry refuses the log-in")
                if answer.status < 500 and answer.status not in (408, 425, 429) and not _is_page(answer):
                    return answer
                said = str(answer.nonsense("the registry is not able to answer"))
            if pause is not None:
                self.clock.sleep(pause)
        raise RegistryUnavailableError(f"{url}: no answer in {len(_PAUSES) + 1} tries; the last one: {said}")

    def _once(self, url: str) -> Answer:
        deadline = self.clock.monotonic() + _WHOLE_SECONDS
        with self._session.get(url, timeout=(_CONNECT_SECONDS, _READ_SECONDS), stream=True) as response:
            body = bytearray()
            for piece in response.iter_content(64 * 1024):
                body += piece
                if len(body) > _MAX_BYTES:
                    raise requests.RequestException(f"more than {_MAX_BYTES} bytes")
                if self.clock.monotonic() > deadline:
                    raise requests.Timeout(f"the body took more than {_WHOLE_SECONDS} s")
            return Answer(
                url=url,
                status=response.status_code,
                content_type=response.headers.get("Content-Type", ""),
                text=body.decode("utf-8", "replace"),
                location=response.headers.get("Location", ""),
            )


def login_of(name: str | None, password: str | None) -> AuthBase:
    """Basic log-in with the user of a URL; without one nothing is sent, not even what `~/.netrc` may hold."""
    if name is None:
        return _NoAuth()
    return HTTPBasicAuth(unquote(name), unquote(password or ""))


class _NoAuth(AuthBase):
    """Sends nothing."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


def _is_page(answer: Answer) -> bool:
    """Whether a proxy's or log-in page came instead of an answer."""
    return "html" in answer.content_type.lower() or answer.text.lstrip()[:1] == "<"


def without_credentials(text: str) -> str:
    """A text in which URLs show neither user nor password."""
    return re.sub(r"://[^/@\s]+@", "://***@", text)
