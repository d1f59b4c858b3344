"""Changes that are made by name: mistakes that the requirements' tests have overlooked before."""

from dataclasses import dataclass
from pathlib import Path

from tests.requirements.lines import tests
from tests.requirements.mutations import Mutation


@dataclass(frozen=True, kw_only=True)
class Named:
    """A mistake, the line of the requirements that it breaks, and where it is made."""

    line: str
    what: str
    path: str
    old: str
    """The code to replace, which has to occur once in the file."""
    new: str

    @property
    def tests(self) -> tuple[str, ...]:
        """The ids of the tests that are marked with the line."""
        return tuple(f"{test.path}::{test.name}" for test in tests()[self.line])

    def mutation(self, root: Path) -> Mutation:
        """Return the change of the file below `root`; raise `ValueError` where the code is not there any more."""
        text = (root / self.path).read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(
                f"{self.line}, {self.what}: {self.path} does not hold {self.old!r} once; mend {__file__}"
            )
        begin = text.index(self.old)
        number = text.count("\n", 0, begin) + 1
        return Mutation(self.path, begin, begin + len(self.old), self.new, self.old, number)


_NAME = 'selector.view.messages[{}.indexes[0]].tool_calls[0]["name"]'
_OF_THE_TOOL = f"[two for two in selector.view.blocks if {_NAME.format('two')} == {_NAME.format('one')}]"

NAMED = (
    Named(
        line="S0.8",
        what="blocks are kept tool by tool",
        path="nodes/selection/strategies/tool_blocks.py",
        old="selector.view.blocks[-plan.blocks :] if plan.blocks else ()",
        new=f"[one for one in selector.view.blocks if plan.blocks and one in {_OF_THE_TOOL}[-plan.blocks :]]",
    ),
    Named(
        line="S2.3",
        what="steps with tools are counted as turns",
        path="nodes/selection/trigger_evaluation.py",
        old='"turns": self.turns',
        new='"turns": self.model_calls',
    ),
    Named(
        line="S3.13",
        what="system messages are not counted as events",
        path="nodes/selection/trigger_evaluation.py",
        old="    return len(messages)\n",
        new="    return sum(not isinstance(message, SystemMessage) for message in messages)\n",
    ),
    Named(
        line="S3.24",
        what="the layer before the call is missing",
        path="nodes/config/presets.py",
        old='"hooks": ("pre_input", "pre_model", "on_overflow"),\n        "strategies": ("full",),',
        new='"hooks": ("pre_input", "on_overflow"),\n        "strategies": ("full",),',
    ),
)
