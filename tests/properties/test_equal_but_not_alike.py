"""Values that compare equal and mean different programs: 1, 1.0 and True; 0.0 and -0.0."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import rlx


@dataclasses.dataclass(frozen=True)
class Config:
    factor: Any


CONTAINERS = {
    "alone": lambda x: x,
    "in a tuple": lambda x: (x,),
    "in nested tuples": lambda x: ((x, 0), ()),
    "in a frozenset": lambda x: frozenset([x]),
    "in a dataclass": Config,
}


def first(value: Any) -> Any:
    """Return the number inside."""
    if isinstance(value, Config):
        return value.factor
    while isinstance(value, (tuple, frozenset)):
        (value, *_) = value
    return value


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("named", [False, True])
def test_equal_static_arguments_of_other_types_have_programs_of_their_own(
    container: str, named: bool
) -> None:
    wrap = CONTAINERS[container]
    x = np.ones(3, np.int32)
    scale = rlx.jit(lambda x, k: x * first(k), static_argnums=1, static_argnames="k")
    for factor in (1, 1.0, True, 1 + 0j, 1):
        found = scale(x, k=wrap(factor)) if named else scale(x, wrap(factor))
        expected = rlx.jit(lambda x, factor=factor: x * factor)(x)
        assert found.dtype == expected.dtype, factor


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("number", [float, np.float32])
def test_static_zeros_keep_their_signs(container: str, number: Any) -> None:
    wrap = CONTAINERS[container]
    scale = rlx.jit(lambda x, k: x * first(k), static_argnums=1)
    for zero in map(number, (0.0, -0.0, 0.0)):
        found = np.asarray(scale(np.ones(3, np.float32), wrap(zero)))
        assert (np.signbit(found) == np.signbit(zero)).all(), zero


def test_alike_static_arguments_share_a_program() -> None:
    scale = rlx.jit(lambda x, k: x * first(k), static_argnums=1)
    for _ in range(3):
        scale(np.ones(3, np.float32), (2.0,))
        scale(np.ones(3, np.float32), Config(2.0))
    assert scale.cache_info().compiled == 2
