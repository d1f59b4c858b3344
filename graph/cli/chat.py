"""`chat`: talk to an agent whose conversation stays inside the model's context window."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from langchain_core.language_models import BaseChatModel

from langgraph_compaction.checkpoint import CheckpointError, SQLAlchemySaver
from langgraph_compaction.checkpoint.db.urls import place
from langgraph_compaction.nodes import CompactionError, CompactionSettings, UnknownWindowError
from langgraph_compaction.nodes.config.policies import Selective
from langgraph_compaction.nodes.providers.error_kind import ErrorKind, classify
from langgraph_compaction.nodes.providers.provider_error import text_of
from langgraph_compaction.nodes.runtime.dependencies import model_name, told_window

from ..builder import Graph, create_compacting_agent
from ..chat_model import agent_model, has_key, with_window
from .chat_screens import JsonLines, Screen, Terminal
from .confirmation_answers import answer_of, unclear
from .conversation import Conversation, Happening
from .options import DB_VARIABLE, Config, PresetName, Window, exit_code, open_or_temporary, settings_of, window_tokens

SCRIPTED: Mapping[str, Any] = {"dialogue_rounds_keep_min": 2, "dialogue_beyond_keep": 0}
"""Settings for the scripted model that no source gives, so that a short conversation can be compacted.

A compaction keeps the newest two rounds. A round is a user message with all that follows it.
"""

COMMANDS: Mapping[str, str] = {
    "/compact [FOCUS]": "compact the conversation now; FOCUS is what the summary should keep above all",
    "/undo": "take the last compaction back; no other starts by itself until /release",
    "/release": "allow automatic compactions again",
    "/recall WORDS": "find messages that compactions took out of view",
    "/pin TEXT": "keep TEXT word for word through every compaction",
    "/context": "show what fills the window",
    "/status": "show how full the window is, and the last compactions",
    "/help": "show these commands",
    "/quit": "end the chat; Ctrl-D does the same",
}
"""The commands of the chat, and what each does."""

SHORT_HELP = "/help lists the commands; an empty line tries a failed turn again."

_MAX_CHARS = 200
_ADVICE: Mapping[ErrorKind, str] = {
    "auth": "the provider refuses the key: check OPENAI_API_KEY and OPENAI_MODEL",
    "quota": "the provider's quota is used up: check the account of OPENAI_API_KEY",
    "transient": "the provider cannot be reached, or its rate limit is: check OPENAI_BASE_URL, or wait a bit",
    "permanent": "the model failed: check OPENAI_MODEL and OPENAI_BASE_URL",
    "overflow": "the model failed",
}


def chat(
    *,
    thread: Annotated[
        str, typer.Option(help="The id of the conversation. With --db, you can continue the conversation later.")
    ] = "chat",
    window: Window = None,
    preset: PresetName = None,
    config: Config = None,
    confirm: Annotated[
        bool | None,
        typer.Option(
            "--confirm/--no-confirm", help="Ask or do not ask before each compaction. Default: the settings decide."
        ),
    ] = None,
    db: Annotated[
        str | None,
        typer.Option(
            envvar=DB_VARIABLE,
            show_envvar=False,
            help="The URL of a database for the conversation. Default: the conversation is not stored.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Read one message from each line, and write JSON lines.")
    ] = False,
) -> None:
    """Chat with an agent, and see how many tokens of its context window are used.

    If OPENAI_API_KEY is set, an OpenAI model answers (variables OPENAI_MODEL and OPENAI_BASE_URL). Otherwise, a
    scripted model repeats the beginning of each message. In the chat, /help lists the commands.

    Options override the variables LANGGRAPH_COMPACTION_<SETTING>. These variables override the file of --config,
    which overrides the preset.
    """
    screen: Screen = JsonLines() if as_json else Terminal()
    try:
        with open_or_temporary(db) as saver:
            model, known = agent_model()
            tokens = window_tokens(window, known=known or told_window(model))
            settings = settings_of(config, preset=preset, context_window=tokens, require_confirmation=confirm)
            graph = _graph(screen, model, saver, with_window(settings, known))
            conversation = Conversation(graph, thread)
            with contextlib.suppress(EOFError, KeyboardInterrupt):  # the person ends the chat
                _talk(screen, conversation)
            kept_in = place(saver.database.engine.url) if db and saver.database.durable else None
            kept = f" The conversation is kept as {conversation.thread} in {kept_in}." if kept_in else ""
            screen.note(f"Bye.{kept}")
    except (CompactionError, CheckpointError) as error:
        hint = "; here: --window TOKENS" if isinstance(error, UnknownWindowError) else ""
        screen.error(f"{error}{hint}")
        raise typer.Exit(exit_code(error)) from error


def _graph(screen: Screen, model: BaseChatModel, saver: SQLAlchemySaver, settings: CompactionSettings) -> Graph:
    """Build the agent, and print which model it uses."""
    if real := has_key():
        screen.note(f"You talk to {model_name(model)} at {os.environ.get('OPENAI_BASE_URL', 'OpenAI')}. {SHORT_HELP}")
    else:
        screen.note("This model is scripted: it only repeats what you say. With OPENAI_API_KEY set it is a real one.")
        screen.note(SHORT_HELP)
    policy = settings.policy
    if isinstance(policy, Selective) and not real:
        known = policy.model_fields_set
        policy = policy.model_copy(update={name: value for name, value in SCRIPTED.items() if name not in known})
    return create_compacting_agent(model, settings=settings.model_copy(update={"policy": policy}), checkpointer=saver)


def _talk(screen: Screen, conversation: Conversation) -> None:
    """Read and answer lines until `/quit`; raise `EOFError` at the input's end, `KeyboardInterrupt` at Ctrl-C."""
    if before := conversation.status().messages:
        screen.note(f"Taking up {conversation.thread}: {before} messages.")
        screen.gauge(conversation.usage)
    _turn(screen, conversation, iter(()))
    while True:
        line = screen.read("you> ").strip()
        command, _, rest = line.partition(" ")
        if command == "/quit":
            return
        if command.startswith("/"):
            _obey(screen, conversation, command, rest.strip())
        elif line:
            _turn(screen, conversation, conversation.say(line))
        elif conversation.unfinished:
            _turn(screen, conversation, conversation.go_on())


def _obey(screen: Screen, conversation: Conversation, command: str, rest: str) -> None:
    """Run a command of the chat; print the error of a command that cannot be run, so that the chat goes on."""
    try:
        match command:
            case "/compact":
                _turn(screen, conversation, conversation.compact(rest or None))
            case "/context":
                screen.context(conversation.usage)
            case "/status":
                screen.status(conversation.status())
            case "/help":
                screen.note("\n".join(f"{form:<17} {about}" for form, about in COMMANDS.items()))
            case "/undo":
                undone = conversation.compactions.undo()
                screen.note(f"Undone: {', '.join(undone.compactions)}. {undone.messages} messages are in view.")
                screen.gauge(conversation.usage)
            case "/release":
                conversation.compactions.release()
                screen.note("Automatic compactions are allowed again.")
            case "/recall":
                screen.note(conversation.compactions.recall(rest))
            case "/pin":
                conversation.compactions.pin(text=rest)
                screen.note(f"Pinned: {rest}")
            case _:
                screen.note(f"There is no {command}: {SHORT_HELP}")
    except (CompactionError, CheckpointError) as error:
        screen.error(str(error))


def _turn(screen: Screen, conversation: Conversation, happenings: Iterator[Happening]) -> None:
    """Run a turn and show it; whenever the graph interrupts the turn with a question, ask the person and resume it.

    If the answer moves the conversation to a new thread, run the first turn of this thread too. If the turn fails,
    print the failure and return, so that the chat goes on.
    """
    try:
        shown, asked = _show(screen, happenings), False
        while (question := conversation.question) is not None:
            answer, asked = _ask(screen, question), True
            shown = _show(screen, conversation.answer(answer)) or shown
        if asked and (given := conversation.handoff) is not None:
            conversation.move()
            screen.note(f"Going on as {conversation.thread}, with a summary of what was said.")
            shown = _show(screen, conversation.take_over(given))
    except (EOFError, KeyboardInterrupt):
        raise
    except Exception as error:  # noqa: BLE001 - whatever a provider raises, the chat goes on
        retry = " An empty line tries again." if conversation.unfinished else ""
        screen.error(f"{explain(error)}.{retry}")
        return
    if shown:
        screen.gauge(conversation.usage)


def _show(screen: Screen, happenings: Iterator[Happening]) -> bool:
    """Show the tokens and events of a run; return whether there was anything to show."""
    shown = False
    for happening in happenings:
        shown = True
        if happening[0] == "token":
            screen.token(happening[1])
        else:
            screen.event(happening[1])
    screen.end_answer()
    return shown


def _ask(screen: Screen, question: dict[str, Any]) -> bool | str | dict[str, Any]:
    """Ask until the person's line is a clear answer; return the value with which the node `confirm` is resumed."""
    while (answer := answer_of(screen.ask(question), question)) is None:
        screen.note(unclear(question))
    return answer


def explain(error: Exception) -> str:
    """Return an error of this package or of a model's provider as one line, with advice where there is any."""
    if isinstance(error, CompactionError | CheckpointError):
        return _line(str(error))
    return f"{_ADVICE[classify(error)]} ({type(error).__name__}: {_line(text_of(error))})"


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_CHARS else f"{line[:_MAX_CHARS]} …"
