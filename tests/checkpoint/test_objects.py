"""Objects of an application come back with exactly the fields that they had, or are refused when they are put."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_serializer, field_validator, model_validator

from langgraph_compaction.checkpoint import SQLAlchemySaver, ValueTypeError
from tests.checkpoint.contract.steps import Steps, values_of


@dataclass
class Computed:
    """A field that no argument sets."""

    a: int
    total: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Compute the field."""
        self.total = self.a + 1


@dataclass(frozen=True, slots=True)
class Checked:
    """A constructor that does not take every value that the field can get."""

    a: int

    def __post_init__(self) -> None:
        """Refuse large numbers."""
        if self.a > 5:
            raise ValueError("at most 5")


@dataclass
class Lively:
    """Something beside the fields, which only the constructor can make again."""

    a: int

    def __post_init__(self) -> None:
        """Refuse large numbers, and make something."""
        if self.a > 5:
            raise ValueError("at most 5")
        self.made = object()


class Planet(Enum):
    """Members whose values are tuples, which are stored as lists."""

    EARTH = (1, (2.5, "blue"))
    MARS = (2, (1.5, "red"))

    def __init__(self, mass: int, about: tuple[float, str]) -> None:
        self.mass, self.about = mass, about


class Alike(Enum):
    """Two members whose values are stored alike."""

    TUPLE = (1, 2)
    LIST = [1, 2]  # noqa: RUF012 - a value


class Span(NamedTuple):
    """A named tuple."""

    first: int
    last: int


class Doubled(BaseModel):
    """A validator that must not run twice."""

    a: int

    @field_validator("a")
    @classmethod
    def double(cls, value: int) -> int:
        """Double a number."""
        return 2 * value


class Limited(BaseModel):
    """A validator that refuses what the field got later."""

    model_config = ConfigDict(extra="allow")
    a: int = Field(alias="theA")
    inner: Doubled | None = None
    hidden: str = Field(default="", exclude=True)

    @model_validator(mode="after")
    def check(self) -> "Limited":
        """Refuse large numbers."""
        if self.a > 5:
            raise ValueError("at most 5")
        return self


class OwnInitModel(BaseModel):
    """Arguments of its own, and private attributes."""

    a: int
    _calls: list[int] = PrivateAttr(default_factory=list)

    def __init__(self, start: int) -> None:
        super().__init__(a=2 * start)


class Remote(BaseModel):
    """Something that is made after the fields, and not from every value."""

    host: str

    def model_post_init(self, _context: Any, /) -> None:
        """Refuse an empty host."""
        if not self.host:
            raise ValueError("no host")


class Numbers(BaseModel):
    """A value that only the model's own serializer can write."""

    held: complex

    @field_serializer("held")
    def written(self, value: complex) -> str:
        """Return the number as text."""
        return f"{value}"


class Ship:
    """Classes within a class."""

    class Phase(Enum):
        """An enumeration within a class."""

        LOADED = "loaded"

    class Crate(BaseModel):
        """A model within a class."""

        phase: "Ship.Phase"

    @dataclass(frozen=True)
    class Deck:
        """A dataclass within a class."""

        number: int


def changed(value: Any, **fields: Any) -> Any:
    """Set fields of a value without its validators."""
    for name, held in fields.items():
        object.__setattr__(value, name, held)
    return value


EXACT: dict[str, Any] = {
    "a field without an argument": changed(Computed(1), total=41),
    "a constructor that refuses it": changed(Checked(1), a=9),
    "a member with a tuple": [Planet.EARTH, {"m": Planet.MARS}],
    "a named tuple": Span(1, 2),
    "more than its fields": Lively(1),
    "a validator that refuses it": changed(
        Limited.model_validate({"theA": 1, "inner": {"a": 2}, "hidden": "x", "more": [Span(1, 2)]}), a=9
    ),
    "a model with an own constructor": OwnInitModel(2),
    "a model made after its fields": Remote(host="h"),
    "a model with its own serializer": Numbers(held=1 + 2j),
    "a member within a class": Ship.Phase.LOADED,
    "a model within a class": Ship.Crate(phase=Ship.Phase.LOADED),
    "a set of dataclasses": {Ship.Deck(1), Ship.Deck(2)},
}
MINE = (
    *(Computed, Checked, Planet, Alike, Span, Doubled, Limited, OwnInitModel, Remote, Numbers),
    *(Ship.Phase, Ship.Crate, Ship.Deck, Lively),
)


def stored(value: Any) -> Any:
    """Return a value as it is read again from a database in memory."""
    with SQLAlchemySaver.from_url("memory", allow=MINE) as saver:
        saver.setup()
        return values_of(saver, Steps(saver, "t").put({"x": value}))["x"]


@pytest.mark.parametrize("name", EXACT)
def test_an_object_gets_exactly_its_fields_back(name: str) -> None:
    """Also one that its class would not make so: no constructor, default or validator changes what was stored."""
    value = EXACT[name]
    found = stored(value)
    assert found == value
    assert repr(found) == repr(value)
    if isinstance(value, BaseModel):
        assert found.model_fields_set == value.model_fields_set


def local() -> Any:
    """Return an object of a class that no name leads to."""

    @dataclass
    class Local:
        a: int

    return Local(1)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (Alike.TUPLE, "TUPLE has the same stored value as another member"),
        (changed(Remote(host="h"), host=""), "no host"),
        (changed(Lively(1), a=9), "at most 5"),
        (local(), "no class Local at its top level"),
    ],
    ids=["alike", "made after its fields", "more than its fields", "local"],
)
def test_what_could_not_be_read_again_is_refused(value: Any, why: str) -> None:
    """When it is written, with the class and the reason: a thread that holds it could not be read any more."""
    with pytest.raises(ValueTypeError, match=why):
        stored({"deep": [value]})
