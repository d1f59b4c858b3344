"""The errors that the nodes and the graphs raise.

::

    CompactionError
    ├── SettingsError (ValueError)      settings, presets or dependencies that are invalid
    │   └── UnknownWindowError          no context window is known for the model
    ├── RequestError (ValueError)       an invalid `compaction_request`
    ├── InvalidMessagesError (ValueError)  a list of messages that cannot be a conversation
    ├── RecordingError (ValueError)     a recorded conversation that cannot be read (graph/cli/recordings)
    ├── EmbeddingError                  the compaction graph added to a parent that cannot keep compactions
    ├── MessageRefusedError             one input alone is larger than the limit (on_refusal="raise", or no archive)
    ├── ThreadBusyError                 another run on the same thread did not end in time
    ├── TurnLostError                   a run ended without the lease of its thread; an input may be missing
    ├── StepError                       a node named a step that may not follow it: a defect of that node
    └── ContextExhaustedError           the request does not fit, and nothing more can or may be removed

The errors of databases are in `langgraph_compaction.checkpoint.errors`.
"""


class CompactionError(Exception):
    """Base class of the errors of the compaction nodes and graphs."""


class SettingsError(CompactionError, ValueError):
    """Settings or dependencies are invalid; the message says which to change."""


class UnknownWindowError(SettingsError):
    """Neither the setting `context_window` nor the model's profile gives the size of the context window."""


class RequestError(CompactionError, ValueError):
    """A run's `compaction_request` has an unknown form, or the request is in the wrong part of the input.

    The request is dropped, and the next input is answered as usual. Inside a parent graph the error is only
    logged, unless tool calls of the parent wait.
    """


class InvalidMessagesError(CompactionError, ValueError):
    """A list of messages cannot be a conversation, for example because two messages have the same id."""


class EmbeddingError(CompactionError):
    """The state of a graph lacks the channels of `CompactionState`, so that its compactions could not be kept."""


class MessageRefusedError(CompactionError):
    """The newest user message alone exceeds the limit, or a new system message leaves no room for a conversation.

    The state holds a one-line notice in its place. If the message could not be archived, it stays in the state, and
    this error is raised whatever `on_refusal` says.
    """


class ThreadBusyError(CompactionError):
    """Another run was working on the thread for longer than this run may wait; nothing of this run was stored."""


class TurnLostError(CompactionError):
    """A run ended well, but it did not hold the lease of its thread until its end.

    The process was suspended, or could not reach the database of the lease, for longer than the lease lasts. Another
    run may have worked on the thread meanwhile, and the input of either run may be missing: read the thread again.
    """


class StepError(CompactionError):
    """A node named no next step, or a step that must not follow this node, which is a defect of the node's code.

    The error is raised before the node's update is applied, so the state is unchanged.
    """


class ContextExhaustedError(CompactionError):
    """The request is over the limit: every level was tried, or a person chose to delete messages by hand.

    The state is unchanged. If pins do not fit because the window became smaller, the text names them.
    """
