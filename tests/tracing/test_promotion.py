"""Promotion against JAX's, weak types included."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from rlx.errors import DTypeError
from rlx.ir.dtype import DType
from rlx.tracing.promotion import ElementType, promote_types

STRONG = [ElementType(dtype) for dtype in DType]
WEAK = [ElementType(d, weak=True) for d in (DType.I64, DType.F64, DType.C128)]


@pytest.fixture(scope="module")
def jax() -> Any:
    module = pytest.importorskip("jax")
    module.config.update("jax_enable_x64", True)
    return module


def test_every_pair_promotes_as_in_jax(jax: Any) -> None:
    numbers = {DType.I64: 1, DType.F64: 1.0, DType.C128: 1j}
    for left, right in itertools.product(STRONG + WEAK, repeat=2):
        operands = [
            numbers[t.dtype] if t.weak else jax.numpy.zeros((), t.dtype.numpy)
            for t in (left, right)
        ]
        try:
            expected, weak = jax.dtypes.result_type(*operands, return_weak_type_flag=True)
        except jax.dtypes.TypePromotionError:
            with pytest.raises(DTypeError, match="have no common type"):
                promote_types([left, right])
            continue
        given = promote_types([left, right])
        assert (given.dtype.numpy, given.weak) == (expected, weak), (left, right)


def test_promotion_does_not_depend_on_the_order() -> None:
    meeting = [type for type in STRONG + WEAK if not type.dtype.is_storage]
    for left, right in itertools.product(meeting, repeat=2):
        assert promote_types([left, right]) == promote_types([right, left])
