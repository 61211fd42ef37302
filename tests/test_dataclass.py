"""`rlx.dataclass` makes classes that behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from functools import cached_property
from typing import Any, Generic, TypeVar

import pytest

from rlx.dataclass import dataclass as ours

T = TypeVar("T")
Decorator = Callable[..., Any]
OPTIONS: list[dict[str, bool]] = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "slots": True, "kw_only": True},
    {"eq": False},
]


def declare(decorator: Decorator, options: dict[str, bool]) -> type[Any]:
    class Declared(Generic[T]):
        """A class with every kind of field."""

        first: int
        second: str = "two"
        hidden: float = field(default=3.0, repr=False, compare=False)
        items: list[int] = field(default_factory=list)
        derived: int = field(init=False, default=5)
        last: int = field(default=6, kw_only=True)

        def sum(self) -> int:
            return self.first + self.last

        @property
        def double(self) -> int:
            return 2 * self.first

    decorated: type[Any] = decorator(**options)(Declared)
    return decorated


def outcome(action: Callable[[], object]) -> object:
    """Return what `action` returns, or the type and text of its error."""
    try:
        return action()
    except Exception as error:
        return type(error), str(error).replace("Declared.__init__()", "__init__()")


ACTIONS: dict[str, Callable[[type[Any]], object]] = {
    "repr": lambda c: repr(c(first=1, second="b", items=[1, 2])).rpartition(".")[2],
    "equal": lambda c: c(first=1) == c(first=1),
    "differs": lambda c: c(first=1) == c(first=2),
    "ignores what is not compared": lambda c: c(first=1, hidden=1.0) == c(first=1, hidden=2.0),
    "other class": lambda c: c(first=1) == 1,
    "hash of a list": lambda c: hash(c(first=1)) if "__eq__" in vars(c) else None,
    "hash": lambda c: (
        "__hash__" not in vars(c) or hash(c(first=1, items=())) == hash(c(first=1, items=()))
    ),
    "missing": lambda c: c(),
    "unknown": lambda c: c(first=1, turbo=True),
    "twice": lambda c: c(1, first=1),
    "signature": lambda c: (
        str(inspect.signature(c))
        .replace("=<factory>", "=F")
        .replace(repr(dataclasses.MISSING), "F")
    ),
    "assign": lambda c: setattr(c(first=1), "first", 2),
    "assign another": lambda c: outcome(lambda: setattr(c(first=1), "other", 2)) is None,
    "delete": lambda c: delattr(c(first=1), "first"),
    "fields": lambda c: [
        (f.name, f.type, f.init, f.repr, f.kw_only) for f in dataclasses.fields(c)
    ],
    "replace": lambda c: dataclasses.replace(c(first=1), second="z").second,
    "replace derived": lambda c: dataclasses.replace(c(first=1), derived=2),
    "asdict": lambda c: dataclasses.asdict(c(first=1)),
    "is a dataclass": dataclasses.is_dataclass,
    "match": lambda c: c.__match_args__,
    "copy": lambda c: copy.copy(c(first=1, items=[3])).items,
    "deep copy": lambda c: copy.deepcopy(c(first=1, items=[3])).items,
    "factory": lambda c: c(first=1).items is c(first=1).items,
    "methods": lambda c: (c(first=1).sum(), c(first=1).double),
    "document": lambda c: c.__doc__,
    "has a dict": lambda c: hasattr(c(first=1), "__dict__"),
}


@pytest.mark.whole
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o) or "plain")
def test_classes_behave_as_those_of_the_standard_library(
    options: dict[str, bool], action: str
) -> None:
    run = ACTIONS[action]
    found, expected = (
        outcome(lambda d=d: run(declare(d, options)))  # type: ignore[misc]  # bound now
        for d in (ours, dataclasses.dataclass)
    )
    assert found == expected


@ours(frozen=True, slots=True)
class Base:
    x: int
    y: int = 2

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x is negative")

    def described(self) -> str:
        return f"x={self.x}"


@ours(frozen=True, slots=True)
class Derived(Base):
    z: int = 3

    def described(self) -> str:
        return super().described() + f" z={self.z}"


@ours(frozen=True)
class WithDict:
    x: int

    @cached_property
    def square(self) -> int:
        return self.x * self.x


def test_fields_are_inherited_and_super_refers_to_the_made_class() -> None:
    value = Derived(1, z=5)
    assert (value.x, value.y, value.z) == (1, 2, 5)
    assert value.described() == "x=1 z=5"
    assert repr(value) == "Derived(x=1, y=2, z=5)"
    assert vars(Derived)["__slots__"] == ("z",)
    assert Derived(1) != Base(1)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o) or "plain")
def test_generic_classes_are_made_with_their_argument(options: dict[str, bool]) -> None:
    assert declare(ours, options)[int](first=1).first == 1


def test_post_init_runs() -> None:
    with pytest.raises(ValueError, match="x is negative"):
        Derived(-1)


def test_instances_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(Derived(1, z=7))) == Derived(1, z=7)
    assert pickle.loads(pickle.dumps(WithDict(3))) == WithDict(3)


def test_a_frozen_class_with_a_dict_caches_properties() -> None:
    value = WithDict(4)
    assert value.square == 16
    assert vars(value)["square"] == 16
    with pytest.raises(FrozenInstanceError):
        value.x = 1  # type: ignore[misc]  # what is refused


def test_instances_match_by_position() -> None:
    match Derived(1, 2, 3):
        case Derived(x, y, z):
            assert (x, y, z) == (1, 2, 3)


def test_an_instance_that_is_called_has_the_signature_of_its_call() -> None:
    @ours(frozen=True)
    class Scaled:
        factor: float

        def __call__(self, x: float) -> float:
            return self.factor * x

    assert [*inspect.signature(Scaled).parameters] == ["factor"]
    assert [*inspect.signature(Scaled(2.0)).parameters] == ["x"]
