"""Kernels of real numbers that read complex ones, or make them of what they compute.

Their vectors hold consecutive elements; equal parts of neighboring complex numbers are two apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import lax, nn
from rlx.ir.reference import evaluate

_random = np.random.default_rng(0)


def real(*shape: int) -> Any:
    return _random.standard_normal(shape).astype(np.float32)


def both(*shape: int) -> Any:
    return (_random.standard_normal(shape) + 1j * _random.standard_normal(shape)).astype("c8")


def _convolved(x: Any, w: Any, groups: int = 1) -> Any:
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=groups)


def _pooled(x: Any) -> Any:
    return lax.reduce_window(x, -np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


KERNELS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "tiles": (lambda x, w: x @ w.T, (real(33, 9), real(33, 9))),
    "whole tiles": (lambda x, w: x @ w, (real(64, 64), real(64, 64))),
    "a row": (lambda x, w: x @ w, (real(1, 300), real(300, 200))),
    "a vector": (lambda x, w: w @ x, (real(300), real(200, 300))),
    "a batch": (lambda x, w: x @ w, (real(9, 5, 6), real(9, 6, 11))),
    "convolution": (_convolved, (real(2, 8, 9, 10), real(16, 8, 3, 3))),
    "points": (_convolved, (real(1, 8, 9, 10), real(33, 8, 1, 1))),
    "channel by channel": (
        lambda x, w: _convolved(x, w, 8), (real(1, 8, 9, 20), real(8, 1, 3, 3)),
    ),
    "maxima": (_pooled, (real(2, 3, 8, 36),)),
    "sums of rows": (lambda x: rnp.sum(x, 1), (real(40, 600),)),
    "sums of columns": (lambda x: rnp.sum(x, 0), (real(600, 33),)),
    "softmax": (lambda x: nn.softmax(x, -1), (real(5, 33),)),
    "layer norm": (
        lambda x, w: nn.layer_norm(x, w, rnp.zeros(33)), (real(5, 33), real(33)),
    ),
    "running sums": (lambda x: rnp.cumsum(x, 1), (real(5, 33),)),
}  # fmt: skip

FOLLOWED: dict[str, Callable[[Any, Any], Any]] = {
    "made complex": lambda y, _: y.astype("complex64"),
    "times complex": lambda y, z: y * z,
    "plus a real part": lambda y, z: y + rnp.real(z),
    "rotated": lambda y, z: rnp.real(rnp.exp(1j * y) * z),
    "both": lambda y, z: (y * z, y + 1),
}


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("name", KERNELS)
def test_complex_numbers_follow(name: str, backend: str) -> None:
    kernel, arrays = KERNELS[name]
    z = both(*rnp.shape(kernel(*arrays)))
    for following, function in FOLLOWED.items():
        check(lambda z, *xs, f=function: f(kernel(*xs), z), (z, *arrays), backend, following)


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("name", KERNELS)
def test_complex_numbers_come_before(name: str, backend: str) -> None:
    kernel, (x, *rest) = KERNELS[name]
    z = both(*x.shape)
    check(lambda z, *xs: kernel(rnp.imag(z) + rnp.real(z), *xs), (z, *rest), backend, "parts")
    check(lambda z, *xs: kernel(rnp.abs(z), *xs), (z, *rest), backend, "sizes")


def check(function: Any, arrays: tuple[Any, ...], backend: str, where: str) -> None:
    compiled = rlx.jit(function, backend=backend)
    graph = compiled.graph(*arrays)
    names = [str(each.node.name) for each in graph.inputs]
    expected = evaluate(graph, dict(zip(names, arrays, strict=True)))
    found = compiled(*arrays)
    for one, other in zip(found if len(expected) > 1 else [found], expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4, err_msg=where)
