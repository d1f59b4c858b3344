"""Talk to the server until a compaction is committed, and undo it."""

import sys
from itertools import count

from langgraph_sdk import get_sync_client

with get_sync_client(url=sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:2024") as client:
    thread = client.threads.create()["thread_id"]
    last: dict[str, object] = {}
    for day in count(1):
        said = {"messages": [{"role": "user", "content": f"Day {day}. " + "The sea was calm. " * 80}]}
        state = client.runs.wait(thread, "agent", input=said)
        last = state["compaction"].get("last") or {}
        if last.get("verdict") == "committed":
            break
    print(f"day {day}: {last['verdict']}, {last['tokens_before']} -> {last['tokens_after']} tokens")
    print(state["messages"][-1]["content"], "There are", len(state["messages"]), "in the chat.")
    undo = {"messages": [], "compaction_request": {"undo": "last", "force": True}}
    state = client.runs.wait(thread, "agent", input=undo)
    print(state["compaction"]["last"]["verdict"])
