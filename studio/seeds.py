"""What `make studio` opens on: an assistant for each preset, and two threads with compactions.

`studio.json` names `app`, whose start runs `sow` beside the server, through the server's own API. What is there
already stays as it is. With a model of your own, only the assistants are made: threads would cost you tokens.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any, cast
from uuid import NAMESPACE_DNS, uuid5

from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from starlette.applications import Starlette

from langgraph_compaction import CompactionSettings
from langgraph_compaction.graph.chat_model import has_key
from langgraph_compaction.graph.library_model import RULE, WRITE_NOTHING
from langgraph_compaction.nodes.config.policies import POLICIES, PRESETS, Preset
from langgraph_compaction.nodes.events import log

GRAPH = "agent"
PATTERNS = (r"heapq\.", r"zlib\.", r"tempfile\.", r"struct\.pack", r"weakref\.", r"select\.", r"base64\.")
FAILING = {"trigger_tokens": 3_000, "summary_prompt": WRITE_NOTHING, "policy": {"hooks": ["pre_model"]}}
"""Context of a run whose compaction fails: the model obeys the prompt, and an empty summary is never used."""

ASKING = {"trigger_tokens": 3_000, "require_confirmation": True, "policy": {"hooks": ["post_model"]}}
"""Context of a run that asks before it compacts, when the model has answered."""
THANKS = "Thank you so far."

TOUR, APPROVAL = "Committed, rolled back, undone", "Waits for your approval"
"""The titles of the threads, in their metadata and at the beginning of their first messages."""


def identifier(name: str) -> str:
    """Return the id of an assistant or a thread: the same at each start, so that nothing is made twice."""
    return str(uuid5(NAMESPACE_DNS, f"{name}.studio.langgraph-compaction"))


def context_of(preset: Preset) -> dict[str, Any]:
    """Return a preset as the context of an assistant: its policy, and the shared settings that the policy sets."""
    settings = CompactionSettings(preset=preset)
    shared = POLICIES[preset].shared(settings.policy.model_dump())
    return settings.model_dump(mode="json", include={"preset", "policy", *shared})


async def sow(client: LangGraphClient) -> None:
    """Make the assistants, and the threads that are empty."""
    for preset in PRESETS:
        await client.assistants.create(
            GRAPH,
            context=context_of(preset),
            assistant_id=identifier(preset),
            if_exists="do_nothing",
            name=preset,
            description=POLICIES[preset].__doc__,
        )
    if not has_key():
        await asyncio.gather(_tour(client), _approval(client))


async def _tour(client: LangGraphClient) -> None:
    """A thread with a compaction that was committed, one that failed, and one that was committed and undone."""
    if (thread := await _empty_thread(client, TOUR)) is None:
        return
    questions = _questions(TOUR)
    for question in questions:
        if (await _run(client, thread, question))["compaction"].get("epoch"):
            break
    await _run(client, thread, next(questions))
    await _run(client, thread, THANKS, FAILING)
    await _run(client, thread, focus="the modules found")
    await _run(client, thread, undo="last")


async def _approval(client: LangGraphClient) -> None:
    """A thread whose compaction waits for a person's answer."""
    if (thread := await _empty_thread(client, APPROVAL)) is None:
        return
    for question in islice(_questions(APPROVAL), 2):
        await _run(client, thread, question)
    await _run(client, thread, THANKS, ASKING)


async def _empty_thread(client: LangGraphClient, title: str) -> str | None:
    """Return the id of the thread with this title, which is made if need be; `None` if something was said there."""
    thread = identifier(title)
    await client.threads.create(thread_id=thread, if_exists="do_nothing", graph_id=GRAPH, metadata={"title": title})
    return None if (await client.threads.get_state(thread))["values"] else thread


def _questions(title: str) -> Iterator[str]:
    """Yield what the user asks; front ends show the first question as the name of the thread."""
    yield f"{title}: which modules use `{PATTERNS[0]}`? {RULE}"
    yield from (f"And `{pattern}`?" for pattern in PATTERNS[1:])


async def _run(
    client: LangGraphClient, thread: str, said: str = "", context: Any = None, **request: str
) -> dict[str, Any]:
    """Return the state after a run whose input is a user's message, or a `compaction_request`."""
    given: Any = {"messages": [{"role": "user", "content": said}]} if said else {"messages": []}
    if request:
        given["compaction_request"] = request
    return cast("dict[str, Any]", await client.runs.wait(thread, GRAPH, input=given, context=context))


def _tell(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        log.error("Studio's threads could not be made: %r", error)


@asynccontextmanager
async def _sowing(_: Starlette) -> AsyncGenerator[None]:
    task = asyncio.create_task(sow(get_client()))
    task.add_done_callback(_tell)
    yield
    task.cancel()


app = Starlette(lifespan=_sowing)
