"""The scripted model: it knows what its request holds, and nothing else."""

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_compaction.graph.lab.demo.scripted_reader import QUESTIONS, RULE, Notes, decide

LISTING = "2 files match x\n9 matches, 1 parts: test/test_x.py\n2 matches, 3 parts: x.py"
QUESTION = "Which modules x? Search for `x`."


def answered(call: AIMessage, result: str) -> list[BaseMessage]:
    """Return a call with its result."""
    return [call, ToolMessage(result, tool_call_id=call.tool_calls[0]["id"] or "")]


def test_a_question_begins_with_a_search() -> None:
    """The pattern of the question is searched for."""
    (call,) = decide([HumanMessage(QUESTION)], "c1").tool_calls
    assert (call["name"], call["args"], call["id"]) == ("search", {"pattern": "x"}, "c1")


def test_the_rule_is_obeyed_as_long_as_it_is_in_view() -> None:
    """With the user's rule in its request the model leaves test modules out; without it, it reports them."""
    asked: list[BaseMessage] = [HumanMessage(QUESTION)]
    searched = answered(decide(asked, "c1"), LISTING)
    obeyed = decide([HumanMessage(RULE), *asked, *searched], "c2")
    forgot = decide([*asked, *searched], "c2")
    assert Notes.of(obeyed.text).ranking == ["x.py (2)"]
    assert Notes.of(forgot.text).ranking == ["test/test_x.py (9)", "x.py (2)"]


def test_a_result_that_was_clipped_unseen_is_asked_for_again() -> None:
    """What a compaction shortened before it was read is read a second time."""
    asked: list[BaseMessage] = [HumanMessage(QUESTION)]
    first = decide(asked, "c1")
    again = decide([*asked, *answered(first, "2 files\n[TRUNCATED original~900 tokens]")], "c2")
    assert again.tool_calls[0]["args"] == first.tool_calls[0]["args"]
    assert again.text == first.text


def test_reading_goes_on_from_the_notes_alone() -> None:
    """The last call and its result are enough to go on: nothing before them is needed."""
    asked: list[BaseMessage] = [HumanMessage(RULE), HumanMessage(QUESTION)]
    call = decide([*asked, *answered(decide(asked, "c1"), LISTING)], "c2")
    for part in (1, 2, 3):
        assert call.tool_calls[0]["args"] == {"path": "x.py", "part": part}
        call = decide(answered(call, f"x.py, part {part} of 3, from line {part}0\ndef f():\n    x = 1\n"), "c3")
    assert call.tool_calls == []
    assert call.text == "Most: x.py (2)\nFirst: x.py:11 def f\nRead: x.py"


def test_the_report_names_the_ticket_only_while_it_is_in_view() -> None:
    """The last answer is made of what the request holds."""
    last = HumanMessage(QUESTIONS[-1])
    said = AIMessage("First: os.py:308 def walk")
    assert decide([HumanMessage(QUESTIONS[0]), said, last], "c").text == "STD-4711 is done. Modules found: os.py."
    assert decide([said, last], "c").text.startswith("A ticket that I forgot")
