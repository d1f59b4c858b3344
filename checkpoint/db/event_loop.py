"""Whether this thread may block."""

import asyncio
from collections.abc import Callable
from threading import Thread


def on_event_loop() -> bool:
    """Whether an event loop runs in this thread: nothing here may block then."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def off_loop(call: Callable[[], None]) -> None:
    """Do something that blocks: at once, or in a thread of its own where an event loop runs in this one."""
    if on_event_loop():
        Thread(target=call, daemon=True).start()
    else:
        call()
