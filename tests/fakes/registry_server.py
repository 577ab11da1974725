"""A schema registry on a loopback port that speaks both REST APIs and misbehaves as told."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

JSON = "application/vnd.schemaregistry.v1+json"


@dataclass
class Reply:
    """What to answer instead of the right thing; `cut` closes the connection in the middle of the body."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    cut: bool = False
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class RegistryServer:
    """Schemas and the script of misbehaviour.

    Attributes:
        url: base URL of both APIs.
        script: replies to the next requests, instead of the right ones.
        always: reply to every request, while it is set.
        requests: paths asked for, with the `Authorization` header of each.
    """

    url: str = ""
    schemas: dict[str, dict] = field(default_factory=dict)
    subjects: dict[str, list[str]] = field(default_factory=dict)
    script: list[Reply] = field(default_factory=list)
    always: Reply | None = None
    requests: list[tuple[str, str | None]] = field(default_factory=list)

    def register(self, topic: str, schema: str, *, references: list[dict] | None = None, subject: str = "") -> int:
        """Number of the schema under `<topic>-value`; the 16-byte API knows it by its MD5."""
        number = str(len(self.schemas) // 2 + 1)
        entry = {"schema": schema, **({"references": references} if references else {})}
        self.schemas[number] = self.schemas[hashlib.md5(schema.encode()).hexdigest()] = entry
        self.subjects.setdefault(subject or f"{topic}-value", []).append(number)
        self.subjects.setdefault(topic, []).append(number)
        return int(number)

    def answer(self, path: str) -> Reply:
        """The right reply to a path."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        match parts:
            case ["schemas", "ids", number] if number in self.schemas:
                return _json(self.schemas[number])
            case ["schemas", "ids", _]:
                return _json({"error_code": 40403, "message": "Schema not found"}, 404)
            case ["subjects"]:
                return _json(sorted(self.subjects))
            case ["subjects", subject, "versions", version] if subject in self.subjects:
                known = self.subjects[subject]
                number = known[-1] if version == "latest" else known[int(version) - 1]
                return _json({"subject": subject, "version": 1, "id": int(number), **self.schemas[number]})
            case ["subjects", *_]:
                return _json({"error_code": 40401, "message": "Subject not found"}, 404)
            case [one] if one.startswith("id=") and one[3:] in self.schemas:
                return Reply(body=self.schemas[one[3:]]["schema"].encode(), content_type="text/plain")
            case [one] if one.startswith("latest_with_type=") and one[17:] in self.subjects:
                schema = self.schemas[self.subjects[one[17:]][-1]]["schema"].encode()
                location = {"Location": f"/id={hashlib.md5(schema).hexdigest()}"}
                return Reply(body=schema, content_type="text/plain", headers=location)
            case [one] if one.startswith(("id=", "latest_with_type=")):
                return _json({"message": "not found"}, 404)
            case _:
                return Reply(404, b"<html>no such page</html>", "text/html")


def _json(body: object, status: int = 200) -> Reply:
    return Reply(status, json.dumps(body).encode())


@contextmanager
def registry_server() -> Iterator[RegistryServer]:
    """A running server."""
    registry = RegistryServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.requests.append((self.path, self.headers.get("Authorization")))
            right = registry.answer(self.path)
            reply = registry.always or (registry.script.pop(0) if registry.script else right)
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.content_type)
            self.send_header("Content-Length", str(len(reply.body) + (100 if reply.cut else 0)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
