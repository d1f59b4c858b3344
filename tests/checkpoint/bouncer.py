"""A pgbouncer in transaction mode, which gives each transaction any of its connections."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlalchemy as sa

BOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


@contextmanager
def bouncer(url: sa.URL, size: int) -> Generator[tuple[sa.URL, Callable[[sa.URL], None]]]:
    """Yield the URL of a database behind a pgbouncer of so many connections, and what leads it to another server."""
    port = free_port()
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # as root it changes to another user
        settings = Path(folder, "pgbouncer.ini")

        def write(server: sa.URL) -> None:
            secret = f" password={server.password}" if server.password else ""
            settings.write_text(
                f"[databases]\n{url.database} = host={server.host} port={server.port or 5432} user={url.username}"
                f"{secret}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\n"
                f"unix_socket_dir =\npool_mode = transaction\ndefault_pool_size = {size}\nmax_client_conn = 500\n"
                "server_login_retry = 1\n"
            )
            settings.chmod(0o644)

        def lead(server: sa.URL) -> None:
            write(server)
            process.send_signal(signal.SIGHUP)

        write(url)
        as_user = ["-u", "nobody"] if os.geteuid() == 0 else []
        with subprocess.Popen([str(BOUNCER), *as_user, str(settings)], stderr=subprocess.DEVNULL) as process:
            try:
                for _ in range(200):
                    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                        break
                    time.sleep(0.02)
                yield url.set(host="127.0.0.1", port=port), lead
            finally:
                process.terminate()
