import pytest
from langchain_core.messages import HumanMessage, RemoveMessage

from tests.kill.children import is_killed
from tests.kill.fuse import Fuse
from tests.kill.recovery import check_whole, recover, resume
from tests.kill.scenarios import SCENARIOS, Worlds, fused
from tests.kill.sight import look_at
from tests.kill.world import CONFIG, World

PRECHECK = SCENARIOS["precheck"]
DEATHS = {
    "put to selective_compaction:after": "token_check",
    "sql record_summary:after": "selective_compaction",
    "sql commit:after": "summarize",
    "put to model:after": "commit",
}
"""Where the process died, and the node whose checkpoint is the last."""


def update(world: World, message: HumanMessage | RemoveMessage, node: str) -> None:
    """Change the thread while nobody runs it."""
    with world.opened() as graph:
        graph.update_state(CONFIG, {"messages": [message]}, as_node=node)


@pytest.mark.parametrize("place", DEATHS)
def test_a_message_sent_meanwhile_is_there(world_of: Worlds, place: str) -> None:
    """What arrives between death and recovery stays behind what was said before, whichever way the thread goes on."""
    world = world_of(PRECHECK)
    assert is_killed(lambda: fused(world, PRECHECK, Fuse(place)))
    update(world, HumanMessage("and this", id="meanwhile"), DEATHS[place])
    again = world.copied(world.folder.with_name("again"))
    for after, last in (
        (recover(world), ["meanwhile", "next", "a-next"]),
        (resume(again), ["meanwhile", "a-meanwhile"]),
    ):
        check_whole(after)
        assert [message.id for message in after.messages][-len(last) :] == last
        assert [name for name, _, _ in after.transcript][-len(last) :] == last
        assert after.epoch == 1
        assert set(after.verdicts) <= {"recovered", "abandoned", "committed"}


@pytest.mark.parametrize("place", ["put to commit:after", "sql commit:after"])
def test_a_draft_that_names_a_deleted_message_is_stale(world_of: Worlds, place: str) -> None:
    """What the application deletes while the process is dead stays deleted, and that draft compacts nothing."""
    world = world_of(PRECHECK)
    assert is_killed(lambda: fused(world, PRECHECK, Fuse(place)))
    named = look_at(world).compaction["draft"]["drop"][0]
    update(world, RemoveMessage(named), "summarize")
    after = resume(world)
    assert after.ledger[0].verdict == "stale"
    assert named not in [name for name, _, _ in after.transcript]
