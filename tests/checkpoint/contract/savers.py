"""The savers that the contract is run against: on every database, and encrypted."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from langgraph_compaction.checkpoint import Keyring, SQLAlchemySaver
from tests.full import FULL

KEYS = Keyring({"contract": bytes(32)}, current="contract")


@dataclass(frozen=True)
class Kind:
    """A database, and how a saver opens it."""

    database: str
    encrypted: bool = False

    def open(self, url: str, **options: Any) -> AbstractContextManager[SQLAlchemySaver]:
        """Open a saver."""
        keys = KEYS if self.encrypted else None
        return SQLAlchemySaver.from_url(url, keys=keys, **options)

    def __str__(self) -> str:
        return f"{self.database}{', encrypted' * self.encrypted}"


ONE_WRITER, MANY_WRITERS = Kind("sqlite"), Kind("postgresql")
KINDS = [ONE_WRITER, MANY_WRITERS]
if FULL:
    KINDS += [Kind("memory"), Kind("mariadb"), Kind("sqlite", encrypted=True), Kind("postgresql", encrypted=True)]
