"""A proxy on the loopback interface that counts how often a client sends something to a server."""

import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import Thread

import sqlalchemy as sa


class Wire:
    """Passes on what clients of a server send and receive; `sends` counts what clients sent."""

    def __init__(self, listener: socket.socket, server: tuple[str, int]) -> None:
        self.sends = 0
        self._listener, self._server = listener, server

    def accept(self) -> None:
        """Serve clients until the listener is closed."""
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                for one in (client, server):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                Thread(target=self._pass_on, args=(client, server, 1), daemon=True).start()
                Thread(target=self._pass_on, args=(server, client, 0), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, counted: int) -> None:
        with suppress(OSError), source, target:
            while data := source.recv(2**20):
                self.sends += counted
                target.sendall(data)


@contextmanager
def wire_to(url: str) -> Generator[tuple[str, Wire]]:
    """Return a URL that leads to the same server through a proxy, and the proxy."""
    parsed = sa.make_url(url)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        wire = Wire(listener, (parsed.host or "127.0.0.1", parsed.port or 5432))
        Thread(target=wire.accept, daemon=True).start()
        through = parsed.set(host="127.0.0.1", port=listener.getsockname()[1])
        yield through.render_as_string(hide_password=False), wire
