from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.graph import CompactionError, CompactionThread, SettingsError
from langgraph_compaction.graph.history import diff
from langgraph_compaction.graph.inspector.page import page
from langgraph_compaction.graph.notebook_display import SHOWN
from langgraph_compaction.nodes.runtime.window_usage import stored_usages
from tests.graph.harness import CONFIG, agent, full, values
from tests.graph.inspector.conftest import HOSTILE, Told

HARMLESS = {
    "div",
    "span",
    "strong",
    "table",
    "tbody",
    "tr",
    "th",
    "td",
    "details",
    "summary",
    "p",
    "em",
    "del",
    "ins",
    "pre",
}


def tags(text: str) -> set[str]:
    """The tags in a text."""
    found: set[str] = set()
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: found.update(
        [tag, *(name for name, _ in attrs if name not in {"style", "scope"})]
    )  # of this parser alone
    parser.feed(text)
    return found


def shown(value: Any) -> str:
    """What a notebook shows of a value."""
    text: str = value._repr_html_()
    assert tags(text) <= HARMLESS
    return text


def test_a_notebook_shows_what_a_compaction_did(told: Told) -> None:
    """Its verdict, its figures, its messages as text, its summary."""
    before = values(told.graph)["messages"]
    assert "What a compaction would do" in shown(CompactionThread(told.graph, CONFIG).preview())
    told.grow("b")
    failed, done = CompactionThread(told.graph, CONFIG).history()
    assert "rejected_empty" in shown(CompactionThread(told.graph, CONFIG).show(failed.compaction_id))
    text = shown(CompactionThread(told.graph, CONFIG).show(done.compaction_id))
    assert f'<td style="text-align:left;padding:1px 0">{done.tokens_before:,}</td>' in text
    assert f"left the view: {len(done.dropped)} messages" in text
    assert "&lt;/script&gt;" in text
    was, now = (usage.parts for usage in stored_usages(done.window))
    assert text.count("display:flex;height:14px") == 2, "a bar before and one after"
    for name in ("user", "summary", "free"):
        assert f"{name} {was.get(name, 0):,} → {now[name]:,}" in text
    assert "left the view: " in shown(diff(before, values(told.graph)["messages"]))
    assert "The next request reached the trigger, as checked before the model was called: " in text
    assert f"thread.undo(&#34;{done.compaction_id}&#34;)" in text
    assert "no call for a summary" in text
    assert "calls for the summary: 3, " in shown(CompactionThread(told.graph, CONFIG).show(failed.compaction_id))
    assert f"Undone: {done.compaction_id}" in shown(CompactionThread(told.graph, CONFIG).undo(force=True))
    assert f"Done again: {done.compaction_id}" in shown(CompactionThread(told.graph, CONFIG).redo())


def test_a_notebook_shows_the_report_in_a_frame(told: Told, tmp_path: Path) -> None:
    """The inspector's page, whose scripts cannot reach the notebook; and the file has the same page."""
    told.grow("b")
    report = CompactionThread(told.graph, CONFIG).report()
    assert tags(report._repr_html_()) <= {"iframe", "title", "sandbox", "srcdoc"}
    frames: list[dict[str, str | None]] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda _, attrs: frames.append(dict(attrs))  # of this parser alone
    parser.feed(report._repr_html_())
    assert frames[0]["sandbox"] == "allow-scripts"
    report.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == frames[0]["srcdoc"] == page(report.data)
    assert [one["row"] for one in report.data["attempts"]] == [one["row"] for one in told.report()["attempts"]]
    with pytest.raises(SettingsError, match="cannot be written"):
        report.save(tmp_path / "nowhere" / "page.html")


def test_a_chart_marks_an_undone_compaction_once(every: Told) -> None:
    """Where it was committed; the undo itself is no compaction."""
    pytest.importorskip("matplotlib")
    axes = CompactionThread(every.graph, CONFIG).plot().figure.axes[0]
    (marks,) = (one for one in axes.collections if one.get_label() == "undone compaction")
    assert len(marks.get_offsets()) == 1


def test_a_chart_needs_stored_requests() -> None:
    """A checkpointer of another package has them, but ours reads only its own."""
    graph = agent(checkpointer=InMemorySaver())
    graph.invoke(full(), CONFIG)
    assert len(CompactionThread(graph, CONFIG).report().data["attempts"]) == 1
    with pytest.raises(CompactionError, match="SQLAlchemySaver"):
        CompactionThread(graph, CONFIG).plot()


@pytest.mark.parametrize("count", [1, SHOWN + 7])
def test_long_lists_are_shown_in_part(count: int) -> None:
    """And say how much more there is."""
    messages = [HumanMessage(HOSTILE, id=str(n)) for n in range(count)]
    text = shown(diff(messages, []))
    assert text.count("<em>user</em>") == min(count, SHOWN)
    assert ("and 7 more" in text) == (count > SHOWN)
