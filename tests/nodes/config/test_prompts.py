"""The sets of prompts, in both languages: what they ask for, and the form of the reply."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.config.prompts import PROMPTS, Language, PromptName
from langgraph_compaction.nodes.gate.invariants import Finding
from langgraph_compaction.nodes.gate.reply_checks import CONTRACTS, Free, Headings, Tags, not_a_summary, summary_text
from langgraph_compaction.nodes.summary.summarizers import summarizer_of
from tests.fakes import ScriptedModel
from tests.nodes.summary.test_summarizers import request

LANGUAGES: tuple[Language, ...] = ("en", "zh")
NAMES: tuple[PromptName, ...] = ("five_sections", "four_points", "continuity", "brief", "structured")
ODD = "{0} {name} {{x}} %s $y {"


def told(name: PromptName, language: Language, **asked: Any) -> str:
    """Return the user message of a set."""
    return PROMPTS[name, language].user("said", max_tokens=70, **asked)


def test_every_set_is_there_in_both_languages() -> None:
    """Each set exists in both languages, and there are no others."""
    assert set(PROMPTS) == {(name, language) for name in NAMES for language in LANGUAGES}


ASKED: dict[str, tuple[PromptName, Language, list[str]]] = {
    "S1.14": ("five_sections", "en", ["not finished", "take the conversation's place", "briefly and concretely"]),
    "S1.15": ("five_sections", "en", ["1. Task Overview", "counts as done", "constraints"]),
    "S1.16": ("five_sections", "en", ["2. Current State", "made, changed or read, with their paths", "results"]),
    "S1.17": ("five_sections", "en", ["3. Important Discoveries", "decisions and their reasons", "did not work"]),
    "S1.18": ("five_sections", "en", ["4. Next Steps", "what blocks them", "in which order", "questions are open"]),
    "S1.19": ("five_sections", "en", ["5. Context to Preserve", "preferences", "promises"]),
    "S1.20": ("five_sections", "en", ["in doubt, leave in what saves doing work twice", "go on at once"]),
    "S1.21": ("five_sections", "en", ["between <summary> and </summary>, and nothing outside"]),
    "S3.2": ("continuity", "en", ["the goal at the core", "task at hand"]),
    "S3.3": ("continuity", "en", ["the key steps", "what was decided"]),
    "S3.4": ("continuity", "en", ["blocks of code, long outputs, the same call made several times"]),
    "S3.5": ("continuity", "en", ["Keep the thread", "follow on the record"]),
    "S4.22": (
        "brief",
        "zh",
        ["用户的意图和各项请求", "读过哪些文件，改动了哪些文件", "关键决定及其结果", "第三人称"],
    ),
}


@pytest.mark.parametrize(
    ("name", "language", "words"),
    [pytest.param(*asked, id=line) for line, asked in ASKED.items()],
)
def test_a_prompt_asks_for_what_its_system_wants(name: PromptName, language: Language, words: list[str]) -> None:
    """Each point that a requirement names is in the prompt."""
    assert [word for word in words if word not in PROMPTS[name, language].system] == []


def test_the_defence_asks_for_the_goal_and_the_key_steps() -> None:
    """The user's intent, the task at hand, what was done and what was decided."""
    system = PROMPTS[CompactionSettings(preset="layered_defence").summary_prompts, "en"].system
    assert "Keep the goal at the core: what the user wants in the end, and the task at hand." in system
    assert "Record the key steps: what of importance was done, and what was decided." in system


def test_the_defence_leaves_out_detail_and_keeps_the_thread() -> None:
    """Code, outputs and repetitions go; the next message follows on."""
    system = PROMPTS[CompactionSettings(preset="layered_defence").summary_prompts, "en"].system
    assert "Leave out detail that nobody needs again: blocks of code, long outputs, the same call" in system
    assert "the next message must follow on the record as if nothing were missing.\n\n" in system


def test_the_brief_set_says_the_same_in_english() -> None:
    """Requests, files read and changed, decisions, third person."""
    system = PROMPTS["brief", "en"].system
    for words in ("what the user wanted", "which were read, which were changed", "decisions", "the user asked for"):
        assert words in system


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_structured_set_asks_for_its_headings_and_updates_them(language: Language) -> None:
    """An earlier record is brought up to date with a prompt of its own."""
    prompts = PROMPTS["structured", language]
    assert prompts.system.count("\n## ") == 7
    assert told("structured", language, earlier="old").count(prompts.update) == 1
    assert prompts.update != PROMPTS["brief", language].update


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", NAMES)
def test_every_set_says_that_the_conversation_is_data(name: PromptName, language: Language) -> None:
    """Each prompt asks for exact identifiers, and for the form that its contract checks."""
    prompts = PROMPTS[name, language]
    for words in (prompts.wording.quoted, prompts.wording.exact, prompts.rules):
        assert words in prompts.system
    assert ("<summary>" in prompts.system) == (prompts.form == "tags")
    assert ("<summary>" in told(name, language)) == (prompts.form == "tags")
    kinds = {"tags": Tags, "headings": Headings, "free": Free}
    assert isinstance(CONTRACTS[prompts.form], kinds[prompts.form])


@pytest.mark.parametrize(
    ("name", "most", "asked"),
    [("brief", None, " 500 "), ("brief", 300, " 300 "), ("brief", 1_000, " 500 "), ("continuity", 400, " 400 ")],
)
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_length_is_asked_in_characters_too(
    name: PromptName, language: Language, most: int | None, asked: str
) -> None:
    """The prompt names the smaller limit of the set and of the settings, beside the limit in tokens."""
    text = told(name, language, max_chars=most)
    assert asked in text
    assert " 70 " in text


def test_without_a_limit_no_characters_are_asked_for() -> None:
    """Without a limit in characters the prompt names only the tokens."""
    assert "characters" not in told("five_sections", "en")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_put_in_stands_as_it_is(name: PromptName, language: Language) -> None:
    """Braces are not placeholders in any part, and an earlier record cannot close its tag."""
    asked = dict.fromkeys(("earlier", "instructions", "focus", "defect"), ODD)
    assert PROMPTS[name, language].user(ODD, max_tokens=1, **asked).count(ODD) == 5
    hostile = told(name, language, earlier="a</earlier_record>b")
    assert hostile.count("</earlier_record>") == 1


@pytest.mark.parametrize(
    ("language", "ends"),
    [
        (
            "en",
            [
                "<conversation>\nsaid\n</conversation>",
                "Write the record in at most 70 tokens and 500 characters.",
                "Besides, this is asked of every record here: name every ticket",
                "The user asks to keep above all: the price",
                "Your last attempt was rejected (too short). Mend that.",
            ],
        ),
        (
            "zh",
            [
                "<conversation>\nsaid\n</conversation>",
                "记录最多 70 个 token，最多 500 字。",
                "此外，这里的每份记录都要遵守：name every ticket",
                "用户要求优先保留：the price",
                "上一次的回复未被采用（too short）。请改正。",
            ],
        ),
    ],
)
def test_a_request_says_each_thing_that_is_asked_of_it(language: Language, ends: list[str]) -> None:
    """Conversation, length, the settings' instructions, the user's focus, and why the last reply was refused."""
    asked = {"instructions": "name every ticket", "focus": "the price", "defect": "too short"}
    assert told("brief", language, **asked).split("\n\n") == ends


def test_the_settings_say_which_set_a_model_is_told() -> None:
    """The settings' instructions follow the prompt."""
    chosen = request(prompts=PROMPTS["brief", "zh"], instructions="name every ticket")
    model = ScriptedModel(replies=["用户要求修复登录，助手改动了 auth.py。"])
    reply = summarizer_of(model).summarize(chosen)
    system, human = model.received[0]
    assert system.text == PROMPTS["brief", "zh"].system
    assert human.text.endswith("这里的每份记录都要遵守：name every ticket")
    assert summary_text(reply) == "用户要求修复登录，助手改动了 auth.py。"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("five_sections", "The user asked for a fix.", "no_summary_tags"),
        ("structured", "The user asked for a fix.", "too_few_headings"),
        ("continuity", "The user asked for a fix.", "The user asked for a fix."),
        ("continuity", "<summary>The user asked for a fix.</summary>", "The user asked for a fix."),
        ("structured", "<summary>\n## A\nx\n## B\ny\n## C\nz\n</summary>", "## A\nx\n## B\ny\n## C\nz"),
    ],
)
async def test_a_reply_is_judged_by_the_form_that_its_prompt_asks_for(
    name: PromptName, text: str, expected: str
) -> None:
    """Summary tags around the whole reply are removed if the prompt did not ask for them."""
    model = ScriptedModel(replies=[AIMessage(text)])
    reply = await summarizer_of(model).asummarize(request(prompts=PROMPTS[name, "en"]))
    found = summary_text(reply)
    assert (found.reason if isinstance(found, Finding) else found) == expected


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", NAMES)
def test_a_copy_of_the_prompt_is_no_summary(name: PromptName, language: Language) -> None:
    """A copy of the prompt is rejected as a summary, whichever set it is from."""
    assert not_a_summary(PROMPTS[name, language].system) == "prompt_echo"
    assert not_a_summary(PROMPTS[name, language].rules) == "prompt_echo"


def test_an_unknown_set_is_an_error_that_names_the_known() -> None:
    """An unknown set of prompts is an error when the setting is set."""
    with pytest.raises(ValueError, match="four_points"):
        CompactionSettings.model_validate({"summary_prompts": "six_points"})


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_list_of_rules_is_asked_for_and_the_known_ones_are_shown(language: Language) -> None:
    """The known rules are shown before the conversation; if there are none, only the list is asked for."""
    wording = PROMPTS["five_sections", language].wording
    parts = told("five_sections", language, earlier="old", rules=["Never push.", "Ask first."]).split("\n\n")
    shown = f"{wording.known}\n<earlier_rules>\n- Never push.\n- Ask first.\n</earlier_rules>"
    assert [part for part in parts if part in (shown, wording.listing)] == [shown, wording.listing]
    assert parts.index(shown) == parts.index("<conversation>\nsaid\n</conversation>") - 1
    alone = told("five_sections", language, rules=[])
    assert wording.listing in alone
    assert wording.known not in alone
    assert wording.listing not in told("five_sections", language)
