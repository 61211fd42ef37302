"""Wrong uses of functions over arrays that surfaced as Python's own errors once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError, RlxError, ShapeError

X = np.arange(6, dtype=np.float32).reshape(2, 3)

WRONG_USES: list[tuple[type[RlxError], str, Callable[[], Any]]] = [
    (ShapeError, "getitem: a slice has step 0; it must move", lambda: rlx.jit(lambda x: x[::0])(X)),
    (ShapeError, "vmap: in_axes: axis 5 is out of range for rank 2",
     lambda: rlx.vmap(lambda x: x, in_axes=5)(X)),
    (InputError, "concatenate: is given no array", lambda: rlx.jit(lambda: rnp.concatenate([]))()),
    (InputError, "jit takes a function and was given a int",
     lambda: rlx.jit(3)),  # type: ignore[call-overload]  # the fault
    (ShapeError, "matmul: x has shape (2, 3) and y has",
     lambda: rlx.jit(lambda x: x @ x)(X)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "message", "use"), WRONG_USES, ids=[w[1] for w in WRONG_USES])
def test_a_wrong_use_says_what_is_wrong_and_where(
    kind: type[RlxError], message: str, use: Callable[[], Any]
) -> None:
    with pytest.raises(kind) as caught:
        use()
    assert caught.value.message.startswith(message)
    assert caught.value.source is not None
    assert caught.value.source.file == __file__


def test_jacobians_of_functions_of_nothing_are_empty() -> None:
    nothing = np.zeros(0, np.float32)
    for jacobian in (rlx.jacfwd, rlx.jacrev):
        assert jacobian(lambda x: x * 2)(nothing).shape == (0, 0)
