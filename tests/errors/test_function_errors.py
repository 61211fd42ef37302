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
    (InputError, "jit takes a function, not int",
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


def test_vmap_calls_arguments_by_their_names() -> None:
    graph = rlx.jit(rlx.vmap(lambda first, *, second: first + second["a"])).graph
    named = graph(X, second={"a": X})
    assert [str(value.node.name) for value in named.inputs] == ["first", "second_a"]

    def fails(weights: Any, index: Any) -> Any:
        return weights + "text" if index is None else rnp.reshape(weights, (7, index.shape[0]))

    with pytest.raises(InputError, match="argument 'weights'"):
        rlx.vmap(fails)("text", X)


def test_jit_names_the_argument_that_is_no_array() -> None:
    with pytest.raises(InputError, match=r"^argument 'second_b' holds an object of type str"):
        rlx.jit(lambda first, second: (first, second))(X, {"a": X, "b": "text"})
    with pytest.raises(InputError, match=r"^argument 'third' holds"):
        rlx.jit(lambda first, *, third: (first, third), static_argnums=0)(1, third="text")


def test_errors_of_several_functions_bear_one_name() -> None:
    with pytest.raises(ShapeError) as caught:
        rnp.stack([X, X[0]])
    assert caught.value.message == "stack: the arrays have shapes [(2, 3), (3,)]; they must agree"
