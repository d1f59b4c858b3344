"""Summarizers of the fault benchmark: a working one, and one for each kind of failure.

The working one copies each fact of its list that it is shown, and the open
question, so that a missing fact was lost by the system around it. It puts its summary between the tags that our
prompt asks for; the other systems' prompts ask for no form.
"""

from collections.abc import Callable, Sequence

from fault_histories import QUESTION, prose
from fault_model import Reply, Request
from langchain_core.exceptions import ModelAPIError, ModelAuthenticationError, ModelRateLimitError
from langchain_core.messages import AIMessage

Writer = Callable[[Sequence[str]], Reply]
"""A function from the facts that a summarizer copies to that summarizer."""

CALL = {"name": "read", "args": {"name": "notes"}, "id": "call-of-the-summarizer"}


def tagged(body: str) -> AIMessage:
    """Return a summary between the tags that our prompt asks for."""
    return AIMessage(f"<summary>\n{body}\n</summary>")


def copies(facts: Sequence[str]) -> Reply:
    """Return a summarizer that copies every fact and the newest question that it is shown."""

    def reply(request: Request) -> AIMessage:
        shown = [fact for fact in facts if fact in request.text]
        asked = [f"The user asked: {found}?" for found in QUESTION.findall(request.text)[-1:]]
        return tagged(
            "1. Task Overview: the user asked for help with a move and got answers.\n"
            f"4. Next Steps: {''.join(asked) or 'none are known'}.\n"
            f"5. Context to Preserve: {'; '.join(shown) or 'no details were given'}."
        )

    return reply


def fails(error: Exception, *, times: int = 10_000) -> Writer:
    """Return a summarizer that raises a number of times, then works."""

    def writer(facts: Sequence[str]) -> Reply:
        raised: list[Exception] = []

        def reply(request: Request) -> AIMessage:
            if len(raised) < times:
                raised.append(error)
                raise error
            return copies(facts)(request)

        return reply

    return writer


def always(answer: AIMessage) -> Writer:
    """Return a summarizer that gives the same answer to every request."""
    return lambda _: lambda _: answer


def cut_off(facts: Sequence[str]) -> Reply:
    """Return a summarizer that stops at its output limit before it writes the facts."""
    del facts
    text = "<summary>\n1. Task Overview: the user asked for help with a move and"
    return lambda _: AIMessage(text, response_metadata={"finish_reason": "length"})


def of_size(tokens: int) -> Writer:
    """Return a summarizer that writes a given number of tokens, the facts first."""

    def writer(facts: Sequence[str]) -> Reply:
        def reply(request: Request) -> AIMessage:
            body = copies(facts)(request).text.removeprefix("<summary>\n").removesuffix("\n</summary>")
            return tagged(f"{body}\n{prose(tokens, 'summary')}")

        return reply

    return writer


def echoes(facts: Sequence[str]) -> Reply:
    """Return a summarizer that repeats its whole input, so its summary is never shorter."""
    del facts
    return lambda request: tagged("\n".join(message.text for message in request.messages).replace("<", "("))


SERVER_ERROR = ModelAPIError("Internal server error")
RATE_LIMIT = ModelRateLimitError("Rate limit reached: try again in 20 s")
BAD_KEY = ModelAuthenticationError("Incorrect API key provided")

BAD_FORMS: dict[str, Writer] = {
    "empty": always(AIMessage("")),
    "whitespace": always(AIMessage(" \n\t ")),
    "only thinking": always(AIMessage([{"type": "thinking", "thinking": "I should summarize.", "signature": "s"}])),
    "a refusal": always(AIMessage("I'm sorry, but I can't help with summarizing this conversation.")),
    "a tool call": always(AIMessage("", tool_calls=[CALL])),
    "cut off": cut_off,
}

GOES_ON = AIMessage("You're welcome! I have reserved the van for Friday. Shall I book two helpers as well?")
GOES_ON_IN_TAGS = tagged(GOES_ON.text)
