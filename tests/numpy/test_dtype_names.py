"""Names of element types where rlx's bits (`f32`) and NumPy's bytes (`f4`) differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import DTypeError

CODES = ("i1", "i2", "i4", "u1", "u2", "u4", "f2", "f4", "c8")
TAKERS: dict[str, Callable[[str], Any]] = {
    "x.astype": lambda name: rnp.ones(3).astype(name),
    "astype in jit": lambda name: rlx.jit(lambda x: x.astype(name))(np.ones(3)),
    "zeros": lambda name: rnp.zeros(3, name),
    "array": lambda name: rnp.array([1, 2], dtype=name),
    "ShapeDtypeStruct": lambda name: rlx.ShapeDtypeStruct((3,), name),
}


@pytest.mark.whole
@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("code", CODES)
def test_codes_of_numpy_mean_what_they_mean_in_numpy(code: str, taker: str) -> None:
    assert TAKERS[taker](code).dtype == np.dtype(code)


@pytest.mark.parametrize("taker", TAKERS)
def test_names_of_rlx_count_bits(taker: str) -> None:
    for name in ("i16", "i32", "i64", "u16", "u32", "u64", "f32", "f64"):
        assert TAKERS[taker](name).dtype.itemsize == int(name[1:]) // 8


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize(("name", "bits", "bytes"), [("i8", "int8", "int64"),
                                                     ("u8", "uint8", "uint64")])  # fmt: skip
def test_what_means_two_things_is_refused(name: str, bits: str, bytes: str, taker: str) -> None:
    with pytest.raises(DTypeError, match=f"{name!r} is {bits} .* and {bytes}") as caught:
        TAKERS[taker](name)
    assert caught.value.remedy == f"use {bits!r} or {bytes!r}"


def test_a_graph_has_builders_of_rlx_only() -> None:
    graph = rlx.Graph("g")
    assert graph.input("x", (3,), "i8").dtype.numpy == np.int8
    with pytest.raises(DTypeError, match="unknown dtype 'f4'"):
        graph.input("y", (3,), "f4")
