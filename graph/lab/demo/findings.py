"""The demonstration's figures, taken when its work is over, and what they have to be."""

from dataclasses import asdict, dataclass
from typing import Any

from langchain_core.messages import BaseMessage

from .demo_questions import LANGUAGE, QUESTIONS, RULE, TICKET
from .investigation import WINDOW, Attempt, Investigation, Restored, Rollback

LEAST_CALLS = 60
LEAST_TOKENS = 300_000


@dataclass(frozen=True, kw_only=True)
class Fact:
    """Something said in the first turn, and where the last request still has it; empty where it has not."""

    said: str
    where: str


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What the demonstration shows, as `--json` prints it. Tokens are o200k, by the counter of the graph."""

    model: str
    summarizer: str
    thread: str
    window: int
    limit: int
    trigger: int
    turns: int
    requests: int
    max_request_tokens: int
    over_limit_requests: int
    tool_calls: int
    tool_tokens: int
    messages_said: int
    messages_in_state: int
    messages_in_archive: int
    """Messages that the state holds no more, or only clipped."""
    lost_messages: int
    in_order: bool
    checkpoints: int
    """Each was read back."""
    stored_bytes: int
    """What the thread takes in the database: checkpoints, messages, snapshots, archive."""
    unshared_bytes: int
    """What its messages would take if every checkpoint and snapshot held its own."""
    compactions: list[Attempt]
    rollback: Rollback | None
    undone: Restored
    """The last compaction, taken back at the end."""
    facts: list[Fact]
    answer: str
    """The last one."""
    seconds: float

    def problems(self) -> list[str]:
        """What did not come out as it must."""
        claims = {
            f"only {self.tool_calls} tool calls were made": self.tool_calls >= LEAST_CALLS,
            f"the tools said only {self.tool_tokens:,} tokens": self.tool_tokens >= LEAST_TOKENS,
            f"{self.over_limit_requests} requests were over the limit": not self.over_limit_requests,
            f"{self.lost_messages} messages are lost": not self.lost_messages,
            "the transcript is not in the order in which it was said": self.in_order,
            f"only {self.checkpoints} checkpoints were kept of {self.requests} requests": (
                self.checkpoints >= self.requests
            ),
            "no compaction failed, so that no rollback could be shown": self.rollback is not None,
            "the rollback changed the conversation": self.rollback is None or self.rollback.identical,
            f"{self.undone.missing} messages did not come back when a compaction was undone": not self.undone.missing,
        }
        return [claim for claim, holds in claims.items() if not holds]

    def as_json(self) -> dict[str, Any]:
        """The figures and the problems as one JSON object."""
        identical = {"identical": self.rollback.identical} if self.rollback else {}
        rollback = {**asdict(self.rollback), **identical} if self.rollback else None
        return {**asdict(self), "rollback": rollback, "problems": self.problems()}


def findings(work: Investigation, seconds: float) -> Findings:
    """Take stock of finished work."""
    standing, state, whole = work.standing, work.messages(), work.transcript()
    in_view = {(message.id, message.text) for message in state}
    [stats] = work.saver.stats(work.thread)
    lost, in_order, checkpoints = work.lost(), work.in_order(), work.checkpoints()
    return Findings(
        model=work.model.model_name,
        summarizer=work.summarizer.name,
        thread=work.thread,
        window=WINDOW,
        limit=standing.limit,
        trigger=standing.trigger,
        turns=len(QUESTIONS),
        requests=len(work.model.sizes),
        max_request_tokens=max(work.model.sizes),
        over_limit_requests=sum(size > standing.limit for size in work.model.sizes),
        tool_calls=len(work.tool_results),
        tool_tokens=work.tool_tokens,
        messages_said=len(work.said),
        messages_in_state=len(state),
        messages_in_archive=sum((message.id, message.text) not in in_view for message in whole),
        lost_messages=lost,
        in_order=in_order,
        checkpoints=checkpoints,
        stored_bytes=stats.total_bytes,
        unshared_bytes=stats.unshared_message_bytes,
        compactions=work.attempts,
        rollback=work.rollback,
        undone=work.undo(),
        facts=[Fact(said=said, where=_where(said, work.model.requests[-1])) for said in (RULE, LANGUAGE, TICKET)],
        answer=work.said[-1].text,
        seconds=round(seconds, 1),
    )


def _where(said: str, request: list[BaseMessage]) -> str:
    for message in request:
        if said in message.text:
            return (
                "in the summary"
                if "<summary>" in message.text
                else "in the user's own words"
                if message.type == "human"
                else f"in a message of the {message.type}"
            )
    return ""
