"""Serves the page of a running thread, read-only, on this machine only."""

import json
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from langgraph_compaction.checkpoint import CheckpointError

from .page import page
from .report import Report

HOST = "127.0.0.1"
DATA = "/report.json"


class Server(ThreadingHTTPServer):
    """A server on the loopback address, not yet running; port 0 takes any free port.

    Every poll by the page calls `stamp`, and calls `report` only if the stamp has changed. A request whose `Host`
    header is not one of `names` is refused, so that no foreign page can read a thread by DNS rebinding.
    """

    def __init__(self, report: Callable[[], Report], stamp: Callable[[], str], port: int = 0) -> None:
        super().__init__((HOST, port), _Handler)
        self.report = report
        self.stamp = stamp

    @property
    def names(self) -> set[str]:
        """The `Host` headers that are accepted."""
        return {f"{HOST}:{self.server_port}", f"localhost:{self.server_port}"}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Send the page, new data for the page, or an error."""
        asked = urlsplit(self.path)
        if self.headers.get("Host") not in self._own.names:
            self._send(HTTPStatus.FORBIDDEN, "text/plain", "this server answers to 127.0.0.1 and localhost only")
        elif asked.path not in {"/", DATA}:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "there is nothing here")
        else:
            self._answer(asked.path, parse_qs(asked.query).get("stamp", [""])[0])

    def _answer(self, path: str, known: str) -> None:
        try:
            if path == "/":
                self._send(HTTPStatus.OK, "text/html", page(self._own.report(), follow=DATA))
            elif known and known == self._own.stamp():
                self._send(HTTPStatus.NO_CONTENT, "application/json", "")
            else:
                self._send(HTTPStatus.OK, "application/json", json.dumps(self._own.report()))
        except CheckpointError as error:
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", str(error))

    @property
    def _own(self) -> Server:
        return cast("Server", self.server)

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in http.server
        """Log nothing, because the command has already printed the address."""
