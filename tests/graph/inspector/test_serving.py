import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from langgraph_compaction.graph.cli.main import app
from langgraph_compaction.graph.inspector.serving import DATA, Server
from langgraph_compaction.graph.inspector.thread_data import stamp
from tests.graph.harness import THREAD
from tests.graph.inspector.conftest import Told


@pytest.fixture
def serving(told: Told) -> Iterator[Server]:
    """Return a server of a thread, running."""
    with Server(told.report, lambda: stamp(told.saver, THREAD)) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def ask(serving: Server, path: str, *, host: str | None = None, method: str = "GET") -> tuple[int, bytes]:
    """The status and the body of an answer."""
    line = http.client.HTTPConnection("127.0.0.1", serving.server_port, timeout=20)
    line.request(method, path, headers={"Host": host or f"127.0.0.1:{serving.server_port}"})
    answer = line.getresponse()
    found = answer.status, answer.read()
    line.close()
    return found


def test_the_page_asks_its_own_server_for_what_is_new(serving: Server, told: Told) -> None:
    """Nothing while the thread stands still, then all of it."""
    status, text = ask(serving, "/")
    assert status == 200
    assert f'data-follow="{DATA}"'.encode() in text
    assert b"connect-src &#39;self&#39;" in text
    known = json.loads(ask(serving, DATA)[1])
    assert ask(serving, f"{DATA}?stamp={known['stamp']}") == (204, b"")
    told.say("more")
    status, text = ask(serving, f"{DATA}?stamp={known['stamp']}")
    assert status == 200
    assert len(json.loads(text)["requests"]) == len(known["requests"]) + 1


@pytest.mark.parametrize(("path", "kind"), [("/", "text/html"), (DATA, "application/json")])
def test_a_browser_keeps_a_conversation_to_itself(serving: Server, path: str, kind: str) -> None:
    """It stores no answer, takes it for nothing else, and shows it in no page of another origin."""
    line = http.client.HTTPConnection("127.0.0.1", serving.server_port, timeout=20)
    line.request("GET", path, headers={"Host": f"127.0.0.1:{serving.server_port}"})
    answer = line.getresponse()
    expected = {
        "Content-Type": f"{kind}; charset=utf-8",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Content-Security-Policy": "frame-ancestors 'none'",
    }
    told = dict(answer.getheaders())
    assert {name: told.get(name) for name in expected} == expected
    line.close()


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost.evil.example:{port}", ""]
)
def test_another_hosts_name_is_refused(serving: Server, host: str) -> None:
    """A page of somebody else's that points its name at this machine reads nothing."""
    status, text = ask(serving, DATA, host=host.format(port=serving.server_port) or " ")
    assert (status, b"messages" in text) == (403, False)
    assert ask(serving, DATA, host=f"localhost:{serving.server_port}")[0] == 200


def test_it_is_there_to_be_read_on_this_machine_only(serving: Server) -> None:
    """It listens on loopback, and has nothing but the page and its data."""
    assert serving.server_address[0] == "127.0.0.1"
    assert ask(serving, "/../../etc/passwd")[0] == 404
    assert ask(serving, "/", method="POST")[0] == 501


def test_a_port_that_is_taken_is_told(serving: Server, told: Told, tmp_path: Path) -> None:
    """With what to do."""
    words = ["inspect", THREAD, "--db", told.url, "--serve", "--port", str(serving.server_port)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "choose another by --port" in done.stderr
    assert not list(tmp_path.glob("*.html"))
