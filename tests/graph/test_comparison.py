"""Policies compared on a recording, and a recording played as a thread: what a notebook shows of both."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from langgraph_compaction.graph import CompactionSettings, SettingsError
from langgraph_compaction.graph.lab import Comparison, Recording, compare, play, read_recordings
from tests.graph.inspector.test_display import tags

HARMLESS = {"table", "caption", "thead", "tbody", "tr", "th", "td", "br", "small"}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Ten letters; each is sent with the number that its draft gave."""
    messages = [{"role": "system", "content": "You write letters."}]
    for n in range(10):
        call = {"name": "draft", "arguments": json.dumps({"customer": f"C-{n}", "earlier": f"L-{n - 3}"})}
        asked = {"id": f"call-{n}", "type": "function", "function": call}
        messages += [
            {"role": "user", "content": f"Write to customer C-{n} about the invoice."},
            {"role": "assistant", "content": None, "tool_calls": [asked]},
            {"role": "tool", "tool_call_id": f"call-{n}", "content": f"Letter L-{n}. " + "Please pay soon. " * 20},
            {"role": "assistant", "content": "It is written."},
        ]
    path = tmp_path_factory.mktemp("recorded") / "letters.json"
    path.write_text(json.dumps(messages))
    return read_recordings(path)[0]


@pytest.fixture(scope="module")
def comparison(recording: Recording) -> Comparison:
    """A preset under a hostile name, in a window that it has to compact in and in one that holds everything."""
    policies = {"<img src=x onerror=alert(1)>": CompactionSettings(preset="recent_rounds")}
    return compare(recording, policies, [0.3, 100_000])


def test_a_preset_is_a_policy_by_its_name(recording: Recording, comparison: Comparison) -> None:
    """With the same figures as its settings under a name of their own."""
    (first, *_) = compare([recording], ["recent_rounds"], [0.3])
    assert first == {**comparison.rows[0], "policy": "recent_rounds"}


def test_a_notebook_shows_each_policy_in_each_window(comparison: Comparison) -> None:
    """As a table, in which names are text."""
    shown = comparison._repr_html_() or ""
    assert tags(shown) - {"scope"} <= HARMLESS
    cells: list[str] = []
    parser = HTMLParser()
    parser.handle_data = lambda data: cells.append(data.strip())  # of this parser alone
    parser.feed(shown)
    assert {"30%", "100,000 tokens", "<img src=x onerror=alert(1)>"} <= set(cells)
    assert [f"cost {row['cost']:.2f}" for row in comparison] != []
    assert {f"cost {row['cost']:.2f}" for row in comparison} <= set(cells)


def test_the_map_has_the_windows_in_which_policies_differ(comparison: Comparison) -> None:
    """And says which others there were."""
    pytest.importorskip("matplotlib")
    figure = comparison.plot("available", "cost", "calls").figure
    assert len(figure.axes) == 3
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["30%"]
    assert "100,000 tokens" in figure.get_supxlabel()
    drawn = {text.get_text() for text in figure.axes[0].texts}
    assert drawn == {f"{row['available']:.0%}" for row in comparison if row["window"] == 0.3}
    with pytest.raises(SettingsError, match="no map of compactions; there are available, calls"):
        comparison.plot("compactions")


def test_a_recording_becomes_a_thread(recording: Recording, tmp_path: Path) -> None:
    """With every request, so that its chart and its report have them, and the whole conversation."""
    pytest.importorskip("matplotlib")
    thread = play(recording, CompactionSettings(preset="recent_rounds"), window=0.4)
    assert [message.text for message in thread.transcript()] == [message.text for message in recording.messages]
    assert any(row.is_committed for row in thread.history())
    report = thread.report()
    requests = [one["tokens"] for one in report.data["requests"]]
    assert len(requests) == 20
    (sizes, *_), window = thread.plot().figure.axes[0].lines, thread.plot().figure.axes[1]
    assert list(sizes.get_ydata()) == requests
    assert "free" in window.get_legend_handles_labels()[1][-1]
    thread.plot().save(tmp_path / "requests.svg")
    assert (tmp_path / "requests.svg").read_bytes().startswith(b"<?xml")
