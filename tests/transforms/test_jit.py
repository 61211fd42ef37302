"""`jit`: its cache, static and donated arguments, trees, and what it shows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx.ir.verify import verify

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


def counted(**options: Any) -> tuple[Any, list[int]]:
    """Return a jitted function and a list that grows when it is traced."""
    traces: list[int] = []

    def function(x: Any, y: Any) -> Any:
        traces.append(1)
        return x * y

    return rlx.jit(function, backend="reference", **options), traces


def test_a_function_is_traced_once_per_shape_and_dtype() -> None:
    product, traces = counted()
    product(X, X)
    product(X + 1, X)
    assert len(traces) == 1
    product(X[:1], X[:1])
    product(X.astype(np.float64), X)
    assert len(traces) == 3
    product(X, X)
    assert len(traces) == 3


def test_native_code_is_chosen_by_shape_on_the_fast_path_too() -> None:
    double = rlx.jit(lambda x: x * 2, threads=1)
    for _ in range(2):
        for x in (X, X[:1], X.astype(np.float64), X.T):
            result = double(x)
            np.testing.assert_array_equal(result, x * 2)
            assert result.dtype == x.dtype


def test_trees_and_numbers_are_distinguished_on_the_fast_path_too() -> None:
    jitted = rlx.jit(lambda tree, rate: {name: x * rate for name, x in tree.items()}, threads=1)
    whole = np.arange(3)
    calls: list[tuple[Any, Any]] = [
        ({"a": X}, 2.0),
        ({"b": X}, 2.0),
        ({"a": X, "b": X}, 2.0),
        ({"a": X}, 3),
        ({"a": X}, np.full((), 4, np.float32)),
        ({"a": whole}, 5),
        ({"a": 1.5}, 2.0),
        ({"a": X}, True),
    ]
    for _ in range(4):
        for tree, rate in calls:
            results = jitted(tree, rate)
            assert list(results) == list(tree)
            for name, x in tree.items():
                expected = jitted.graph(tree, rate).outputs[0].dtype.numpy
                assert results[name].dtype == expected
                np.testing.assert_array_equal(results[name], np.asarray(x * rate, expected))


def test_python_numbers_are_weak_and_share_one_trace() -> None:
    product, traces = counted()
    assert product(X, 2.0).dtype == np.float32
    assert product(X, 3.5).dtype == np.float32
    assert len(traces) == 1
    assert product(X, np.float64(2)).dtype == np.float64
    assert product(2, 3).dtype == np.int64


def test_numpy_scalars_share_the_trace_of_arrays_without_axes() -> None:
    product, traces = counted()
    assert product(np.float64(2), X).dtype == np.float64
    assert product(np.array(3.0), X).dtype == np.float64
    assert len(traces) == 1


def test_static_arguments_are_values_and_part_of_the_key() -> None:
    def power(x: Any, n: int, sign: str = "+") -> Any:
        for _ in range(n):
            x = x * x
        return x if sign == "+" else -x

    jitted = rlx.jit(power, static_argnums=1, static_argnames="sign", backend="reference")
    np.testing.assert_array_equal(jitted(X, 2), X**4)
    np.testing.assert_array_equal(jitted(X, 1, sign="-"), -(X**2))
    np.testing.assert_array_equal(jitted(X, 1), X**2)


def test_jit_is_a_decorator_with_options() -> None:
    @rlx.jit(static_argnames=("n",), backend="reference")
    def shifted(x: Any, *, n: int) -> Any:
        return x + n

    np.testing.assert_array_equal(shifted(X, n=3), X + 3)


class Pair(NamedTuple):
    left: Any
    right: Any


def test_trees_go_in_and_come_out() -> None:
    def function(tree: Any, *, more: Any) -> Any:
        return {"pair": Pair(tree["a"][0], None), "list": [more["b"], (tree["a"][1],)]}

    given = {"a": [X, X + 1]}
    result = rlx.jit(function, backend="reference")(given, more={"b": X + 2})
    assert isinstance(result["pair"], Pair)
    assert result["pair"].right is None
    np.testing.assert_array_equal(result["pair"].left, X)
    np.testing.assert_array_equal(result["list"][0], X + 2)
    np.testing.assert_array_equal(result["list"][1][0], X + 1)


def test_a_jitted_function_inlines_inside_a_trace() -> None:
    inner = rlx.jit(lambda x: rnp.sin(x))
    outer = rlx.jit(rlx.grad(lambda x: rnp.sum(inner(x))), backend="reference")
    np.testing.assert_allclose(outer(X), np.cos(X), rtol=1e-6)


def test_donated_arguments_are_replaced_by_results_of_their_type() -> None:
    def step(params: Any, x: Any) -> Any:
        return {"w": params["w"] + x, "b": params["b"] * 2}, rnp.sum(x)

    jitted = rlx.jit(step, donate_argnums=0)
    params = {"w": X, "b": np.ones(4, np.float32)}
    graph = jitted.graph(params, X)
    assert graph.donations == {"params_b": 0, "params_w": 1}
    (updated, total) = jitted(params, X)
    np.testing.assert_array_equal(updated["w"], X + X)
    np.testing.assert_array_equal(params["w"], X)
    assert total == X.sum()


def test_the_graph_names_inputs_after_the_arguments() -> None:
    graph = rlx.jit(lambda params, x: params["w"] @ x).graph({"w": X}, X.T)
    verify(graph)
    assert [value.node.name for value in graph.inputs] == ["params_w", "x"]


def test_the_generated_c_can_be_read() -> None:
    source = rlx.jit(lambda x: rnp.tanh(x), threads=1).c_source(X)
    assert "tanh" in source


def test_a_type_replaces_an_array_in_graph() -> None:
    n = rlx.Dim("n", max=8)
    type = rlx.TensorType(rlx.Graph().input("x", (n, 3), "f32").dtype, (n, 3))
    graph = rlx.jit(lambda x: rnp.tanh(x) * 2 + x.sum(axis=1, keepdims=True)).graph(type)
    (result,) = rlx.compile(graph, backend="reference")(X)
    np.testing.assert_allclose(result, np.tanh(X) * 2 + X.sum(1, keepdims=True), rtol=1e-6)


def test_results_that_do_not_depend_on_arguments_are_arrays() -> None:
    one, two = rlx.jit(lambda x: (3.0, np.ones(2)), backend="reference")(X)
    assert one == 3.0
    assert two.shape == (2,)


def test_methods_are_compiled_as_functions_of_their_object() -> None:
    class Scale:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @rlx.jit(static_argnums=0)
        def apply(self, x: Any, *, plus: float = 0.0) -> Any:
            return x * self.factor + plus

    x = np.arange(3, dtype=np.float32)
    two, three = Scale(2), Scale(3)
    for each in (two, three, two):
        np.testing.assert_array_equal(each.apply(x), x * each.factor)
        np.testing.assert_array_equal(each.apply(x, plus=1.0), x * each.factor + 1)
    np.testing.assert_array_equal(Scale.apply(three, x), x * 3)
    np.testing.assert_array_equal(rlx.vmap(two.apply)(x), x * 2)


def test_a_function_with_a_rule_is_lowered_and_compiled() -> None:
    """Its state is not taken for that of the compiled function."""

    @rlx.custom_jvp
    def doubled(x: Any) -> Any:
        return 2 * x

    doubled.defjvp(lambda primals, tangents: (2 * primals[0], 3 * tangents[0]))
    compiled = rlx.jit(doubled).lower(np.float32(1)).compile()
    assert compiled(np.float32(4)) == 8


def test_attributes_of_a_function_are_there_but_replace_none() -> None:
    def identity(x: Any) -> Any:
        return x

    identity.note = "kept"  # type: ignore[attr-defined]
    identity.graph = "not the one"  # type: ignore[attr-defined]
    jitted = rlx.jit(identity)
    assert jitted.note == "kept"  # type: ignore[attr-defined]
    assert len(jitted.graph(np.float32(1)).outputs) == 1
