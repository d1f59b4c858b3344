"""Column types that mean the same on SQLite, PostgreSQL, MariaDB and MySQL."""

import re
from typing import Any

from sqlalchemy import BigInteger, Dialect, Integer, LargeBinary, String, Text
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeDecorator, TypeEngine

from ..errors import KeyTextError

_MYSQL = ("mysql", "mariadb")
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UUID_BYTES = 16
_NO_TEXT = b"\xff"

Long = BigInteger().with_variant(Integer(), "sqlite")  # only INTEGER numbers itself on SQLite
Body = LargeBinary().with_variant(mysql.LONGBLOB(), *_MYSQL)  # a plain BLOB ends at 64 kB there
Hash = LargeBinary(16).with_variant(mysql.BINARY(16), *_MYSQL)  # a BLOB cannot be indexed whole there


class Key(TypeDecorator[str]):
    """An id: compared byte by byte, at most `length` bytes of UTF-8, never empty unless `empty` allows it.

    MariaDB and MySQL get VARBINARY: their text collations fold case or ignore trailing blanks.
    """

    impl = String
    cache_ok = True

    def __init__(self, length: int, *, empty: bool = False) -> None:
        super().__init__(length)
        self.length = length
        self.empty = empty

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose the column's own type for one database."""
        binary = dialect.name in _MYSQL
        return dialect.type_descriptor(mysql.VARBINARY(self.length) if binary else String(self.length))

    def process_bind_param(self, value: str | None, dialect: Dialect) -> Any:
        """Check the id; KeyTextError says what is wrong with it."""
        if value is None:
            return None
        data = checked_key(value, self.length, empty=self.empty)
        return data if dialect.name in _MYSQL else value

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Return the id as it was given."""
        return value.decode() if isinstance(value, bytes) else value


class Ident(TypeDecorator[str]):
    """An id that usually is a UUID: 16 bytes then, the text of any other after a byte that no text holds."""

    impl = LargeBinary
    cache_ok = True

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose the column's own type for one database."""
        binary = dialect.name in _MYSQL
        return dialect.type_descriptor(mysql.VARBINARY(self.length) if binary else LargeBinary(self.length))

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Check the id, as `Key` does, and shorten it."""
        return None if value is None else ident(value, self.length)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Return the id as it was given."""
        return None if value is None else ident_text(bytes(value))


class Prose(TypeDecorator[str]):
    """Text of any length for people to read; a NUL or an unpaired surrogate in it is replaced."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose the column's own type for one database."""
        return dialect.type_descriptor(mysql.LONGTEXT() if dialect.name in _MYSQL else Text())

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Replace what PostgreSQL or UTF-8 cannot hold."""
        return None if value is None else printable(value)


def ident(value: str, length: int = 255) -> bytes:
    """Return an id as an `Ident` stands in a column, in whose order a database compares; KeyTextError as `Key`."""
    if _UUID.fullmatch(value):
        return bytes.fromhex(value.replace("-", ""))
    data = checked_key(value, length - 2)
    return _NO_TEXT * (1 + (len(data) + 1 == _UUID_BYTES)) + data


def ident_text(data: bytes) -> str:
    """Return the id that `ident` shortened."""
    if len(data) != _UUID_BYTES:
        return data.lstrip(_NO_TEXT).decode()
    text = data.hex()  # not UUID, which takes ten times as long
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def printable(text: str) -> str:
    """Return the text with U+FFFD for a NUL and a question mark for an unpaired surrogate."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def checked_key(value: str, length: int, *, empty: bool = False) -> bytes:
    """Return an id's UTF-8; KeyTextError says what is wrong with it."""
    shown = repr(value if len(value) <= 40 else value[:40] + "…")  # noqa: PLR2004 - enough to recognize it
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise KeyTextError(f"the id {shown} holds an unpaired surrogate; use text that is valid UTF-8") from None
    if not (value or empty):
        raise KeyTextError("an id is empty; give it a name")
    if "\0" in value:
        raise KeyTextError(f"the id {shown} holds a NUL character, which databases refuse")
    if len(data) > length:
        raise KeyTextError(f"the id {shown} has {len(data)} bytes; at most {length} are kept")
    return data
