"""What Python's numbers and lists become when a compiled graph is called: never less than given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import InputError
from rlx.ir.graph import Graph


def identity(dtype: str, shape: tuple[int, ...] = ()) -> Any:
    graph = Graph("g")
    x = graph.input("x", shape, dtype)
    graph.set_outputs([graph.reshape(x, shape=(*shape, 1))])
    return rlx.compile(graph, backend="reference")


REFUSED: list[tuple[str, Any, str]] = [
    ("i32", 2.7, "2.7 is a fraction, which i32 does not hold"),
    ("i32", 2**40, "the number 1099511627776 does not fit i32"),
    ("u8", -1, "the number -1 does not fit u8, which goes from 0 to 255"),
    ("f32", None, "None of type NoneType is not a number"),
    ("f32", "3", "'3' of type str is not a number"),
    ("f64", 1j, "1j is complex, which f64 does not hold"),
    ("bool", "no", "'no' of type str is not a number"),
    ("bool", 2, "2 is an integer, which bool does not hold"),
    ("i32", np.float64(2.5), "has dtype float64; it must be i32"),
    ("f32", np.float64(2.5), "has dtype float64; it must be f32"),
]


@pytest.mark.parametrize(("dtype", "value", "message"), REFUSED, ids=[r[2] for r in REFUSED])
def test_what_would_be_lost_is_refused(dtype: str, value: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        identity(dtype)(value)
    assert "'x'" in caught.value.message
    assert message in caught.value.message
    assert caught.value.remedy is not None


KEPT: list[tuple[str, Any]] = [
    ("i32", True), ("i32", -7), ("u8", 255), ("f32", 2), ("f32", 2.5), ("f16", True),
    ("bf16", 0.5), ("c64", 1.5), ("c64", 1 + 2j), ("bool", False), ("f32", np.float32(2.5)),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "value"), KEPT)
def test_what_fits_is_taken(dtype: str, value: Any) -> None:
    (result,) = identity(dtype)(value)
    assert result[0] == value
    assert str(result.dtype) == str(rlx.TensorType(rlx.ir.dtype.as_dtype(dtype), ()).dtype.numpy)


def test_lists_are_taken_where_their_numbers_fit() -> None:
    (result,) = identity("f32", (2,))([1, 2.5])
    assert result.ravel().tolist() == [1, 2.5]
    with pytest.raises(InputError, match="item 0 is a list of 1 and item 1 is a number"):
        identity("f32", (2,))([[1], 2])
    with pytest.raises(InputError, match="which i32 does not hold"):
        identity("i32", (2,))([1, 2.5])


def test_a_masked_array_is_refused() -> None:
    masked = np.ma.MaskedArray(np.ones(2, np.float32), mask=[True, False])
    with pytest.raises(InputError, match="would lose its mask"):
        identity("f32", (2,))(masked)
