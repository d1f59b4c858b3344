"""What is said of settings that are wrong: the file and key, the variable or the argument, and what to do."""

from pathlib import Path
from typing import Any

import pytest

from langgraph_compaction.nodes import SettingsError, load_settings
from tests.nodes.config.test_loading import env, section

PREFIX = "LANGGRAPH_COMPACTION_"
YAML = "YAML: context_compaction"
UNKNOWN_INSIDE = "{triggers: [{kind: marker}, {kind: count, unit: turns, limitt: 3}]}"
WRONG: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"yaml": section("{triger_ratio: 0.7}")}, (f"{YAML}.triger_ratio:", "did you mean trigger_ratio?")),
    ({"env": env(SLIDING_WINDOW="7")}, (f"{PREFIX}SLIDING_WINDOW:", f"did you mean {PREFIX}SLIDING_WINDOW_SIZE?")),
    ({"max_contxt_tokens": 1}, ("max_contxt_tokens:", "did you mean max_context_tokens?")),
    ({"yaml": section(UNKNOWN_INSIDE)}, (f"{YAML}.triggers[1]", "'limitt'", "did you mean limit?")),
    ({"preset": "selektive"}, ("preset:", "'selektive'", "did you mean selective?")),
    ({"yaml": section("{trigger_ratio: 1.5}")}, (f"{YAML}.trigger_ratio = 1.5:", "less than or equal to 1")),
    ({"env": env(PREVIEW_TOKENS="many")}, (f"{PREFIX}PREVIEW_TOKENS = 'many':", "a valid integer")),
    ({"env": env(PREVIEW_TOKENS="x" * 100)}, (f"{PREFIX}PREVIEW_TOKENS = '{'x' * 59}…:",)),
    ({"yaml": section("{preview_tokens: yes}")}, (f"{YAML}.preview_tokens", "no switch")),
    ({"yaml": section("{preview_tokens: }")}, (f"{YAML}.preview_tokens = None",)),
    ({"yaml": section("{triggers: [{kind: used_ratio, ratio: 2}]}")}, (f"{YAML}.triggers[0].ratio = 2",)),
    ({"env": env(CONVERSATION_TURN_THRESHOLD="0")}, (f"{PREFIX}CONVERSATION_TURN_THRESHOLD",)),
    ({"yaml": section("{max_context_tokens: 1, context_window: 2}")}, ("max_context_tokens", "context_window")),
    (
        {"yaml": section("{target_ratio: 0.7}"), "env": env(TRIGGER_RATIO="0.6")},
        (f"{YAML}.target_ratio, {PREFIX}TRIGGER_RATIO:", "(0.7)", "(0.6)"),
    ),
    ({"env": env(summary_remaining_token_threshold="0.3")}, ("is computed", f"{PREFIX}TRIGGERS")),  # noqa: S106
    ({"env": env(STRATEGIES="full")}, (f"{PREFIX}STRATEGIES = 'full': not JSON",)),
    ({"yaml": "context_compaction: {a: 1\nb: ]"}, ("YAML: not YAML (line 2, column 2",)),
    ({"yaml": "context_compaction: \x07"}, ("YAML: not YAML",)),
    ({"yaml": "context_compaction: !!python/object/apply:os.getcwd []"}, ("YAML: not YAML", "os.getcwd")),
    ({"yaml": "context_compation:\n  trigger_ratio: 0.7\n"}, ("context_compaction:", "by context_compation?")),
    ({"yaml": "\n"}, ("a key context_compaction:, which is missing",)),
    ({"yaml": section("[1, 2]")}, (f"{YAML} is [1, 2]",)),
    ({"yaml": "missing.yaml"}, ("missing.yaml: cannot be read", "as text it begins with")),
    ({"yaml": Path("missing.yaml")}, ("missing.yaml: cannot be read",)),
]


@pytest.mark.parametrize(("given", "said"), WRONG)
def test_what_is_wrong_is_said_with_its_place(
    given: dict[str, Any], said: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file and key, the variable or the argument, the value, and what is accepted."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError) as caught:
        load_settings(**given)
    assert [part for part in said if part not in str(caught.value)] == []


def test_a_file_is_named_in_what_is_wrong_with_it(tmp_path: Path) -> None:
    """Several faults are told at once."""
    path = tmp_path / "agent.yaml"
    path.write_text(section("{output_reserve: -1, preview_tokens: 0}"), encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load_settings(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: context_compaction.preview_tokens = 0")
    assert f"; {path}: context_compaction.output_reserve = -1" in said
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="not UTF-8 text"):
        load_settings(path)
