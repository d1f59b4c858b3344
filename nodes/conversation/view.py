"""The view of a conversation: which messages the model sees, in which form, and the summary in place of the others.

A compaction changes the view. The conversation itself, the state's `messages`, stays as it was said.
"""

from base64 import b64decode
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from itertools import takewhile
from typing import Annotated, Any, NotRequired, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from pydantic import BeforeValidator, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # below Python 3.12 pydantic makes schemas of no other

from ..events import log
from ..text.quoting import one_line
from .bound_history import HISTORY_CHANGED, read_from, with_history_changed
from .lengths import length_of
from .message_marks import (
    MARK,
    is_clipped,
    is_marked_by_us,
    is_pinned,
    is_summary,
    marks,
    with_mark,
    without_our_marks,
)
from .transcript import RESULT, Transcript, message_id, system_messages


def _from_json(value: Any) -> Any:
    """Return bytes that a client of LangGraph's server has written back, which are base64 in JSON."""
    return b64decode(value, validate=True) if isinstance(value, str) else value


Name = Annotated[bytes, BeforeValidator(_from_json)]


class Shortened(TypedDict):
    """The form in which the model sees one message."""

    name: Name
    """The name of the message as it was said (`name_of`): a message that was changed since is shown whole."""
    message: AnyMessage | None
    """`None` if the model does not see the message, which no compaction has archived: an answered command."""


class View(TypedDict):
    """What a compaction made of a conversation; the newest compaction's view holds what the earlier ones hid."""

    source: str
    """Id of the compaction that made this view."""
    summary: AnyMessage | None
    """The user message that stands in the place of what is hidden."""
    place: NotRequired[Name]
    """The name of the hidden message in whose place the summary stands; by default of the first one."""
    hidden: Name
    """The names of the hidden messages, six bytes each (`name_of`), in the order of the conversation."""
    shortened: dict[str, Shortened]
    """By message id, the form of the messages that are shown in another one."""
    moved: NotRequired[int]
    """How many messages that the summary stands for have moved to the archive. It is there, and may be 0, if the
    summary stands for messages that were said on the thread that this one continues."""
    inherited: NotRequired[bool]
    """Whether messages were hidden when this thread branched off: none leaves its state, because the archive of
    another thread has them."""
    newest: str | None
    """Id of the newest message when the view was made: the answers up to it were given on another history."""
    undone: NotRequired[list["View"]]
    """The views that were undone since the last compaction, the one that a redo brings back first."""


NO_VIEW = View(source="", summary=None, hidden=b"", shortened={}, newest=None)
_NAME_BYTES = 6


@cache
def _reader() -> TypeAdapter[View]:
    return TypeAdapter(View)


def read_view(value: Any) -> View | None:
    """Return a view as the channel holds it, also one that came back as JSON; `None` for what is no view.

    Without a view the model sees the whole conversation.
    """
    if value is None:
        return None
    try:
        return _reader().validate_python(value)
    except (ValidationError, TypeError) as error:  # LangChain raises the second for what is no message
        log.warning("compaction_view holds no view, and the model sees everything: %s", one_line(str(error), 200))
        return None


def name_of(message: AnyMessage) -> bytes:
    """Return six bytes that stand for a message with this id and this content."""
    content = message.content if isinstance(message.content, str) else ""
    told = f"{message.id}\n{length_of(message)}\n{content}"
    return blake2b(told.encode(errors="surrogatepass"), digest_size=_NAME_BYTES).digest()


def seen(
    messages: Sequence[AnyMessage],
    view: View | None,
    pins: Collection[str] = (),
    *,
    name: Callable[[AnyMessage], bytes] = name_of,
) -> list[AnyMessage]:
    """Return the messages that the model sees of a conversation whose messages have ids.

    `name` is `name_of`, or gives what it returns faster to a reader of many states of one conversation.

    What stands before the provider's own compaction is not seen, except system messages and, behind that answer, what
    is pinned by a mark or by its id in `pins`.

    A hidden or shortened message that was changed since the compaction is shown as it is now, with the rest of its
    tool block. If nothing of what the summary stands for is left, the summary is not shown either; what has moved to
    the archive counts as left until the newest message of then is gone, too. Marks that only this package writes are
    believed in the view alone, never in a message of the conversation.
    """
    own = [without_our_marks(m) if MARK in m.additional_kwargs and is_marked_by_us(m) else m for m in messages]
    own, view = _read(own, view, pins)
    if not view:
        return own
    hidden, forms = _names(view["hidden"]), view["shortened"]
    names, anchor = [name(message) for message in own] if hidden or forms else [], view.get("place")
    shown, older = list[AnyMessage](), None if view["newest"] else 0
    place: int | None = None
    first_form: int | None = None
    out = _hidden_at(own, names, hidden)
    for at, message in enumerate(own):
        form = forms.get(str(message.id))
        if at in out:
            place = len(shown) if place is None or names[at] == anchor else place
        elif form is None or form["name"] != names[at]:
            shown.append(message)
        elif form["message"] is not None:
            first_form = len(shown) if first_form is None else first_form
            shown.append(form["message"])
        if message.id == view["newest"]:
            older = len(shown)
    stands = older is not None
    if older is None:  # the newest message of then was removed: what stands before the newest input came earlier
        older = next((at for at in range(len(shown) - 1, 0, -1) if isinstance(shown[at], HumanMessage)), 0)
    shown = [*with_history_changed(shown[:older]), *shown[older:]]
    if place is None and "moved" in view and stands:
        place = next((at for at, message in enumerate(shown) if not isinstance(message, SystemMessage)), len(shown))
    return _with_summary(shown, view["summary"], place, first_form)


def _read(
    messages: list[AnyMessage], view: View | None, pins: Collection[str]
) -> tuple[list[AnyMessage], View | None]:
    """Return what the provider reads of a conversation, and the view without a summary that it does not read.

    Pinned messages that stood before the provider's own compaction follow the tool block with it, without what binds
    them to the history before it.
    """
    begin = read_from(messages)
    if not begin:
        return messages, view
    earlier, read = Transcript(messages[:begin]), messages[begin:]
    blocks = earlier.block_of
    pinned = [at for at in range(begin) if at not in earlier.header and is_pinned(messages[at], pins)]
    lifted = {other for at in pinned for other in (blocks[at].indexes if at in blocks else (at,))}
    end = _behind_block(read, 0)
    read[end:end] = with_history_changed(messages[at] for at in sorted(lifted))
    if view and view["newest"] not in {message.id for message in read}:
        view = View({**view, "summary": None, "newest": None})
    return [*system_messages(messages[:begin]), *read], view


def _behind_block(messages: Sequence[AnyMessage], at: int) -> int:
    """Return the index behind a message and the tool block that it begins."""
    block = Transcript(messages).block_of.get(at)
    return (block.end if block else at) + 1


def _hidden_at(messages: Sequence[AnyMessage], names: Sequence[bytes], hidden: Collection[bytes]) -> set[int]:
    """Return the indexes of the hidden messages, without those whose call or result was changed and is shown."""
    out = {at for at, name in enumerate(names) if name in hidden}
    if any(RESULT[type(one)] and (at in out) != (at - 1 in out) for at, one in enumerate(messages)):
        halves = (block.indexes for block in Transcript(messages).blocks if not out.issuperset(block.indexes))
        out.difference_update(*halves)
    return out


def _place(hidden: Sequence[int], names: Sequence[bytes], anchor: bytes) -> int | None:
    """Return the index of the hidden message in whose place a summary stands: the first one if the anchor is gone."""
    return next((at for at in hidden if names[at] == anchor), hidden[0] if hidden else None)


def _with_summary(
    shown: list[AnyMessage], summary: AnyMessage | None, place: int | None, first_form: int | None
) -> list[AnyMessage]:
    if summary is None or (place is None and first_form is None):
        return shown
    if place is None:
        block = Transcript(shown).block_of.get(first_form or 0)
        place = block.start if block else first_form
    opening = Transcript(shown).opening  # thinking that opens an unfinished turn stands before nothing of that turn
    place = min(place or 0, opening.start) if opening else place or 0
    read = read_from(shown)  # what stands before the provider's own compaction is not read
    if read and place <= read:
        place = _behind_block(shown, read)
    return [*shown[:place], summary, *shown[place:]]


def _names(hidden: bytes) -> frozenset[bytes]:
    return frozenset(_in_order(hidden))


def _in_order(hidden: bytes) -> list[bytes]:
    return [hidden[at : at + _NAME_BYTES] for at in range(0, len(hidden), _NAME_BYTES)]


def changed(
    messages: Sequence[AnyMessage],
    view: View | None,
    *,
    source: str,
    drop: Collection[str] = (),
    clip: Mapping[str, AnyMessage | None] | None = None,
    summary: AnyMessage | None = None,
) -> View:
    """Return the view in which these messages are hidden (`drop`) or shown in another form (`clip`), by their ids.

    `messages` is the whole conversation. A new summary takes the place of the earlier one; the earlier one stays
    unless it is among `drop`. Views that were undone stay as long as no other compaction is the `source`.
    """
    old, given = view or NO_VIEW, clip or {}
    gone, before, names = set(drop), _names(old["hidden"]), [name_of(message) for message in messages]
    said = {str(message.id): message for message in messages}
    hidden = [name for name, message in zip(names, messages, strict=True) if name in before or message.id in gone]
    forms = {name: form for name, form in old["shortened"].items() if name not in gone and name in said}
    for own, message in given.items():
        if own in said:
            forms[own] = Shortened(name=name_of(said[own]), message=message)
    stays = old["summary"] if old["summary"] is not None and old["summary"].id not in gone else None
    other = gone.union(own for own, form in given.items() if own in said and not _is_sent_as(said[own], form))
    same = summary is None and stays is old["summary"] and not _is_answered(messages, other)
    place = old.get("place", b"")
    if summary is not None:
        replaced = stays is None and old["summary"] is not None
        stood = _place(sorted(_hidden_at(messages, names, before)), names, place) if replaced else None
        covered = (names[at] for at, message in enumerate(messages) if at == stood or message.id in gone)
        place = next(covered, place)
    made = View(
        source=source,
        summary=summary or stays,
        place=place,
        hidden=b"".join(hidden),
        shortened=forms,
        newest=old["newest"] if same or not messages else message_id(messages[-1]),
    )
    made = _of_thread(made, old)
    return View({**made, "undone": old["undone"]}) if "undone" in old and source == old["source"] else made


def in_forms(messages: Sequence[AnyMessage], view: View | None, forms: Sequence[AnyMessage]) -> View:
    """Return the view in which these messages, which it shows, are shown in these forms; also its summary."""
    old, clip = view or NO_VIEW, {str(form.id): as_said(form) for form in forms}
    summary = clip.pop(str(old["summary"].id), None) if old["summary"] is not None else None
    return changed(messages, view, source=old["source"], clip=clip, summary=summary)


def _of_thread(made: View, old: View) -> View:
    """Return a view with what holds for its thread, whichever compaction it shows."""
    kept = {key: value for key, value in old.items() if key in ("moved", "inherited")}
    return cast("View", {**made, **kept})


def _is_sent_as(message: AnyMessage, form: AnyMessage | None) -> bool:
    """Whether a form differs from the message in its marks only."""
    return form is not None and form.model_copy(update={"additional_kwargs": message.additional_kwargs}) == message


def _is_answered(messages: Sequence[AnyMessage], ids: Collection[str]) -> bool:
    """Whether an answer follows one of these messages, so that it was given on a history with the message."""
    first = next((at for at, message in enumerate(messages) if message.id in ids), len(messages))
    return any(isinstance(message, AIMessage) for message in messages[first:])


def shown_again(messages: Sequence[AnyMessage], view: View | None, ids: Collection[str]) -> View | None:
    """Return the view in which the messages with these ids, and their tool blocks, are seen as they were said."""
    if view is None or not ids:
        return view
    found = [at for at, message in enumerate(messages) if message.id in ids]
    blocks = Transcript(messages).block_of
    shown = [messages[other] for at in found for other in (blocks[at].indexes if at in blocks else (at,))]
    names, whole = {name_of(message) for message in shown}, {message.id for message in shown}
    hidden = [name for name in _in_order(view["hidden"]) if name not in names]
    forms = {own: form for own, form in view["shortened"].items() if own not in whole}
    return View({**view, "hidden": b"".join(hidden), "shortened": forms})


def with_pins(
    messages: Sequence[AnyMessage], view: View | None, had: Sequence[AnyMessage], pins: Collection[str]
) -> View | None:
    """Return the view with these pins; `had` are the messages that were seen before.

    If others are seen now, all answers were given on another history.
    """
    names = [[message.id for message in shown] for shown in (had, seen(messages, view, pins))]
    return view if names[0] == names[1] else View({**(view or NO_VIEW), "newest": message_id(messages[-1])})


def view_before(messages: Sequence[AnyMessage], shown: Sequence[AnyMessage], *, source: str) -> View:
    """Return the view in which the conversation is seen as in `shown`, what an earlier compaction began with.

    Messages behind the newest one of `shown` came later, and are seen as they are.
    """
    there = {message.id: message for message in shown}
    last = max((at for at, message in enumerate(messages) if message.id in there), default=-1)
    said = {message.id: message for message in messages[: last + 1]}
    forms = {
        str(name): Shortened(name=name_of(said[name]), message=message)
        for name, message in there.items()
        if name in said and _is_form(as_said(said[name]), as_said(message))
    }
    summary = next((message for message in shown if message.id not in said and is_summary(message)), None)
    before = {message.id for message in takewhile(lambda one: one is not summary, shown)}
    behind = max((at + 1 for at, message in enumerate(said.values()) if message.id in before), default=0)
    covered = (name_of(message) for message in list(said.values())[behind:] if message.id not in there)
    return View(
        source=source,
        summary=summary,
        place=next(covered, b"") if summary is not None else b"",
        hidden=b"".join(name_of(message) for message in said.values() if message.id not in there),
        shortened=forms,
        newest=message_id(messages[-1]) if messages else None,
    )


def branched_view(messages: Sequence[AnyMessage], view: View | None, shown: Sequence[AnyMessage]) -> View:
    """Return the view of a new thread that goes on where a compaction of the thread with this view began."""
    made = view_before(messages, shown, source="")
    made = View({**made, "inherited": True}) if made["hidden"] else made
    return View({**made, "moved": 0}) if view and "moved" in view else made


def _is_form(message: AnyMessage, shown: AnyMessage) -> bool:
    """Whether the model saw a message in another form; else the application changed it, or a redaction stored it."""
    return shown != message and (is_marked_by_us(shown) or _is_sent_as(message, shown))


def _answered_forms(view: View) -> dict[str, Shortened]:
    """Return the forms that no compaction made: of commands, of refused messages, and of pins without room."""
    return {
        name: form
        for name, form in view["shortened"].items()
        if form["message"] is None or not is_clipped(form["message"])
    }


def undone_view(
    messages: Sequence[AnyMessage], view: View | None, shown: Sequence[AnyMessage], *, source: str
) -> View:
    """Return the view as in `shown`, what the undone compactions began with, from which a redo leads back.

    What `view` does not hide stays visible: a message that came in front, or that was pinned, since. Later commands
    and refused messages stay out of the view, and a message that was changed since is seen as it is now.
    """
    before = view_before(messages, shown, source=source)
    if view is None:
        return before
    names, old = _names(view["hidden"]), view["shortened"]
    hidden = b"".join(name for name in _in_order(before["hidden"]) if name in names)
    there = {message.id for message in shown}
    same = {own: form for own, form in before["shortened"].items() if old.get(own, form)["name"] == form["name"]}
    forms = {**same, **{own: form for own, form in _answered_forms(view).items() if own not in there}}
    undone = [_alone(view), *view.get("undone", [])]
    return _of_thread(View({**before, "hidden": hidden, "shortened": forms, "undone": undone}), view)


def redone_view(messages: Sequence[AnyMessage], view: View | None, pins: Collection[str] = ()) -> View | None:
    """Return the view that the last undo has replaced; `None` if there is none.

    It is the same one if nothing was said since; else the answers since then were given on another history. A
    message that was pinned since stays visible.
    """
    undone = view.get("undone") if view else None
    if view is None or not undone:
        return None
    again, *others = undone
    newest = message_id(messages[-1]) if messages else None
    said_since = newest != view["newest"]
    names = _names(again["hidden"])
    since = {own: form for own, form in _answered_forms(view).items() if form["name"] not in names}
    forms = {**since, **again["shortened"]}
    newest = newest if said_since else again["newest"]
    found = View({**again, "shortened": forms, "newest": newest, "undone": others})
    return shown_again(messages, _of_thread(found, view), pins)


def _alone(view: View) -> View:
    return cast("View", {key: value for key, value in view.items() if key != "undone"})


def as_said(message: AnyMessage) -> AnyMessage:
    """Return the message without the mark that the history before it has changed, which changes nothing else."""
    mark = {key: value for key, value in marks(message).items() if key != HISTORY_CHANGED}
    if len(mark) == len(marks(message)):
        return message
    return with_mark(message, mark)


def unarchived(view: View | None) -> list[str]:
    """Return the ids of the messages that the model does not see, though no compaction has archived them."""
    return [name for name, form in view["shortened"].items() if form["message"] is None] if view else []


def movable(messages: Sequence[AnyMessage], view: View, keep: int) -> list[str]:
    """Return the ids of the oldest hidden messages of a conversation, all but `keep` of them.

    The hidden message in whose place the summary stands always stays. So does the newest message of then, by which a
    conversation that was deleted is told. In a branch all stay.
    """
    if view.get("inherited"):
        return []
    names = [name_of(message) for message in messages]
    hidden = sorted(_hidden_at(messages, names, _names(view["hidden"])))
    stays = _place(hidden, names, view.get("place", b""))
    others = [messages[at] for at in hidden if at != stays]
    leaving = others[: len(others) - max(keep - 1, 0)]
    return [message_id(message) for message in leaving if message.id != view["newest"]]


def hidden_count(view: View) -> int:
    """Return how many messages of the state the view hides."""
    return len(view["hidden"]) // _NAME_BYTES
