import traceback
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError as SQLAlchemyOperationalError

from langgraph_compaction.checkpoint import Database, DatabaseError
from langgraph_compaction.checkpoint.db.urls import create_engine, sync_url
from langgraph_compaction.checkpoint.errors import DatabaseURLError
from tests.checkpoint.listening import listening

SECRET = "s3cret/word"  # noqa: S105 - made up, to be looked for in errors
QUOTED = "s3cret%2Fword"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("sqlite:///a.db", "sqlite+pysqlite:///a.db"),
        ("sqlite+aiosqlite:////tmp/a.db", "sqlite+pysqlite:////tmp/a.db"),
        ("memory", "sqlite+pysqlite://"),
        ("postgresql://u@h:1/d", "postgresql+psycopg://u@h:1/d"),
        ("postgres://u@h/d?sslmode=require", "postgresql+psycopg://u@h/d?sslmode=require"),
        ("postgresql+psycopg://u@h/d", "postgresql+psycopg://u@h/d"),
        ("postgresql+psycopg_async://u@h/d", "postgresql+psycopg://u@h/d"),
        ("postgresql+asyncpg://u@h/d", "postgresql+psycopg://u@h/d"),
        ("postgresql+asyncpg://u@h/d?ssl=require", "postgresql+psycopg://u@h/d?sslmode=require"),
        ("postgresql+pg8000://u@h/d", "postgresql+pg8000://u@h/d"),
        ("mysql://u@h/d", "mysql+pymysql://u@h/d"),
        ("mysql+aiomysql://u@h/d?charset=utf8mb4", "mysql+pymysql://u@h/d?charset=utf8mb4"),
        ("mysql+asyncmy://u@h/d", "mysql+pymysql://u@h/d"),
        ("mariadb://u@h/d", "mariadb+pymysql://u@h/d"),
        ("mariadb+asyncmy://u@h/d", "mariadb+pymysql://u@h/d"),
        (f"postgresql://u:{QUOTED}@h/d", f"postgresql+psycopg://u:{QUOTED}@h/d"),
    ],
)
def test_every_driver_name_leads_to_a_synchronous_driver(target: str, expected: str) -> None:
    """Short, synchronous and asynchronous names are accepted, and everything else in the URL is kept."""
    assert sync_url(target).render_as_string(hide_password=False) == expected


@pytest.mark.parametrize(
    ("target", "durable"),
    [
        *(
            (one, False)
            for one in ("memory", "sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true")
        ),
        *((one, True) for one in ("sqlite:///a.db", "postgresql://u@h/d", "mariadb://u@h/d")),
    ],
)
def test_memory_is_not_durable(target: str, *, durable: bool) -> None:
    """Every way to spell an SQLite memory database is known; opening another one does not touch it yet."""
    with Database.open(target) as database:
        assert database.durable is durable


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("agent.db", "sqlite:///agent.db"),
        ("", "sqlite:///agent.db"),
        (None, "synchronous SQLAlchemy Engine"),
        (f"oracle://u:{QUOTED}@h/d", "no support for 'oracle'"),
        (f"postgresql+nothing://u:{QUOTED}@h/d", "cannot be opened"),
        (f"postgresql://u:{SECRET}@h:{SECRET}/d", "percent-encoded"),
        (f"postgresql://u:x@{SECRET}@h:5/d", "percent-encoded"),
        ("postgresql://u:x@s3cret@h/d", "percent-encoded"),
        ("postgresql://host/name?prepare_threshold=soon", "cannot be opened: .*'soon'"),
    ],
)
def test_what_cannot_be_opened_says_what_to_do(target: str, text: str) -> None:
    """A text that is no URL, another kind of database and an unknown driver are one clear error, without password."""
    with pytest.raises(DatabaseError, match=text) as caught:
        Database.open(target)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the driver's package is not installed, the error says what to install."""

    def refuse(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'psycopg'", name="psycopg")

    monkeypatch.setattr(sa, "create_engine", refuse)
    with pytest.raises(DatabaseError, match=r"needs the Python package 'psycopg'; pip install .*\[postgres\]"):
        Database.open("postgresql://u@h/d")


@pytest.mark.parametrize(
    ("target", "unusable"),
    [
        (f"postgresql://u:{QUOTED}@127.0.0.1:1/d", False),
        (f"mariadb://u:{QUOTED}@127.0.0.1:1/d", False),
        ("sqlite:////no/such/folder/a.db", True),
    ],
)
def test_an_unreachable_database_is_one_clear_error(target: str, *, unusable: bool) -> None:
    """A server that does not answer and a file in no folder say where and what to check, without the password.

    Of these, only the URL of the file is called unusable: the server may answer later.
    """
    with Database.open(target) as database, pytest.raises(DatabaseError, match=r"cannot connect to.*check") as caught:
        database.setup()
    assert isinstance(caught.value, DatabaseURLError) is unusable
    assert "u:" not in str(caught.value)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def test_a_password_in_a_drivers_words_is_covered() -> None:
    """Should a driver repeat the password, it does not reach the error's text."""
    database = Database(sa.create_engine(f"postgresql+psycopg://u:{QUOTED}@h/d"))
    error = SQLAlchemyOperationalError("SELECT 1", {}, Exception(f"no entry for u with {SECRET}"))
    assert database._text(error) == "no entry for u with ***"
    without = Database(sa.create_engine("postgresql+psycopg://u@h/d"))
    assert without._text(ValueError("None of them answers")) == "None of them answers"


@pytest.mark.parametrize(("given", "passed"), [("none", None), ("0", 0), ("7", 7)])
def test_a_url_says_when_statements_are_prepared(given: str, passed: int | None) -> None:
    """The driver takes a number or nothing; behind a pooler of transactions nothing may be prepared."""
    engine = create_engine(sync_url(f"postgresql://host/name?prepare_threshold={given}"))
    found: list[Any] = []

    def connect(_dialect: object, _record: object, _args: object, options: dict[str, Any]) -> None:
        found.append(options["prepare_threshold"])
        raise ConnectionError

    with listening(engine, "do_connect", connect), pytest.raises(ConnectionError):
        engine.connect()
    assert found == [passed]
