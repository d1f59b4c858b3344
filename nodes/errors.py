"""Everything this package raises of its own accord.

::

    CompactionError
    ├── SettingsError (ValueError)      settings, presets or dependencies that cannot work
    │   └── UnknownWindowError          no context window is known for the model
    ├── RequestError (ValueError)       a `compaction_request` that is none
    ├── InvalidMessagesError (ValueError)  a list that cannot become a conversation
    ├── RecordingError (ValueError)     a recorded conversation that cannot be read (graph/cli/recordings)
    ├── EmbeddingError                  the compaction graph used as a node without `as_node`
    ├── MessageRefusedError             one input alone is larger than the limit (on_refusal="raise", or no archive)
    ├── StepError                       a node named a next step that may not follow it: a defect of that node
    └── ContextExhaustedError           the request does not fit, and nothing is left to take away or nothing may be

Database errors stand in `langgraph_compaction.checkpoint.errors`.
"""


class CompactionError(Exception):
    """Base of every error of the compaction nodes and graphs."""


class SettingsError(CompactionError, ValueError):
    """Settings or dependencies that cannot work; the message says which to change."""


class UnknownWindowError(SettingsError):
    """Neither `context_window` nor the model's profile says how much the model accepts."""


class RequestError(CompactionError, ValueError):
    """A run's `compaction_request` that asks for nothing known, or a request in another place.

    It is dropped: the next input is answered. Inside a parent graph it is only logged.
    """


class InvalidMessagesError(CompactionError, ValueError):
    """A list of messages that cannot be a conversation, such as two messages with one id."""


class EmbeddingError(CompactionError):
    """The compaction graph was added to a parent graph without `as_node` and could never shrink it."""


class MessageRefusedError(CompactionError):
    """The newest user message alone exceeds the limit; the state holds a one-line stand-in for it.

    Where the message could not be archived, it stays itself, whatever `on_refusal` says.
    """


class StepError(CompactionError):
    """A node named no next step, or one that may not follow it: a defect of that node's code.

    Raised where the node runs, before its update is applied: the state is as it was.
    """


class ContextExhaustedError(CompactionError):
    """The request is over the limit: every level was tried, or a person chose to make room by hand.

    The state is as it was.
    """
