"""Arrays outside `jit` behave as inside: immutable, promoted by the same rules, with `.at`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.tracing.pytree import tree_leaves

X = np.arange(1.0, 7.0).reshape(2, 3)


def test_a_name_for_an_array_keeps_its_values() -> None:
    x = rnp.arange(3)
    y = x
    x += 1
    assert x.tolist() == [1, 2, 3]
    assert y.tolist() == [0, 1, 2]


def test_results_share_no_memory_with_what_can_change() -> None:
    a = np.arange(4.0)
    made = [rnp.array(a), rnp.reshape(a, (2, 2)), rnp.flip(a), rlx.jit(lambda x: x)(a),
            rlx.grad(lambda x: (x * a).sum())(a), rnp.broadcast_to(a, (2, 4))]  # fmt: skip
    kept = [np.array(x) for x in made]
    a[:] = -1
    for x, before in zip(made, kept, strict=True):
        assert isinstance(x, rlx.Array)
        assert np.array_equal(x, before)


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "mul": lambda x, y: x * y,
    "radd": lambda x, y: y + x,
    "pow": lambda x, y: x**y,
    "div": lambda x, y: x / y,
    "lt": lambda x, y: x < y,
    "method": lambda x, y: x.sum() * y,
    "element": lambda x, y: x[0] * y,
    "neg": lambda x, y: -x,
}  # fmt: skip
TYPES = ("int8", "int32", "float32", "float64", "uint8", "bool")


@pytest.mark.parametrize("name", OPERATIONS)
def test_types_promote_as_inside_jit(name: str) -> None:
    operation = OPERATIONS[name]
    for left in TYPES[:4]:
        x = rnp.asarray(np.ones(3, left))
        others = [np.ones(3, right) for right in TYPES[2:5]] + [2, 1.5, np.float32(2)]
        for y in others:
            outside = operation(x, y)
            inside = rlx.jit(operation, backend="reference")(x, y)
            assert isinstance(outside, rlx.Array)
            assert outside.dtype == inside.dtype, (left, y)
            assert np.array_equal(outside, inside)


def test_results_of_numbers_alone_give_way_to_arrays() -> None:
    scale = rnp.sqrt(2.0)
    assert scale.weak_type
    assert (scale * np.ones(2, np.float32)).dtype == np.float32
    assert rlx.jit(lambda s, x: s * x)(scale, np.ones(2, np.float32)).dtype == np.float32
    assert rlx.jit(lambda: rnp.sqrt(2.0))().weak_type
    assert not rnp.sqrt(np.float64(2.0)).weak_type


def test_updates_at_an_index_are_there_outside_jit() -> None:
    x = rnp.asarray(X)
    assert x.at[0].set(0).tolist() == [[0, 0, 0], [4, 5, 6]]
    assert x.at[x > 4].add(1).tolist() == [[1, 2, 3], [4, 6, 7]]
    assert x.at[rnp.array([0, 0]), 1].add(1.0).tolist() == [[1, 4, 3], [4, 5, 6]]
    assert x.at[:, 5].get(mode="fill", fill_value=-1).tolist() == [-1, -1]
    assert x.at[9].set(0, mode="drop").tolist() == X.tolist()
    assert x.tolist() == X.tolist()
    with pytest.raises(IndexError):
        x.at[9].set(0)


def test_arrays_known_while_tracing_are_computed_with_at_once() -> None:
    table = rnp.array([1, 2, 3])

    @rlx.jit
    def f(x: Any) -> Any:
        doubled = table * 2
        return x * int(doubled[1]) if doubled.sum() > 3 else x

    assert f(np.ones(2)).tolist() == [4, 4]
    assert rlx.jit(lambda i: table[i])(np.int64(2)) == 3
    assert rlx.jit(lambda x: table * x)(np.ones(3)).tolist() == [1, 2, 3]


def test_every_function_gives_arrays_that_cannot_be_changed() -> None:
    x = rnp.asarray(X[:, :2])
    v, i = x[0], rnp.array([0, 1])
    tries: list[tuple[Any, ...]] = [(x,), (v,), (x, x), (x, i, 0), (x, 0), ([x, x],), (3,),
                                    (x > 1, x, x), (x > 1,), ((2, 2),), (0, 3), (i, i)]  # fmt: skip
    found = {}
    for name in sorted(rnp.__all__ if hasattr(rnp, "__all__") else dir(rnp)):
        function = getattr(rnp, name)
        own = callable(function) and str(getattr(function, "__module__", "")).startswith("rlx")
        if name.startswith("_") or isinstance(function, type) or not own:
            continue
        leaves = tree_leaves(_first_result(function, tries))
        arrays = [leaf for leaf in leaves if isinstance(leaf, (np.ndarray, np.generic))]
        if any(not isinstance(a, rlx.Array) or a.flags.writeable for a in arrays):
            found[name] = [type(a) for a in arrays]
    assert not found


def _first_result(function: Callable[..., Any], tries: list[tuple[Any, ...]]) -> Any:
    for arguments in tries:
        try:
            return function(*arguments)
        except (TypeError, ValueError, IndexError, AttributeError, NotImplementedError):
            continue
    return None


def test_methods_of_numpys_give_nothing_that_can_be_changed() -> None:
    x = rnp.asarray(X)
    made = [x.nonzero(), x.T, x.real, x.view("int64"), x.copy(), x.flatten(), x.astype("f32"),
            rnp.array([0, 1]).choose([x[:, 0], x[:, 1]]), x[0], list(x), x.swapaxes(0, 1),
            x.compress([True], axis=0), x[0].searchsorted(x), x.argsort(), x.sort(), x.round(),
            x.argpartition(1), x.byteswap(), x.squeeze(), x.dot(x.T), x.conj()]  # fmt: skip
    for array in tree_leaves(made):
        assert not array.flags.writeable


def test_the_namespace_of_an_array_is_rlx_numpy() -> None:
    assert rnp.ones(2).__array_namespace__() is rnp
