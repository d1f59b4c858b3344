"""The page in a real browser: by mouse and by keyboard, light and dark, hostile words, a thread that goes on."""

import threading
from collections.abc import Iterator
from html import escape
from pathlib import Path

import pytest

from langgraph_compaction.checkpoint.compaction.ledger import PREPARING
from langgraph_compaction.graph import CompactionThread
from langgraph_compaction.graph.cli.inspect_thread import edits_of
from langgraph_compaction.graph.inspector.page import page
from langgraph_compaction.graph.inspector.serving import Server
from langgraph_compaction.graph.inspector.thread_data import stamp
from langgraph_compaction.nodes.compaction_request import WISHES
from langgraph_compaction.nodes.runtime.engine import TOKEN_TRIGGERS
from langgraph_compaction.nodes.runtime.window_usage import LOOKS
from tests.graph.harness import CONFIG, THREAD
from tests.graph.inspector.browser import Page, browser
from tests.graph.inspector.conftest import HOSTILE, Told

CHOSEN = "document.querySelector('#chosen').textContent"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Return a browser's tab."""
    with browser(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.fixture
def seen(tab: Page, every: Told, tmp_path: Path) -> Iterator[Page]:
    """Return it with the page of a thread open, and see that it had nothing to complain of."""
    file = tmp_path / "page.html"
    file.write_text(page(every.report()), encoding="utf-8")
    tab.complaints.clear()
    tab.asked.clear()
    tab.look()
    tab.open(file.as_uri())
    yield tab
    tab.run("new Promise(done => setTimeout(done, 0))")
    assert tab.complaints == []
    assert set(tab.asked) == {file.as_uri()}
    assert tab.run("window.owned === undefined && !document.querySelector('img, #what script, #transcript script')")


def open_turns(seen: Page) -> None:
    """Open all turns of the transcript."""
    seen.run("document.querySelectorAll('#transcript details').forEach(part => { part.open = true; })")
    seen.until("[...document.querySelectorAll('#transcript details')].every(part => part.childElementCount > 1)")


def test_a_compaction_is_opened_by_mouse(seen: Page) -> None:
    """By its mark in the chart, and by its row in the list."""
    seen.click(".mark.failed")
    assert seen.run(CHOSEN) == "No. 1 of 5: rejected_empty"
    assert "left as it was, byte for byte" in seen.run("document.querySelector('#what').textContent")
    assert seen.run("document.querySelector('.mark.failed').getAttribute('aria-pressed')") == "true"
    seen.click("#list tbody tr:nth-child(3) td:last-child")
    assert seen.run(CHOSEN) == "No. 3 of 5: degraded_deterministic"
    assert seen.run("document.querySelectorAll('#list [aria-current]').length") == 1


def test_a_message_names_the_compaction_at_which_it_left(seen: Page, every: Told) -> None:
    """In the transcript, as a link that opens the compaction; not one that is undone or on another branch."""
    report = every.report()
    open_turns(seen)
    gone = [report["messages"][seq]["handle"] for seq in report["attempts"][2]["left"]]
    signs = seen.run(
        "[...document.querySelectorAll('#transcript .message.archive')].map(one =>"
        "[one.querySelector('code').textContent, one.querySelector('.sign').textContent])"
    )
    assert signs
    assert {handle: sign for handle, sign in signs if handle in gone} == dict(signs)
    assert {sign for _, sign in signs} == {"left at compaction 3"}
    seen.click(".mark.failed")
    seen.click("#transcript .message.archive .sign a")
    seen.until(f"{CHOSEN} === 'No. 3 of 5: degraded_deterministic'")


def test_compactions_that_thrash_are_warned_of(seen: Page, every: Told, tmp_path: Path) -> None:
    """Above the list, and in their rows; nothing without such a compaction."""
    assert seen.run("document.querySelector('#frequent').textContent") == ""
    file = tmp_path / "page.html"
    file.write_text(page({**every.report(), "frequent": [2]}), encoding="utf-8")
    seen.open(file.as_uri())
    assert seen.run("document.querySelector('#frequent').textContent").startswith("1 of 3 compactions")
    assert seen.run("document.querySelectorAll('#list .put-off')[0].closest('tr').cells[0].textContent") == "3"


def test_bars_show_what_filled_the_window(seen: Page, every: Told) -> None:
    """One before a commit and one after it, of the same width, with all parts in one order; one of a failure."""
    seen.click(".mark.failed")
    bars = "[...document.querySelectorAll('#what .bars > div[style*=height]')]"
    assert seen.run(f"{bars}.length") == 1
    seen.click("#list tbody tr:nth-child(3) td:last-child")
    widths = seen.run(f"{bars}.map(one => one.getBoundingClientRect().width)")
    assert len(widths) == 2
    assert widths[0] == widths[1] > 100
    seen.look(width=390)
    over = "(box => box.scrollWidth - box.clientWidth)(document.querySelector('#what .bars'))"
    assert seen.run(over) == 0, "the names go on in the next line"
    seen.look()
    legend = "document.querySelector('#what .bars').innerText.trim().split(/\\s*■ /).slice(1)"
    before, after = (usage["parts"] for usage in every.report()["attempts"][2]["window"])
    names = [name for name in LOOKS if name in {**before, **after}]
    assert seen.run(legend) == [f"{name} {before.get(name, 0):,} → {after.get(name, 0):,}" for name in names]


def test_a_compaction_is_opened_by_keyboard(seen: Page) -> None:
    """One stop of the tab key leads to the marks, arrows from one to the next; Escape leads back."""
    for _ in range(30):
        if seen.run("document.activeElement.matches('.mark')"):
            break
        seen.press("Tab")
    seen.press("Home")
    seen.press("ArrowRight")
    seen.press("Enter")
    assert seen.run(CHOSEN) == "No. 2 of 5: degraded_deterministic"
    assert seen.run("document.activeElement.id") == "chosen"
    seen.press("Escape")
    assert seen.run("document.activeElement.dataset.index") == "1"
    assert seen.run("document.querySelectorAll('.mark[tabindex=\"0\"]').length") == 1
    seen.press("Tab")
    assert seen.run("document.activeElement.matches('.mark')") is False


def test_a_compaction_shows_what_it_did(seen: Page) -> None:
    """Figures, the summary, pins, what left, and a diff in which nothing is missing."""
    seen.click("#list tbody tr:nth-child(3) button")
    told = seen.run("document.querySelector('#what').innerText")
    for words in (
        "before",
        "after",
        "Summary",
        "Pins",
        "Goal",
        "What left: 19 messages",
        "19 left, 0 shortened, 1 came",
    ):
        assert words in told, words
    assert seen.run("document.querySelectorAll('#what .message.gone').length") == 19
    assert seen.run("document.querySelectorAll('#what .message.come').length") == 1
    hostile = seen.run("[...document.querySelectorAll('#what .gone .text')].map(one => one.textContent).join('')")
    assert HOSTILE.splitlines()[0] in hostile


def test_what_a_compaction_did_not_touch_is_kept(seen: Page, every: Told, tmp_path: Path) -> None:
    """Also a message that an earlier compaction shortened, and that is stored anew in the same form."""
    report = every.report()
    attempt = report["attempts"][2]
    last = max(report["messages"]) + 1
    assert attempt["after"] is not None
    start, length = attempt["after"][-1]
    report["messages"][last] = report["messages"][start + length - 1]
    attempt["after"] = [*attempt["after"][:-1], (start, length - 1), (last, 1)]
    file = tmp_path / "page.html"
    file.write_text(page(report), encoding="utf-8")
    seen.open(file.as_uri())
    seen.click("#list tbody tr:nth-child(3) button")
    assert "19 left, 0 shortened, 1 came" in seen.run("document.querySelector('#what').innerText")


def test_the_transcript_tells_view_and_archive_apart(seen: Page) -> None:
    """By words as by looks; and can be searched."""
    assert seen.run("document.querySelector('#count').textContent") == "40 messages"
    open_turns(seen)
    assert seen.run("document.querySelectorAll('#transcript .archive').length") > 0
    assert "left at compaction 3" in seen.run("document.querySelector('#transcript .archive header').textContent")
    seen.click("input[value=view]")
    seen.until("document.querySelector('#count').textContent === '22 messages'")
    assert seen.run("document.querySelectorAll('#transcript .archive').length") == 0
    seen.click("input[value=archive]")
    seen.until("document.querySelectorAll('#transcript .view').length === 0")
    seen.click("input[type=search]")
    seen.send("Input.insertText", text="window.owned")
    seen.until("document.querySelector('#count').textContent.startsWith('1 message ')")
    assert seen.run("document.querySelector('#count').textContent").endswith(", 3 hits")
    marks = "[...document.querySelectorAll('#transcript details[open] mark')].map(one => one.textContent)"
    assert seen.run(marks) == ["window.owned"] * 3
    seen.click("input[value=all]")
    look = "const field = document.querySelector('input[type=search]'); field.value = 'A';"
    seen.run(f"{look} field.dispatchEvent(new Event('input', {{bubbles: true}}))")
    seen.until("document.querySelectorAll('#transcript details[open]').length > 1")
    assert seen.run("document.querySelectorAll('#transcript details:not([open])').length") == 0


def test_a_request_is_read_by_a_click_on_the_curve(seen: Page, every: Told) -> None:
    """What was sent and what was answered, from the chart, from the table and by the steps; tool calls as JSON."""
    seen.run("ask(0)")
    request = every.report()["requests"][0]
    assert seen.run("document.querySelectorAll('#sent .message').length") == 1 + sum(n for _, n in request["sent"])
    seen.run(
        "document.querySelector('#chart svg:not(.axis)').dispatchEvent(new MouseEvent('click', {clientX: 9999}))"
    )
    last = len(every.report()["requests"])
    assert seen.run("document.querySelector('#request').textContent").startswith(f"Request {last} of {last}, turn ")
    seen.click("#sent button")
    assert seen.run("document.querySelector('#request').textContent").startswith(f"Request {last - 1} of {last}, ")
    seen.run("document.querySelector('#twin').open = true")
    seen.until("document.querySelector('#twin tbody button')")
    seen.click("#twin tbody button")
    assert seen.run("document.querySelector('#request').textContent").startswith(f"Request 1 of {last}, ")
    assert seen.run("document.querySelector('#sent .message:last-child .text').textContent") == "answered"


def test_the_page_works_in_a_frame(seen: Page, every: Told, tmp_path: Path) -> None:
    """As a notebook shows it: a request is opened, and a link leads to the compaction without leaving the page."""
    file = tmp_path / "page.html"
    file.write_text(f'<!doctype html><iframe srcdoc="{escape(page(every.report()))}"></iframe>', encoding="utf-8")
    seen.open(file.as_uri())
    frame = "document.querySelector('iframe')"
    seen.until(f"{frame}.contentWindow.ask && {frame}.contentDocument.querySelector('.glance')")
    seen.run(f"{frame}.contentWindow.ask({len(every.report()['requests']) - 1})")
    assert seen.run(f"{frame}.contentDocument.querySelector('#request').textContent").startswith("Request ")
    seen.run(f"{frame}.contentWindow.choose(0, false)")
    said = seen.run(f"{frame}.contentDocument.querySelector('#sent a').textContent")
    seen.run(f"{frame}.contentDocument.querySelector('#sent a').click()")
    chosen = seen.run(f"{frame}.contentDocument.querySelector('#chosen').textContent")
    assert chosen.startswith(f"No. {said.removeprefix('summary of compaction ')} of 5: ")


def test_the_last_compaction_explains_itself(seen: Page, every: Told) -> None:
    """Why it began, what left, what it cost and how to undo it or bring it back, the last one without a click."""
    told = seen.run("document.querySelector('.glance').innerText")
    assert "To bring it back, as long as nothing was compacted since: langgraph-compaction undo thread --redo" in told
    attempt = every.report()["attempts"][2]
    seen.click("#list tbody tr:nth-child(3) td:last-child")
    told = seen.run("document.querySelector('.glance').innerText")
    for words in (
        f"{attempt['row']['tokens_before']} tokens; trigger 800, limit 1,000",
        f"{len(attempt['left'])} messages",
        "No call for a summary.",
        f"undo {THREAD} {attempt['row']['compaction_id']} --db URL",
    ):
        assert words in told, words


def test_the_cause_of_every_attempt_of_the_package_is_told_in_words(seen: Page) -> None:
    """Only a trigger of an application is shown by its name."""
    for trigger in (*TOKEN_TRIGGERS, *WISHES, "overflow", PREPARING):
        told = seen.run(
            f"why({{...state.data.attempts[2], row: {{trigger: '{trigger}', tokens_before: 9}}}}).innerText"
        )
        assert f"“{trigger}”" not in told


def test_a_thread_that_goes_on_is_followed(tab: Page, told: Told) -> None:
    """The page draws what is new by itself, and keeps what was chosen."""
    with Server(told.report, lambda: stamp(told.saver, THREAD)) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        tab.complaints.clear()
        tab.open(f"http://127.0.0.1:{serving.server_port}/")
        tab.click(".mark.failed")
        told.grow("b")
        tab.until("document.querySelectorAll('#list tbody tr').length === 2")
        assert tab.run("document.querySelectorAll('#chart .mark.committed').length") == 1
        assert tab.run("document.querySelector('.mark.failed').getAttribute('aria-pressed')") == "true"
        tab.open("about:blank")
        serving.shutdown()
    assert tab.complaints == []


def test_the_page_of_a_running_server_changes_the_thread(tab: Page, told: Told) -> None:
    """Undo from the details, where it would be over the limit by a second button, and a pin from the transcript."""
    with Server(told.report, lambda: stamp(told.saver, THREAD), edits=edits_of(told.saver, THREAD)) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        tab.complaints.clear()
        told.grow("b")
        tab.open(f"http://127.0.0.1:{serving.server_port}/")
        assert tab.run("document.querySelector('.glance button').textContent") == "Undo"
        tab.click(".glance button")
        tab.until("document.querySelector('#done button')")
        assert "the limit is 1,000" in tab.run("document.querySelector('#done').textContent")
        tab.click("#done button")
        tab.until("document.querySelectorAll('#list tbody tr').length === 3")
        assert tab.run("document.querySelector('#done').textContent").startswith("undone: ")
        tab.until("[...document.querySelectorAll('.glance button')].some(one => one.textContent === 'Redo')")
        tab.click("#transcript .message button")
        tab.until("document.querySelector('#done').textContent.startsWith('The message is pinned')")
        assert len(CompactionThread(told.graph, CONFIG).pins()) == 1
        assert tab.run("document.querySelector('#done').getBoundingClientRect().top") >= 0
        tab.until("document.querySelector('#transcript .message button').textContent === 'Unpin'")
        tab.click("#transcript .message button")
        tab.until("document.querySelector('#done').textContent.startsWith('The message is no longer')")
        assert not CompactionThread(told.graph, CONFIG).pins()
        tab.open("about:blank")
        serving.shutdown()
    # Chromium reports the refused undo, whose status is 409
    assert [one for one in tab.complaints if "409" not in one] == []
