"""Dtypes: sizes, names and promotion."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rlx.errors import DTypeError
from rlx.ir.dtype import DType, as_dtype, promote


@pytest.mark.parametrize(
    ("left", "right", "met"),
    [
        ("i32", "f32", "f32"),
        ("i64", "f32", "f64"),
        ("i8", "f16", "f32"),
        ("f16", "bf16", "f32"),
        ("bf16", "f16", "f32"),
        ("i8", "i16", "i16"),
        ("i32", "i64", "i64"),
        ("f16", "f32", "f32"),
        ("i32", "f64", "f64"),
        ("bool", "i8", "i8"),
        ("f64", "c64", "c128"),
        ("c64", "c128", "c128"),
        ("f32", "c64", "c64"),
        ("u8", "i8", "u8"),
    ],
)
def test_promotion_follows_the_table(left: str, right: str, met: str) -> None:
    assert promote(DType(left), DType(right)) is DType(met)


def test_promotion_commutes_up_to_ties_of_rank() -> None:
    ties = [{DType.U8, DType.I8}, {DType.U32, DType.I32}, {DType.I16, DType.BF16}]
    ties += [{DType.U16, DType.I16}, {DType.U16, DType.BF16}, {DType.U64, DType.I64}]
    for left, right in itertools.combinations(DType, 2):
        if {left, right} not in ties:
            assert promote(left, right) is promote(right, left)


@pytest.mark.parametrize(
    ("size", "names"),
    [(1, "bool i8 u8"), (2, "f16 bf16 i16"), (4, "f32 i32 u32"), (8, "f64 i64 c64"), (16, "c128")],
)
def test_dtypes_have_their_sizes(size: int, names: str) -> None:
    assert {DType(name).size for name in names.split()} == {size}


def test_every_dtype_is_found_by_name_and_by_its_numpy_dtype() -> None:
    for dtype in DType:
        assert as_dtype(dtype.value) is dtype
        assert as_dtype(dtype.numpy) is dtype


@pytest.mark.parametrize("spec", ["f8", "object", np.dtype("<U3"), np.dtype(np.clongdouble), str])
def test_an_unknown_dtype_lists_the_known_ones(spec: str) -> None:
    with pytest.raises(DTypeError, match="use one of: f16 bf16"):
        as_dtype(spec)
