import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from langgraph_compaction.graph import CompactionThread, view
from langgraph_compaction.graph.cli.inspect_thread import edits_of
from langgraph_compaction.graph.cli.main import app
from langgraph_compaction.graph.inspector.serving import DATA, KEY, Server
from langgraph_compaction.graph.inspector.thread_data import stamp
from tests.graph.harness import CONFIG, THREAD, said, standing
from tests.graph.inspector.conftest import Told


@pytest.fixture
def serving(told: Told) -> Iterator[Server]:
    """Return a server of a thread, running."""
    with Server(told.report, lambda: stamp(told.saver, THREAD), edits=edits_of(told.saver, THREAD)) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def values_of(told: Told) -> Any:
    """The state of the thread."""
    return told.graph.get_state(CONFIG).values


def ask(serving: Server, path: str, *, host: str | None = None, method: str = "GET") -> tuple[int, bytes]:
    """The status and the body of an answer."""
    line = http.client.HTTPConnection("127.0.0.1", serving.server_port, timeout=20)
    line.request(method, path, headers={"Host": host or f"127.0.0.1:{serving.server_port}"})
    answer = line.getresponse()
    found = answer.status, answer.read()
    line.close()
    return found


def test_the_page_asks_its_own_server_for_what_is_new(serving: Server, told: Told) -> None:
    """Nothing while the thread stands still, then what has changed."""
    status, text = ask(serving, "/")
    assert status == 200
    assert f'data-follow="{DATA}"'.encode() in text
    assert b"connect-src &#39;self&#39;" in text
    known = json.loads(ask(serving, DATA)[1])["values"]
    assert ask(serving, f"{DATA}?stamp={known['stamp']}") == (204, b"")
    told.say("more")
    status, text = ask(serving, f"{DATA}?stamp={known['stamp']}")
    assert status == 200
    assert json.loads(text)["entries"]["requests"]["length"] == len(known["requests"]) + 1


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
    assert ask(serving, "/", method="POST")[0] == 404


def change(serving: Server, what: str, given: object, **headers: str | None) -> tuple[int, str]:
    """The status and the text of the answer to a change that the page asks for, with other headers or without one."""
    own = f"127.0.0.1:{serving.server_port}"
    sent = {"Host": own, "Origin": f"http://{own}", KEY: serving.key} | headers
    line = http.client.HTTPConnection("127.0.0.1", serving.server_port, timeout=20)
    line.request("POST", f"/{what}", json.dumps(given), {name: text for name, text in sent.items() if text})
    answer = line.getresponse()
    status, text = answer.status, answer.read().decode()
    line.close()
    return status, str(json.loads(text)["said"]) if status in {200, 409} else text


def test_the_page_undoes_redoes_releases_pins_and_unpins(serving: Server, told: Told) -> None:
    """As the methods of the thread do; an undo beyond the limit has to be asked for twice."""
    told.grow("b")
    thread, name = CompactionThread(told.graph, CONFIG), str(standing(told.graph)["head"])
    before = len(view(values_of(told)))
    status, words = change(serving, "undo", {"compaction": name, "force": True})
    assert (status, words.startswith(f"undone: {name}.")) == (200, True)
    assert standing(told.graph)["held"]
    assert len(view(values_of(told))) > before
    assert change(serving, "release", {})[0] == 200
    assert not standing(told.graph)["held"]
    assert change(serving, "redo", {})[0] == 200
    assert (standing(told.graph)["head"], len(view(values_of(told)))) == (name, before)
    assert change(serving, "redo", {})[0] == 409
    assert change(serving, "pin", {"message": "b-on"})[0] == 200
    assert [pin.message_id for pin in thread.pins()] == ["b-on"]
    status, words = change(serving, "pin", {"message": "nothing"})
    assert (status, "holds no message 'nothing'" in words) == (409, True)
    assert {message["id"] for message in told.report()["messages"].values() if message["pinned"]} == {"b-on"}
    assert change(serving, "unpin", {"message": "b-on"})[0] == 200
    assert not thread.pins()
    assert change(serving, "unpin", {"message": "b-on"})[0] == 409


def test_an_undo_over_the_limit_is_asked_for_twice(serving: Server, told: Told) -> None:
    """The refusal says so, and the thread stays as it was."""
    told.grow("b")
    head = standing(told.graph)["head"]
    status, words = change(serving, "undo", {"compaction": head})
    assert (status, "the limit is 1,000" in words) == (409, True)
    assert standing(told.graph)["head"] == head


def test_nothing_changes_while_a_run_is_open(serving: Server, told: Told) -> None:
    """Neither while a run works on the thread nor before one that has to be resumed, with words for it."""
    told.grow("b")
    run = told.graph.stream(said("open", "open"), CONFIG, stream_mode="updates")
    next(run)
    answer = change(serving, "undo", {"force": True})
    assert answer == (409, "a run works on this thread: nothing was changed, try it when it is over")
    run.close()
    status, words = change(serving, "undo", {"force": True})
    assert (status, "resume it first" in words) == (409, True)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": None},
        {"Origin": "null"},
        {KEY: None},
        {KEY: "guessed"},
        {"Host": "evil.example"},
    ],
)
def test_no_other_page_changes_the_thread(serving: Server, told: Told, headers: dict[str, str | None]) -> None:
    """Without the page's own origin and key."""
    told.grow("b")
    before = told.report()["stamp"]
    assert change(serving, "undo", {"force": True}, **headers)[0] == 403
    assert told.report()["stamp"] == before


@pytest.mark.parametrize("given", ["words", [1], {"message": "x" * 10_000}])
def test_a_change_that_is_no_small_object_is_refused(serving: Server, given: object) -> None:
    """Whatever it is."""
    assert change(serving, "pin", given)[0] == 400
    assert change(serving, "nothing", {})[0] == 404


def test_a_change_is_sent_alone(serving: Server, told: Told) -> None:
    """After a turn and after a compaction, the answer is a small part of the page and makes it the newest."""
    for tag in "bcdefghijk":
        told.grow(tag)
    known = json.loads(ask(serving, DATA)[1])["values"]
    page = len(ask(serving, "/")[1])
    told.say("more")
    news = ask(serving, f"{DATA}?stamp={known['stamp']}")[1]
    assert len(news) * 20 <= page
    fresh = json.loads(news)
    for name, change in fresh["entries"].items():
        if change["length"] is None:
            known[name] |= change["at"]
        else:
            known[name] += [None] * (change["length"] - len(known[name]))
            for place, entry in change["at"].items():
                known[name][int(place)] = entry
            del known[name][change["length"] :]
    assert known | fresh["values"] == json.loads(ask(serving, DATA)[1])["values"]


def test_a_port_that_is_taken_is_told(serving: Server, told: Told, tmp_path: Path) -> None:
    """With what to do."""
    words = ["inspect", THREAD, "--db", told.url, "--serve", "--port", str(serving.server_port)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "choose another by --port" in done.stderr
    assert not list(tmp_path.glob("*.html"))
