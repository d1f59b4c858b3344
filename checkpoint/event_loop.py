"""Whether this thread may block."""

import asyncio


def on_event_loop() -> bool:
    """Whether an event loop runs in this thread: nothing here may block then."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
