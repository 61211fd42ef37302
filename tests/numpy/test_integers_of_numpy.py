"""NumPy's integers, and arrays without axes, are accepted wherever an integer is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import lax, nn

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
SHORT = np.array([3.0, 1.0, 2.0, 0.0])

CALLS: dict[str, Callable[[Any], Any]] = {
    "argmax": lambda i: rnp.argmax(X, axis=i), "argsort": lambda i: rnp.argsort(X, axis=i),
    "array_split": lambda i: rnp.array_split(SHORT, i),
    "avg_pool": lambda i: nn.avg_pool(X[None], i, i),
    "broadcast_to": lambda i: rnp.broadcast_to(SHORT, (i, 4)),
    "concatenate": lambda i: rnp.concatenate([X, X], axis=i),
    "cumsum": lambda i: rnp.cumsum(X, axis=i), "diag": lambda i: rnp.diag(SHORT, i),
    "diff": lambda i: rnp.diff(SHORT, i),
    "dynamic_slice": lambda i: lax.dynamic_slice(SHORT, (i,), (i,)),
    "expand_dims": lambda i: rnp.expand_dims(X, i), "eye": lambda i: rnp.eye(i),
    "fft": lambda i: rnp.fft.fft(SHORT, i), "fftshift": lambda i: rnp.fft.fftshift(X, i),
    "flip": lambda i: rnp.flip(X, i),
    "fori_loop": lambda i: lax.fori_loop(0, i, lambda _, c: c * 2, 1.0),
    "full": lambda i: rnp.full((i, i), 3.0), "histogram": lambda i: rnp.histogram(SHORT, i),
    "linspace": lambda i: rnp.linspace(0, 1, i),
    "matrix_power": lambda i: rnp.linalg.matrix_power(X[0, :3, :3], i),
    "max_pool": lambda i: nn.max_pool(X[None], i), "median": lambda i: rnp.median(X, axis=i),
    "method reshape": lambda i: rnp.asarray(SHORT).reshape(i, i),
    "method sum": lambda i: rnp.asarray(X).sum(i), "moveaxis": lambda i: rnp.moveaxis(X, i, 0),
    "one_hot": lambda i: nn.one_hot(np.array([0, 1]), i), "ones": lambda i: rnp.ones(i),
    "pad": lambda i: rnp.pad(SHORT, i), "partition": lambda i: rnp.partition(SHORT, i),
    "repeat": lambda i: rnp.repeat(SHORT, i), "reshape": lambda i: rnp.reshape(X, (i, -1)),
    "roll": lambda i: rnp.roll(SHORT, i), "softmax": lambda i: nn.softmax(X, axis=i),
    "sort": lambda i: rnp.sort(X, axis=i), "split": lambda i: rnp.split(SHORT, i),
    "stack": lambda i: rnp.stack([X, X], axis=i), "sum": lambda i: rnp.sum(X, axis=i),
    "swapaxes": lambda i: rnp.swapaxes(X, i, 0),
    "take": lambda i: rnp.take(X, np.array([0, 1]), axis=i),
    "tensordot": lambda i: rnp.tensordot(X, X.transpose(1, 2, 0), i),
    "tile": lambda i: rnp.tile(SHORT, i), "top_k": lambda i: lax.top_k(SHORT, i),
    "trace": lambda i: rnp.trace(X, offset=i), "tri": lambda i: rnp.tri(i),
    "tril": lambda i: rnp.tril(X, i), "zeros": lambda i: rnp.zeros((i, 3)),
}  # fmt: skip


def leaves(result: Any) -> list[tuple[Any, Any]]:
    parts, _ = rlx.tree_util.tree_flatten(result)
    return [(np.asarray(part).dtype, np.asarray(part).tolist()) for part in parts]


@pytest.mark.whole
@pytest.mark.parametrize("number", [np.int64(2), np.uint8(2), rnp.array(2)], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_an_integer_of_any_kind_is_one_outside_jit(name: str, number: Any) -> None:
    assert leaves(CALLS[name](number)) == leaves(CALLS[name](2))


@pytest.mark.whole
@pytest.mark.parametrize("name", CALLS)
def test_an_integer_of_numpy_is_one_inside_jit(name: str) -> None:
    assert leaves(rlx.jit(lambda: CALLS[name](np.int64(2)))()) == leaves(
        rlx.jit(lambda: CALLS[name](2))()
    )


def test_numbers_that_were_asked_for_are_asked_for_again() -> None:
    for shift in (1, 2, 3):
        assert rnp.roll(SHORT, np.int64(shift)).tolist() == np.roll(SHORT, shift).tolist()
    with pytest.raises(rlx.errors.ShapeError, match="axis 9"):
        rnp.roll(X, 1, np.int64(9))
    for axis in (1, 2, 1, 0):
        assert rnp.roll(X, 1, np.int64(axis)).tolist() == np.roll(X, 1, axis).tolist()
        assert rnp.roll(X, np.int64(axis), axis).tolist() == np.roll(X, axis, axis).tolist()
    zeros = [rnp.full((np.int64(1),), np.float64(zero)) for zero in (0.0, -0.0)]
    assert [bool(rnp.signbit(zero)[0]) for zero in zeros] == [False, True]
    slopes = [rnp.array(0.5), np.float32(0.25)]
    assert [float(nn.leaky_relu(rnp.array(-1.0), slope)) for slope in slopes] == [-0.5, -0.25]


def test_errors_are_of_the_number_that_was_given() -> None:
    with pytest.raises(rlx.errors.ShapeError, match="axis 7"):
        rnp.sum(X, axis=np.int64(7))
    with pytest.raises(rlx.errors.ShapeError, match="traced"):
        rlx.jit(lambda n: rnp.zeros(n))(np.int64(3))
