"""einsum contracts three or more operands in the order of least arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.ir.dtype import DType
from rlx.ir.types import TensorType

RANDOM = np.random.default_rng(0)
CASES: dict[str, tuple[tuple[int, ...], ...]] = {
    "bi,bj,ij->b": ((7, 5), (7, 6), (5, 6)),
    "ij,jk,kl->il": ((4, 9), (9, 2), (2, 8)),
    "ij,jk,kl,lm,mn->in": ((2, 3), (3, 4), (4, 5), (5, 6), (6, 7)),
    "ab,bc,cd,de,ef,fg,gh,h->a": ((2, 3), (3, 2), (2, 3), (3, 2), (2, 3), (3, 2), (2, 3), (3,)),
    "ii,ij,j->": ((4, 4), (4, 5), (5,)),
    "...i,...j,ij->...": ((3, 2, 4), (2, 5), (4, 5)),
    "ab,b,ab->ab": ((3, 1), (4,), (3, 4)),
}
ORDERS: tuple[Any, ...] = (True, False, "optimal", "greedy")


def arrays(subscripts: str) -> list[np.ndarray[Any, Any]]:
    return [RANDOM.standard_normal(shape) for shape in CASES[subscripts]]


@pytest.mark.parametrize("optimize", ORDERS)
@pytest.mark.parametrize("subscripts", CASES)
def test_every_order_gives_numpys_values(subscripts: str, optimize: Any) -> None:
    given = arrays(subscripts)
    found = rnp.einsum(subscripts, *given, optimize=optimize)
    np.testing.assert_allclose(found, np.einsum(subscripts, *given), rtol=1e-12, atol=1e-12)


def test_a_path_of_numpy_is_followed() -> None:
    given = arrays("ij,jk,kl->il")
    path, _ = np.einsum_path("ij,jk,kl->il", *given, optimize="optimal")
    found = rnp.einsum("ij,jk,kl->il", *given, optimize=path)
    np.testing.assert_allclose(found, np.einsum("ij,jk,kl->il", *given), rtol=1e-12)


@pytest.mark.parametrize(
    "optimize", ["fastest", [(0, 1)], [(0, 3), (0, 1)], [(0, 0), (0, 1)]], ids=str
)
def test_a_path_that_does_not_fit_is_refused(optimize: Any) -> None:
    with pytest.raises(InputError, match="einsum"):
        rnp.einsum("ij,jk,kl->il", *arrays("ij,jk,kl->il"), optimize=optimize)


def arena(subscripts: str, *shapes: tuple[Any, ...]) -> int:
    types = [TensorType(DType.F32, shape) for shape in shapes]
    graph = rlx.jit(lambda *x: rnp.einsum(subscripts, *x)).graph(*types)
    return rlx.compile(graph).plan.arena_bytes


def test_no_operand_is_multiplied_out() -> None:
    assert arena("bi,bj,ij->b", (1024, 256), (1024, 256), (256, 256)) < 4 * 2**20


def test_symbolic_extents_count_by_their_bounds() -> None:
    n = rlx.Dim("n", max=1024)
    assert arena("bi,bj,ij->b", (n, 256), (n, 256), (256, 256)) < 4 * 2**20
