"""Column types that behave alike on SQLite, PostgreSQL, MariaDB and MySQL."""

from functools import lru_cache
from typing import Any

from sqlalchemy import BigInteger, Dialect, Integer, LargeBinary, String, Text
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeDecorator, TypeEngine

from ..errors import KeyTextError
from ..patterns import Anchored

_MYSQL = ("mysql", "mariadb")
_UUID = Anchored("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UUID_BYTES = 16
_NO_TEXT = b"\xff"
_KNOWN_IDS = 4_096  # an id stands in several rows and calls

Long = BigInteger().with_variant(Integer(), "sqlite")  # SQLite generates keys only for columns of type INTEGER
Body = LargeBinary().with_variant(mysql.LONGBLOB(), *_MYSQL)  # a plain BLOB holds 64 kB at most on MySQL
Hashes = LargeBinary(1536).with_variant(mysql.VARBINARY(1536), *_MYSQL)  # a BLOB would have pages of its own there


class Key(TypeDecorator[str]):
    """An id: compared byte by byte, at most `length` bytes of UTF-8, and not empty unless `empty` is set.

    On MariaDB and MySQL the column is VARBINARY, because their text collations ignore case or trailing blanks.
    """

    impl = String
    cache_ok = True

    def __init__(self, length: int, *, empty: bool = False) -> None:
        super().__init__(length)
        self.length = length
        self.empty = empty

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the column type for one database."""
        binary = dialect.name in _MYSQL
        return dialect.type_descriptor(mysql.VARBINARY(self.length) if binary else String(self.length))

    def process_bind_param(self, value: str | None, dialect: Dialect) -> Any:
        """Return the id as the database stores it; raise KeyTextError for an id that cannot be stored."""
        if value is None:
            return None
        data = checked_key(value, self.length, empty=self.empty)
        return data if dialect.name in _MYSQL else value

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Return the id as the application gave it."""
        return value.decode() if isinstance(value, bytes) else value


class Ident(TypeDecorator[str]):
    """An id that usually is a UUID, stored as 16 bytes; any other id is stored as UTF-8 after a 0xFF byte."""

    impl = LargeBinary
    cache_ok = True

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the column type for one database."""
        binary = dialect.name in _MYSQL
        return dialect.type_descriptor(mysql.VARBINARY(self.length) if binary else LargeBinary(self.length))

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Return the id as the database stores it; raise KeyTextError for an id that cannot be stored."""
        return None if value is None else ident(value, self.length)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Return the id as the application gave it."""
        return None if value is None else ident_text(bytes(value))


class Prose(TypeDecorator[str]):
    """Text of any length that people read; NUL characters and unpaired surrogates in it are replaced."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the column type for one database."""
        return dialect.type_descriptor(mysql.LONGTEXT() if dialect.name in _MYSQL else Text())

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Replace characters that PostgreSQL or UTF-8 cannot hold."""
        return None if value is None else printable(value)


@lru_cache(_KNOWN_IDS)
def ident(value: str, length: int = 255) -> bytes:
    """Return the bytes by which an `Ident` column stores and orders an id; raise KeyTextError for an invalid id."""
    if _UUID.fullmatch(value):
        return bytes.fromhex(value.replace("-", ""))
    data = checked_key(value, length - 2)
    return _NO_TEXT * (1 + (len(data) + 1 == _UUID_BYTES)) + data


def ident_text(data: bytes) -> str:
    """Return the id that `ident` was given."""
    if len(data) != _UUID_BYTES:
        return data.lstrip(_NO_TEXT).decode()
    text = data.hex()  # the class UUID takes ten times as long
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def printable(text: str) -> str:
    """Replace each NUL character by U+FFFD and each unpaired surrogate by a question mark."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def checked_key(value: str, length: int, *, empty: bool = False) -> bytes:
    """Return an id as UTF-8; raise KeyTextError if the id is empty, too long or has an unstorable character."""
    shown = repr(value if len(value) <= 40 else value[:40] + "…")  # noqa: PLR2004 - enough to recognize the id
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise KeyTextError(f"the id {shown} holds an unpaired surrogate; use text that is valid UTF-8") from None
    if not (value or empty):
        raise KeyTextError("an id is empty; give it a name")
    if "\0" in value:
        raise KeyTextError(f"the id {shown} holds a NUL character, which databases refuse")
    if len(data) > length:
        raise KeyTextError(f"the id {shown} has {len(data)} bytes; at most {length} can be stored")
    return data
