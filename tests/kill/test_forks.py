from dataclasses import replace
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig

from tests.kill.recovery import COMMITS, check_whole
from tests.kill.scenarios import CRUCIAL, SCENARIOS, Worlds, act
from tests.kill.sight import Sight, sight
from tests.kill.world import CONFIG, World, filler, tell

PRECHECK = SCENARIOS["precheck"]


def tip(graph: Any) -> RunnableConfig:
    """The newest checkpoint, by its id."""
    found: RunnableConfig = graph.get_state(CONFIG).config
    return found


def ids(found: Sight) -> list[str]:
    """Ids of the whole conversation."""
    return [name for name, _, _ in found.transcript]


@pytest.mark.parametrize("name", ["precheck", "second"])
def test_a_fork_compacts_on_its_own_branch(world_of: Worlds, name: str) -> None:
    """Another message from before a compaction: its own commit and transcript, and the first branch untouched."""
    world = world_of(SCENARIOS[name])
    with world.opened() as graph:
        root = tip(graph)
        act(graph, SCENARIOS[name])
        first = tip(graph)
        before = sight(graph, world, first)
        tell(graph, f"pad {filler(75)}", "other", root)
        fork, after = sight(graph, world), sight(graph, world, first)
    check_whole(fork)
    check_whole(after)
    assert (before.messages, before.compaction, before.transcript) == (
        after.messages,
        after.compaction,
        after.transcript,
    )
    assert fork.epoch == after.epoch
    assert fork.compaction["head"] != after.compaction["head"]
    assert ids(fork)[-2:] == ["other", "a-other"]
    assert ids(after)[-2:] == [CRUCIAL, f"a-{CRUCIAL}"]
    assert CRUCIAL not in ids(fork)
    assert "other" not in ids(after)
    assert ids(fork)[:-2] == ids(after)[:-2]


def test_a_fork_that_says_the_same_pays_for_no_second_summary(world_of: Worlds) -> None:
    """The same words under another id are another conversation, but what leaves it is the same: one call in all."""
    world = world_of(PRECHECK)
    with world.opened() as graph:
        root = tip(graph)
        act(graph, PRECHECK)
        tell(graph, PRECHECK.text, "again", root)
        fork = sight(graph, world)
    assert fork.verdicts == ["committed", "committed"]
    assert len(fork.calls) == 1
    assert fork.ledger[0].summary == fork.ledger[1].summary
    assert fork.ledger[0].seen == fork.ledger[1].seen


MIDST = {"one that fits is finished": (0, 1, "summarize"), "one that does not is dropped": (195, 2, "commit")}
"""Words said on the fork -> how many compactions the ledger then has, and where the fork begins."""


@pytest.mark.parametrize("case", MIDST)
def test_a_fork_from_the_midst_of_a_compaction_leaves_the_first_branch_alone(world_of: Worlds, case: str) -> None:
    """The fork finds an open draft that has long been committed on the first branch, whose rows stay as they are."""
    words, commits, node = MIDST[case]
    world: World = replace(world_of(PRECHECK), now=1_000.0)
    with world.opened() as graph:
        act(graph, PRECHECK)
        first = tip(graph)
        before = sight(graph, world, first)
        (midst,) = (state.config for state in graph.get_state_history(CONFIG) if state.next == (node,))
    later = replace(world, now=2_000.0)
    with later.opened() as graph:
        tell(graph, f"pad {filler(words)}", "other", midst)
        fork, after = sight(graph, later), sight(graph, later, first)
    check_whole(fork)
    check_whole(after)
    assert (after.messages, after.compaction, after.transcript) == (
        before.messages,
        before.compaction,
        before.transcript,
    )
    assert ids(fork)[-3:] == [CRUCIAL, "other", "a-other"]
    assert len(fork.ledger) == commits
    assert {row.verdict for row in fork.ledger} <= COMMITS
    assert f"a-{CRUCIAL}" not in ids(fork)
