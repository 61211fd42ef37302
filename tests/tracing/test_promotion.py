"""Promotion against JAX's, weak types included."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from rlx.errors import DTypeError
from rlx.ir.dtype import DType
from rlx.tracing.promotion import ElementType, promote_types

STRONG = [ElementType(dtype) for dtype in DType]
WEAK = [ElementType(d, weak=True) for d in (DType.I64, DType.F64, DType.C64)]


@pytest.fixture(scope="module")
def jax() -> Any:
    module = pytest.importorskip("jax")
    module.config.update("jax_enable_x64", True)
    return module


def test_every_pair_meets_where_jax_says(jax: Any) -> None:
    numbers = {DType.I64: 1, DType.F64: 1.0, DType.C64: 1j}
    for left, right in itertools.product(STRONG + WEAK, repeat=2):
        operands = [
            numbers[t.dtype] if t.weak else jax.numpy.zeros((), t.dtype.numpy)
            for t in (left, right)
        ]
        expected, weak = jax.dtypes.result_type(*operands, return_weak_type_flag=True)
        if weak and expected == np.complex128:  # a Python complex alone: c64 here
            continue
        if expected == np.complex128:
            with pytest.raises(DTypeError, match="complex128"):
                promote_types([left, right])
            continue
        given = promote_types([left, right])
        assert (given.dtype.numpy, given.weak) == (expected, weak), (left, right)


def test_promotion_does_not_depend_on_the_order() -> None:
    for left, right in itertools.product(STRONG + WEAK, repeat=2):
        if DType.C64 not in (left.dtype, right.dtype):
            assert promote_types([left, right]) == promote_types([right, left])
