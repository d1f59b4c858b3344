"""What a chat model is asked for a summary: sets of prompts as data, in two languages.

Everything is put together by concatenation: braces mean nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .prompt_texts import EN, RULES_EN, RULES_ZH, ZH, Wording

Language = Literal["en", "zh"]
PromptName = Literal["five_sections", "four_points", "continuity", "brief", "structured"]

ReplyForm = Literal["tags", "headings", "free"]
"""The form that a prompt asks of the reply: between tags, under headings, or any text."""

_ASKED: Mapping[PromptName, tuple[ReplyForm, int | None]] = {
    "five_sections": ("tags", None),
    "four_points": ("free", None),
    "continuity": ("free", None),
    "brief": ("free", 500),
    "structured": ("headings", None),
}
"""The form of each set's reply, and the characters that it asks for at most."""


@dataclass(frozen=True, kw_only=True)
class PromptSet:
    """What a summarizer is told, and the form that its reply has to have."""

    wording: Wording
    rules: str
    """What the record has to hold."""
    update: str
    """What to do with an earlier record."""
    form: ReplyForm
    characters: int | None = None
    """Most characters that the record is asked to hold."""

    @property
    def system(self) -> str:
        """The system message."""
        said = self.wording
        end = said.tagged if self.form == "tags" else said.bare
        return f"{said.purpose}\n\n{said.quoted}\n\n{self.rules}\n\n{said.exact}{end}"

    def user(
        self,
        conversation: str,
        *,
        earlier: str | None = None,
        max_tokens: int,
        max_chars: int | None = None,
        instructions: str | None = None,
        focus: str | None = None,
        defect: str | None = None,
    ) -> str:
        """The one user message: the earlier record, the conversation, and what is asked."""
        said = self.wording
        parts = [f"<conversation>\n{conversation}\n</conversation>"]
        if earlier:
            told = earlier.replace("</earlier_record", "&lt;/earlier_record")  # it cannot end its own quotation
            parts = [f"<earlier_record>\n{told}\n</earlier_record>", self.update, *parts]
        parts.append(self._length(max_tokens, max_chars))
        if instructions:
            parts.append(f"{said.instructions}{instructions}")
        if focus:
            parts.append(f"{said.focus}{focus}")
        if defect:
            parts.append(f"{said.defect[0]}{defect}{said.defect[1]}")
        return "\n\n".join(parts)

    def _length(self, max_tokens: int, max_chars: int | None) -> str:
        said = self.wording
        characters = min((most for most in (self.characters, max_chars) if most), default=None)
        text = f"{said.tokens[0]}{max_tokens}{said.tokens[1]}"
        if characters:
            text += f"{said.characters[0]}{characters}{said.characters[1]}"
        return f"{text}{said.between if self.form == 'tags' else ''}{said.stop}"


def _set(name: PromptName, language: Language) -> PromptSet:
    wording, rules = (ZH, RULES_ZH) if language == "zh" else (EN, RULES_EN)
    form, characters = _ASKED[name]
    return PromptSet(
        wording=wording,
        rules=rules[name],
        update=rules["structured_update"] if name == "structured" else wording.update,
        form=form,
        characters=characters,
    )


PROMPTS: Mapping[tuple[PromptName, Language], PromptSet] = {
    (name, language): _set(name, language) for name in _ASKED for language in ("en", "zh")
}
"""Every set of prompts, by name and language."""

FIVE_SECTIONS = PROMPTS["five_sections", "en"]
"""The usual one."""
