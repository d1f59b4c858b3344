"""Changes that have no effect, so that no test can notice them; `without_effect.toml` lists them."""

import tomllib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tests.requirements.mutations import Mutation, joined, mutations_by_function

LISTED = Path(__file__).with_name("without_effect.toml")


@dataclass(frozen=True, kw_only=True)
class WithoutEffect:
    """A change in a function, and the reason why everything that a user can see stays the same."""

    function: str
    """The file and the name of the function: `nodes/file.py:Class.function`."""
    before: str
    """The changed lines of the function as they are, with single spaces."""
    after: str
    reason: str

    @property
    def path(self) -> str:
        """The file, relative to the project's root."""
        return self.function.partition(":")[0]

    @property
    def key(self) -> tuple[str, str, str]:
        """The function, and its lines before and after the change, with single spaces."""
        return self.function, joined(self.before), joined(self.after)


def listed() -> list[WithoutEffect]:
    """Return all entries of the list."""
    return [WithoutEffect(**entry) for entry in tomllib.loads(LISTED.read_text(encoding="utf-8"))["change"]]


def without_effect(root: Path) -> frozenset[Mutation]:
    """Return the changes of the files below `root` that have no effect.

    Raises `ValueError` for an entry whose code is not there any more.
    """
    entries = listed()
    found: dict[tuple[str, str, str], list[Mutation]] = defaultdict(list)
    for path in {one.path for one in entries}:
        text = (root / path).read_text(encoding="utf-8")
        for function, changes in mutations_by_function(root, path).items():
            for change in changes:
                found[function, *change.compared(text)].append(change)
    for one in entries:
        if one.key not in found:
            raise ValueError(f"{one.function} has no change of {one.before!r} to {one.after!r}; mend {LISTED}")
    return frozenset(change for one in entries for change in found[one.key])
