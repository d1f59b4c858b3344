from html.parser import HTMLParser
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from langgraph_compaction.graph import CompactionThread
from langgraph_compaction.graph.history import diff
from langgraph_compaction.graph.notebook_display import SHOWN
from langgraph_compaction.nodes.runtime.window_usage import stored_usages
from tests.graph.harness import CONFIG, values
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
    assert f"dropped: {len(done.dropped)} messages" in text
    assert "&lt;/script&gt;" in text
    was, now = (usage.parts for usage in stored_usages(done.window))
    assert text.count("display:flex;height:14px") == 2, "a bar before and one after"
    for name in ("user", "summary", "free"):
        assert f"{name} {was.get(name, 0):,} → {now[name]:,}</span>" in text
    assert "dropped: " in shown(diff(before, values(told.graph)["messages"]))
    assert f"Undone: {done.compaction_id}" in shown(CompactionThread(told.graph, CONFIG).undo(force=True))


@pytest.mark.parametrize("count", [1, SHOWN + 7])
def test_long_lists_are_shown_in_part(count: int) -> None:
    """And say how much more there is."""
    messages = [HumanMessage(HOSTILE, id=str(n)) for n in range(count)]
    text = shown(diff(messages, []))
    assert text.count("<em>user</em>") == min(count, SHOWN)
    assert ("and 7 more" in text) == (count > SHOWN)
