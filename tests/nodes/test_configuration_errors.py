"""What is said of settings that are wrong: the file and key, the variable or the argument."""

from pathlib import Path
from typing import Any

import pytest

from langgraph_compaction.nodes import CompactionSettings, SettingsError, load_settings
from langgraph_compaction.nodes.config.policies import Selective
from tests.nodes.config.test_loading import env, section

SHARED, OWN = CompactionSettings.model_fields, Selective.model_fields
RATIO, TRIGGERS = (" ".join((SHARED[name].description or "").split()) for name in ("trigger_ratio", "triggers"))
PREVIEW = " ".join((OWN["preview_tokens"].description or "").split())
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown key of the YAML": (
        {"yaml": section("{triger_ratio: 0.7}")},
        "YAML: context_compaction.triger_ratio: there is no such setting; did you mean trigger_ratio?",
    ),
    "an unknown variable": (
        {"env": env(SLIDING_WINDOW="7")},
        (
            "LANGGRAPH_COMPACTION_SLIDING_WINDOW: there is no such setting; did you mean "
            "LANGGRAPH_COMPACTION_SLIDING_WINDOW_SIZE?"
        ),
    ),
    "an unknown argument": (
        {"max_contxt_tokens": 1},
        "max_contxt_tokens: there is no such setting; did you mean max_context_tokens?",
    ),
    "an unknown key inside a setting": (
        {"yaml": section("{triggers: [{kind: marker}, {kind: count, unit: turns, limitt: 3}]}")},
        (
            "YAML: context_compaction.triggers[1] = {'kind': 'count', 'unit': 'turns', 'limitt': 3}: "
            "unknown 'limitt': "
            "did you mean limit?"
        ),
    ),
    "a value out of bounds in the YAML": (
        {"yaml": section("{trigger_ratio: 1.5}")},
        f"YAML: context_compaction.trigger_ratio = 1.5: Input should be less than or equal to 1 ({RATIO})",
    ),
    "a value of another kind in a variable": (
        {"env": env(PREVIEW_TOKENS="many")},
        (
            "LANGGRAPH_COMPACTION_PREVIEW_TOKENS = 'many': Input should be a valid integer, unable to "
            "parse string as an "
            f"integer ({PREVIEW})"
        ),
    ),
    "a value that is no choice": (
        {"preset": "selektive"},
        ("preset: there is no preset 'selektive'; did you mean selective?"),
    ),
    "a long value": (
        {"env": env(PREVIEW_TOKENS="x" * 100)},
        (
            f"LANGGRAPH_COMPACTION_PREVIEW_TOKENS = '{'x' * 59}…: Input should be a valid integer, unable to parse "
            f"string as an integer ({PREVIEW})"
        ),
    ),
    "a value that is just short enough": (
        {"env": env(PREVIEW_TOKENS="x" * 58)},
        (
            f"LANGGRAPH_COMPACTION_PREVIEW_TOKENS = '{'x' * 58}': Input should be a valid integer, unable to parse "
            f"string as an integer ({PREVIEW})"
        ),
    ),
    "a switch where a number is meant": (
        {"yaml": section("{preview_tokens: yes}")},
        "YAML: context_compaction.preview_tokens: preview_tokens = true: this is no switch",
    ),
    "nothing where something is needed": (
        {"yaml": section("{preview_tokens: }")},
        f"YAML: context_compaction.preview_tokens = None: Input should be a valid integer ({PREVIEW})",
    ),
    "a value inside a trigger": (
        {"yaml": section("{triggers: [{kind: used_ratio, ratio: 2}]}")},
        f"YAML: context_compaction.triggers[0].ratio = 2: Input should be less than or equal to 1 ({TRIGGERS})",
    ),
    "a threshold of turns that is none": (
        {"env": env(CONVERSATION_TURN_THRESHOLD="0")},
        "LANGGRAPH_COMPACTION_CONVERSATION_TURN_THRESHOLD",
    ),
    "one setting by two names": (
        {"yaml": section("{max_context_tokens: 1, context_window: 2}")},
        (
            "YAML: context_compaction.max_context_tokens: max_context_tokens and context_window are the same "
            "setting: give one of them"
        ),
    ),
    "two sources that contradict each other": (
        {"yaml": section("{target_ratio: 0.7}"), "env": env(TRIGGER_RATIO="0.6")},
        (
            "YAML: context_compaction.target_ratio, LANGGRAPH_COMPACTION_TRIGGER_RATIO: target_ratio "
            "(0.7) must be below "
            "trigger_ratio (0.6): a compaction that ends where it starts runs at every turn"
        ),
    ),
    "a figure that is computed": (
        {"env": env(summary_remaining_token_threshold="0.3")},  # noqa: S106 - a figure
        (
            "LANGGRAPH_COMPACTION_SUMMARY_REMAINING_TOKEN_THRESHOLD: this is computed, 25 % of the "
            "window; another share "
            'is a trigger of its own: LANGGRAPH_COMPACTION_TRIGGERS with {"kind": "remaining_ratio", "ratio": 0.25}'
        ),
    ),
    "a list that is no JSON": (
        {"env": env(STRATEGIES="full")},
        ("LANGGRAPH_COMPACTION_STRATEGIES = 'full': not JSON (Expecting value: line 1 column 1 (char 0))"),
    ),
    "text that is no YAML": (
        {"yaml": "context_compaction: {a: 1\nb: ]"},
        "YAML: not YAML (line 2, column 2: expected ',' or '}', but got ':')",
    ),
    "characters that no YAML has": (
        {"yaml": "context_compaction: \x07"},
        (
            "YAML: not YAML (unacceptable character #x0007: special characters are not allowed in "
            '"<unicode string>", '
            "position 20)"
        ),
    ),
    "an object of a class": (
        {"yaml": "context_compaction: !!python/object/apply:os.getcwd []"},
        (
            "YAML: not YAML (line 1, column 21: could not determine a constructor for the tag "
            "'tag:yaml.org,2002:python/object/apply:os.getcwd')"
        ),
    ),
    "a key that is nearly right": (
        {"yaml": "context_compation:\n  trigger_ratio: 0.7\n"},
        (
            "YAML: the settings stand under a key context_compaction:, which is missing; did you mean it by "
            "context_compation?"
        ),
    ),
    "no key at all": (
        {"yaml": "\n"},
        "YAML: the settings stand under a key context_compaction:, which is missing",
    ),
    "a key with something else": (
        {"yaml": section("[1, 2]")},
        "YAML: context_compaction is [1, 2]; it holds settings, one `name: value` a line",
    ),
    "a file that is not there": (
        {"yaml": "missing.yaml"},
        "missing.yaml: cannot be read (No such file or directory); as text it begins with context_compaction:",
    ),
    "a path that is not there": (
        {"yaml": Path("missing.yaml")},
        "missing.yaml: cannot be read (No such file or directory)",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_with_its_place(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file and key, the variable or the argument, the value, and what is accepted."""
    monkeypatch.chdir(tmp_path)
    given, said = WRONG[name]
    with pytest.raises(SettingsError) as caught:
        load_settings(**given)
    assert str(caught.value) == said or (name.startswith("a threshold") and said in str(caught.value))


def test_a_file_is_named_in_what_is_wrong_with_it(tmp_path: Path) -> None:
    """Several faults are told at once."""
    path = tmp_path / "agent.yaml"
    path.write_text(section("{output_reserve: -1, preview_tokens: 0}"), encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load_settings(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: context_compaction.preview_tokens = 0: Input should be greater than 0")
    place = f"; {path}: context_compaction.output_reserve"
    assert f"{place} = -1: Input should be greater than or equal" in said
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="not UTF-8 text"):
        load_settings(path)
