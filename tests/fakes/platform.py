"""A governance platform for tests: a real HTTP server on loopback that does what its script says."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HANG, DROP = "hang", "drop"


class Server:
    """A platform; `script` holds what the next requests get: a status, (status, headers), HANG or DROP, then 201."""

    def __init__(self):
        self.script, self.taken, self.requests, self.headers = [], [], 0, []
        self.over = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                outer.requests += 1
                outer.headers.append(dict(self.headers))
                body = self.rfile.read(int(self.headers["Content-Length"]))
                step = outer.script.pop(0) if outer.script else 201
                if step == HANG:
                    outer.over.wait(30)
                if step in (HANG, DROP):
                    self.close_connection = True
                    return
                status, headers = step if isinstance(step, tuple) else (step, {})
                if status < 300:
                    outer.taken.append(json.loads(body))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "4")
                self.end_headers()
                self.wfile.write(b"told")

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http.server_port}/api/v1/lineage"

    def close(self):
        self.over.set()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join(10)
