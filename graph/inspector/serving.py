"""Serves the page of a running thread on this machine only; the page can undo, redo, release, pin and unpin."""

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import compare_digest, token_urlsafe
from threading import Lock
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from langgraph_compaction.checkpoint import CheckpointError
from langgraph_compaction.nodes import CompactionError

from ..undo import OverLimitError
from .page import data, page
from .report import Report

HOST = "127.0.0.1"
DATA = "/report.json"
KEY = "X-Page-Key"
"""The header in which a page shows the key that this server gave to it."""
MOST_BYTES = 10_000
"""Largest body of a request."""
_KEPT = 4
"""Number of states of the thread that are kept, so that a page is sent what has changed since one of them."""

_TABLES = ("messages", "bars")

Edit = Callable[[Mapping[str, Any]], str]
"""Changes the thread by what a page asks, and returns what was done as a sentence."""


class Server(ThreadingHTTPServer):
    """A server on the loopback address, not yet running; port 0 takes any free port.

    Every poll by the page calls `stamp`, and calls `report` only if the stamp has changed. A request whose `Host`
    header is not one of `names` is refused, so that no foreign page can read a thread by DNS rebinding. A request for
    one of the `edits` also needs the key of the page, which no other page knows.
    """

    def __init__(
        self,
        report: Callable[[], Report],
        stamp: Callable[[], str],
        port: int = 0,
        edits: Mapping[str, Edit] | None = None,
    ) -> None:
        super().__init__((HOST, port), _Handler)
        self.stamp = stamp
        self.edits = edits or {}
        self.key = token_urlsafe()
        self._report = report
        self._known: dict[str, dict[str, Any]] = {}
        self._lock = Lock()

    @property
    def names(self) -> set[str]:
        """The `Host` headers that are accepted."""
        return {f"{HOST}:{self.server_port}", f"localhost:{self.server_port}"}

    def page(self) -> str:
        """Return the page of the thread as it is now."""
        report = self._report()
        self._keep(report)
        return page(report, follow=DATA, key=self.key)

    def news(self, known: str) -> dict[str, Any] | None:
        """Return what has changed since the state with this stamp, or everything; `None` for no change."""
        if known and known == self.stamp():
            return None
        old = self._known.get(known, {})
        return changes(old, self._keep(self._report()))

    def _keep(self, report: Report) -> dict[str, Any]:
        with self._lock:
            self._known[report["stamp"]] = data(report)
            for stamp in list(self._known)[:-_KEPT]:
                del self._known[stamp]
            return self._known[report["stamp"]]


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return what turns the data of a page into newer data.

    The result is `{"values": {name: value}, "entries": {name: {"length": n, "at": {place: entry}}}}`: whole values,
    and of lists and tables the entries that differ, with the new length of a list and `None` for a table.
    """
    values, entries = dict[str, Any](), dict[str, Any]()
    for name, value in new.items():
        before, after = _entries(name, old.get(name)), _entries(name, value)
        if value == old.get(name):
            continue
        if before is None or after is None or (name in _TABLES and not before.keys() <= after.keys()):
            values[name] = value
        else:
            at = {place: entry for place, entry in after.items() if place not in before or before[place] != entry}
            entries[name] = {"length": None if name in _TABLES else len(after), "at": at}
    return {"values": values, "entries": entries}


def _entries(name: str, value: Any) -> dict[Any, Any] | None:
    """Return the entries of a table, and those of a list by their positions; `None` for another value."""
    if name in _TABLES:
        return cast("dict[Any, Any] | None", value)
    return dict(enumerate(cast("Any", value))) if isinstance(value, list) else None


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Send the page, new data for the page, or an error."""
        asked = urlsplit(self.path)
        if not self._is_for_us():
            return
        if asked.path not in {"/", DATA}:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "there is nothing here")
        else:
            self._answer(asked.path, parse_qs(asked.query).get("stamp", [""])[0])

    def do_POST(self) -> None:
        """Change the thread if the page of this server asks for it, and send what was done or why not."""
        edit = self._own.edits.get(self.path.removeprefix("/"))
        if not self._is_for_us():
            return
        if edit is None:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "there is nothing here")
        elif not self._is_our_page():
            self._send(HTTPStatus.FORBIDDEN, "text/plain", "only the page of this server may change the thread")
        elif (given := self._given()) is None:
            self._send(HTTPStatus.BAD_REQUEST, "text/plain", f"send a JSON object of at most {MOST_BYTES:,} bytes")
        else:
            self._change(edit, given)

    def _is_for_us(self) -> bool:
        ours = self.headers.get("Host") in self._own.names
        if not ours:
            self._send(HTTPStatus.FORBIDDEN, "text/plain", "this server answers to 127.0.0.1 and localhost only")
        return ours

    def _is_our_page(self) -> bool:
        is_origin = self.headers.get("Origin") == f"http://{self.headers.get('Host')}"
        return is_origin and compare_digest(self.headers.get(KEY, "").encode(), self._own.key.encode())

    def _given(self) -> Mapping[str, Any] | None:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and int(length) <= MOST_BYTES):
            self.close_connection = True
            return None
        try:
            given = json.loads(self.rfile.read(int(length)))
        except ValueError:
            return None
        return cast("dict[str, Any]", given) if isinstance(given, dict) else None

    def _answer(self, path: str, known: str) -> None:
        try:
            if path == "/":
                self._send(HTTPStatus.OK, "text/html", self._own.page())
            elif (news := self._own.news(known)) is None:
                self._send(HTTPStatus.NO_CONTENT, "application/json", "")
            else:
                self._send(HTTPStatus.OK, "application/json", json.dumps(news))
        except CheckpointError as error:
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", str(error))

    def _change(self, edit: Edit, given: Mapping[str, Any]) -> None:
        try:
            status, said = HTTPStatus.OK, {"said": edit(given), "force": False}
        except (CompactionError, CheckpointError) as error:
            status, said = HTTPStatus.CONFLICT, {"said": str(error), "force": isinstance(error, OverLimitError)}
        self._send(status, "application/json", json.dumps(said))

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
