from uuid import UUID

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.schema import CreateTable

from langgraph_compaction.checkpoint.db.columns import Ident, Key, printable
from langgraph_compaction.checkpoint.errors import KeyTextError

DIALECTS = (sqlite.dialect(), postgresql.dialect(), mysql.dialect())
IDENT = Ident(255)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=60)


def there_and_back(value: str | None) -> str | None:
    """Return what an id is after it was in a database."""
    (found,) = {IDENT.process_result_value(IDENT.process_bind_param(value, one), one) for one in DIALECTS}
    return found


@given(value=st.one_of(TEXTS, st.uuids().map(str), st.uuids().map(lambda one: str(one).upper()), st.none()))
def test_any_id_comes_back(value: str | None) -> None:
    """Ids of any form come back as they were, upper case and texts of a UUID's size too."""
    assert there_and_back(value) == value


@given(value=st.one_of(TEXTS, st.none()))
def test_any_key_comes_back(value: str | None) -> None:
    """A key that a database holds as bytes comes back as the text it was, as one that it holds as text does."""
    key = Key(255)
    found = {key.process_result_value(key.process_bind_param(value, one), one) for one in DIALECTS}
    assert found == {value}


def test_a_key_is_a_text_of_limited_length_but_bytes_on_mysql() -> None:
    """MySQL's collations compare texts without regard to case, so that two keys could be taken for the same."""
    table = sa.Table("t", sa.MetaData(), sa.Column("name", Key(20), primary_key=True))
    created = [" ".join(str(CreateTable(table).compile(dialect=one)).split()) for one in DIALECTS]
    held = ("VARCHAR(20)", "VARCHAR(20)", "VARBINARY(20)")
    assert created == [f"CREATE TABLE t ( name {kind} NOT NULL, PRIMARY KEY (name) )" for kind in held]
    assert [Key(20).process_bind_param("Ü", one) for one in DIALECTS] == ["Ü", "Ü", "Ü".encode()]


def test_a_uuid_takes_16_bytes_and_no_other_id_does() -> None:
    """A UUID as LangGraph writes it is shortened; texts of 14 to 17 bytes are not taken for one."""
    name = "1f0c7a2e-0000-6000-8000-0123456789ab"
    assert IDENT.process_bind_param(name, DIALECTS[0]) == UUID(name).bytes
    others = [*("x" * length for length in range(13, 18)), name.upper(), "ÿ" * 8, "x" * 15]
    stored = [IDENT.process_bind_param(other, DIALECTS[0]) for other in others]
    assert all(held is not None and len(held) != 16 for held in stored)
    assert len(set(stored)) == len(set(others))
    assert [there_and_back(other) for other in others] == others


@pytest.mark.parametrize("value", ["", "a\0b", "\ud800", "x" * 254], ids=["empty", "nul", "surrogate", "long"])
def test_an_id_no_database_can_keep_is_refused(value: str) -> None:
    """An id is refused before it is sent; the longest that is kept has 253 bytes."""
    with pytest.raises(KeyTextError):
        there_and_back(value)
    assert there_and_back("x" * 253) == "x" * 253


def test_what_people_read_can_be_printed() -> None:
    """A NUL and an unpaired surrogate are replaced, all else is left as it is."""
    assert printable("a\0b\ud800c") == "a\ufffdb?c"
    assert printable("世界 \U0001f600\n") == "世界 \U0001f600\n"
