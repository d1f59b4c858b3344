"""Following parents: of checkpoints, and of compactions in the ledger."""

from collections.abc import Callable, Iterator

from ..errors import RowError


def lineage(start: str | None, parent_of: Callable[[str], str | None], row: Callable[[str], str]) -> Iterator[str]:
    """Yield `start`, its parent, that one's parent and so on, until there is none.

    RowError where damaged or forged rows lead back to one that came before; `row` names it.
    """
    seen = set[str]()
    here = start
    while here is not None:
        if here in seen:
            raise RowError(f"{row(here)} is damaged: following its parents leads back to it")
        seen.add(here)
        yield here
        here = parent_of(here)
