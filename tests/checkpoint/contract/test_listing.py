"""`list`: what it finds, in which order, and that it holds nobody up."""

from contextlib import closing
from enum import Enum
from itertools import product
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base.id import uuid6

from langgraph_compaction.checkpoint import SQLAlchemySaver
from tests.checkpoint.contract.conftest import Opened
from tests.checkpoint.contract.steps import Saver, Steps, id_of, ids, where
from tests.checkpoint.samples import talk


def test_a_list_holds_nobody_up(saver: Saver, thread_id: str) -> None:
    """Inside a loop over `list` the thread can be read and written, and the loop still shows what there was."""
    steps = Steps(saver, thread_id)
    stored = [id_of(steps.put({"x": number, "messages": talk(number)})) for number in range(4)]
    seen: list[str] = []
    for each in saver.list(where(thread_id)):
        seen.append(id_of(each.config))
        assert saver.get_tuple(each.config) == each
        saver.put_writes(each.config, [("x", 1)], "task")
        Steps(saver, thread_id, "inner:1").put({"x": 1})
        steps.put({"x": 1})
    assert [each for each in seen if each in stored] == stored[::-1]


@pytest.mark.parametrize("erase", [SQLAlchemySaver.delete_thread, lambda saver, name: saver.prune([name])])
def test_a_thread_may_be_erased_while_it_is_listed(saver: SQLAlchemySaver, thread_id: str, erase: Any) -> None:
    """A loop over a list ends without an error, though what it would have shown next has gone."""
    steps = Steps(saver, thread_id)
    stored = [id_of(steps.put({"messages": talk(number)})) for number in range(60)]
    with closing(saver.list(where(thread_id))) as found:
        seen = [id_of(next(found).config)]
        erase(saver, thread_id)
        seen += ids(found)
    assert seen == stored[::-1][: len(seen)]


@pytest.fixture
def stored(saver: Saver, thread_id: str) -> list[tuple[RunnableConfig, dict[str, Any]]]:
    """Put five checkpoints in each of two namespaces, in turn; return configs and metadata, oldest first."""
    spaces = [Steps(saver, thread_id), Steps(saver, thread_id, "inner:1")]
    found = []
    for number, space in product(range(5), spaces):
        metadata = {"source": "input" if number % 2 else "loop", "step": number - 1, "even": number % 2 == 0}
        found.append((space.put({"x": number}, **metadata), metadata))
    return found


@pytest.mark.parametrize(
    "wanted", [None, {}, {"source": "loop"}, {"source": "loop", "step": 1}, {"even": False}, {"unknown": 1}]
)
def test_filter_before_and_limit_go_together(
    saver: Saver,
    thread_id: str,
    stored: list[tuple[RunnableConfig, dict[str, Any]]],
    wanted: dict[str, Any] | None,
) -> None:
    """Each combination gives the newest of those that match, of the namespace that is named."""
    matching = [
        (number, config)
        for number, (config, metadata) in enumerate(stored)
        if all(metadata.get(key) == value for key, value in (wanted or {}).items())
    ]
    for namespace, before, limit in product(("", "inner:1"), (None, 0, 4, 9), (None, 0, 1, 2, 100)):
        expected = [
            id_of(config)
            for number, config in reversed(matching)
            if config["configurable"]["checkpoint_ns"] == namespace and (before is None or number < before)
        ]
        edge = None if before is None else stored[before][0]
        found = saver.list(where(thread_id, namespace=namespace), filter=wanted, before=edge, limit=limit)
        assert ids(found) == expected[:limit], (namespace, before, limit)


def test_a_config_says_how_much_is_listed(
    saver: Saver, thread_id: str, stored: list[tuple[RunnableConfig, dict[str, Any]]]
) -> None:
    """One checkpoint, all namespaces of a thread with the newest first across them, or every thread."""
    newest_first, config = [id_of(each) for each, _ in reversed(stored)], stored[4][0]
    everywhere: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    assert ids(saver.list(everywhere)) == newest_first
    assert ids(saver.list(everywhere, limit=3)) == newest_first[:3]
    assert ids(saver.list(everywhere, before=config)) == newest_first[6:]
    assert ids(saver.list(config)) == [id_of(config)]
    assert ids(saver.list(config, filter={"step": 77})) == []
    assert ids(saver.list(where(thread_id, id_of(config), namespace="inner:1"))) == []
    others = [Steps(saver, f"{thread_id}-{number}").put({"x": 1}, mark=thread_id) for number in range(3)]
    assert set(ids(saver.list(None, filter={"mark": thread_id}))) == {id_of(each) for each in others}
    assert len(ids(saver.list(None, filter={"mark": thread_id}, limit=2))) == 2


def test_a_long_list_is_whole(saver: Saver, thread_id: str) -> None:
    """Two hundred checkpoints are listed without a gap, and the few among them that match are found."""
    steps = Steps(saver, thread_id)
    stored = [id_of(steps.put({"messages": talk(number % 7)}, third=number % 70 == 3)) for number in range(200)]
    assert ids(saver.list(where(thread_id))) == stored[::-1]
    matching = [stored[143], stored[73], stored[3]]
    assert ids(saver.list(where(thread_id), filter={"third": True})) == matching
    assert ids(saver.list(where(thread_id), filter={"third": True}, limit=2)) == matching[:2]
    middle = where(thread_id, stored[100])
    assert ids(saver.list(where(thread_id), filter={"third": True}, before=middle, limit=1)) == [stored[73]]


def test_before_takes_an_id_that_is_not_stored(saver: Saver, thread_id: str) -> None:
    """Where the checkpoint that a page ended with has gone, the next page is found by its id."""
    steps = Steps(saver, thread_id)
    older = id_of(steps.put({"x": 1}))
    gone = str(uuid6())
    steps.put({"x": 2})
    assert ids(saver.list(where(thread_id), before=where(thread_id, gone))) == [older]


VALUES: list[Any] = [
    *("text", "", 7, -1.5, True, 'it\'s 100% _ \\ "quoted"', "Grüße 世界 \U0001f600"),
    *([1, "two"], {"a": 1}, {"a": 1, "b": 2}),
]


def test_a_filter_wants_the_whole_value(saver: Saver, thread_id: str) -> None:
    """A value of any JSON kind is found by itself and by nothing else, nor by a part of it."""
    steps = Steps(saver, thread_id)
    stored = [id_of(steps.put({}, key=value)) for value in VALUES]
    steps.put({})
    assert [ids(saver.list(where(thread_id), filter={"key": value})) for value in VALUES] == [[one] for one in stored]


@pytest.mark.parametrize("key", ["a.b", "step') OR 1=1 --", 'x"y', "$", "% _ *", "世界", "a' = 'a"])
def test_a_filter_key_is_a_name_and_nothing_else(saver: Saver, thread_id: str, key: str) -> None:
    """A key that reads like SQL or like a path matches the metadata of exactly that name."""
    steps = Steps(saver, thread_id)
    wanted = id_of(steps.put({}, **{key: 1}))
    steps.put({}, a={"b": 1})
    assert ids(saver.list(where(thread_id), filter={key: 1})) == [wanted]
    assert ids(saver.list(where(thread_id), filter={f"{key}'": 1})) == []


def test_threads_are_found_by_the_beginning_of_their_ids(saver: SQLAlchemySaver, thread_id: str) -> None:
    """Compared character by character: neither case nor the signs of a pattern have another meaning."""
    names = [f"{thread_id}{end}" for end in ("", "-ä1", "-ä12", "-Ä1", "_%", "_x")]
    for name in names:
        Steps(saver, name).put({"x": 1})
    assert saver.threads(thread_id) == names
    assert saver.threads(f"{thread_id}-ä1") == names[1:3]
    assert saver.threads(f"{thread_id}_%") == names[4:5]
    assert saver.threads(f"{thread_id}_") == names[4:]
    assert saver.threads(thread_id.upper()) == []


def test_threads_are_found_by_the_metadata_of_any_checkpoint(saver: SQLAlchemySaver, thread_id: str) -> None:
    """One checkpoint, of any age and namespace, has all items; with the same values, of the same types."""
    one, old, inner, split, other = (f"{thread_id}-{number}" for number in range(5))
    Steps(saver, one).put({"messages": talk(3)}, user="u1", tenant=1, roles=["a"])
    steps = Steps(saver, old)
    steps.put({"x": 1}, user="u1", tenant=1)
    for number in range(40):
        steps.put({"x": number}, user="u2")
    Steps(saver, inner, "inner:1").put({"x": 1}, user="u1", tenant=1)
    steps = Steps(saver, split)
    steps.put({"x": 1}, user="u1")
    steps.put({"x": 2}, tenant=1)
    Steps(saver, other).put({"x": 1}, user="u2", tenant="1")

    def found(**metadata: Any) -> list[str]:
        return saver.threads(thread_id, metadata)

    assert found(user="u1", tenant=1) == [one, old, inner]
    assert found(user="u1") == [one, old, inner, split]
    assert found(roles=["a"]) == [one]
    assert found(tenant="1") == [other]
    assert found(user="u3") == []
    assert [name for name in saver.threads(metadata={"user": "u1"}) if name.startswith(thread_id)] == found(user="u1")


@pytest.mark.parametrize("filters", [{"prefix": ""}, {"metadata": {}}])
async def test_an_empty_filter_of_threads_is_refused(saver: SQLAlchemySaver, filters: dict[str, Any]) -> None:
    """It would mean every thread, of which somebody may want to erase those that are found."""
    with pytest.raises(ValueError, match="empty"):
        saver.threads(**filters)
    with pytest.raises(ValueError, match="empty"):
        await saver.athreads(**filters)
    assert await saver.athreads() == saver.threads()


class Color(str, Enum):  # noqa: UP042 - the text of a StrEnum's member is its value
    """An enumeration whose members equal texts."""

    RED = "red"


def test_a_filter_finds_a_member_of_an_enumeration_by_its_text(opened: Opened, thread_id: str) -> None:
    """A member that equals a text is found by the text, and the other way round."""
    saver = opened(allow=[Color])
    steps = Steps(saver, thread_id)
    both = [id_of(steps.put({"x": 1}, color=color)) for color in (Color.RED, "red")]
    for wanted in (Color.RED, "red"):
        assert ids(saver.list(where(thread_id), filter={"color": wanted})) == both[::-1]
