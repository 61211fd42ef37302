"""Functions of JAX as functions of rlx: arguments, transformations, control flow, rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.jax
from rlx.errors import DTypeError, InternalError, NoRuleError, UnsupportedError
from rlx.ir.dtype import DType
from rlx.runtime.gateway import find_gateway

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'rlx[jax]'")

import jax.numpy as jnp  # noqa: E402  after JAX is known to be there
from jax import lax  # noqa: E402

from rlx.jaxpr import custom_rules  # noqa: E402
from tests.docs.test_documentation import blocks  # noqa: E402

X = np.array([0.5, -1.0, 2.0], "float32")


def close(found: Any, expected: Any) -> None:
    mine, theirs = (jax.tree_util.tree_leaves(x) for x in (found, expected))
    for a, b in zip(mine, theirs, strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), 2e-5, 2e-5)


# Arguments and results


def test_a_call_gives_jaxs_numbers_and_types() -> None:
    def f(x: Any, scale: Any) -> Any:
        return {"y": jnp.sin(x) * scale, "n": (x > 0).sum()}

    close(rlx.from_jax(f)(X, 2.0), jax.jit(f)(X, 2.0))
    close(rlx.from_jax(f)(jnp.asarray(X), scale=np.float32(3)), jax.jit(f)(X, 3.0))


def test_weak_types_give_way() -> None:
    def f(x: Any, scale: Any) -> Any:
        return x * scale, scale * 2

    half = X.astype("float16")
    close(rlx.from_jax(f)(half, 2.0), jax.jit(f)(half, 2.0))


def test_wide_types_where_jax_has_them() -> None:
    wide = X.astype("float64")
    assert rlx.from_jax(jnp.sin)(wide).dtype == "float32"
    with jax.enable_x64(True):
        found = rlx.from_jax(jnp.sin)(wide)
        assert found.dtype == "float64"
        np.testing.assert_allclose(found, np.sin(wide), 1e-15)


def test_static_arguments_are_values() -> None:
    def f(n: int, x: Any, *, mode: str) -> Any:
        return x**n if mode == "power" else x * n

    g = rlx.from_jax(f, static_argnums=0, static_argnames="mode")
    close(g(3, X, mode="power"), X**3)
    close(g(2, X, mode="power"), X**2)
    close(g(2, X, mode="times"), X * 2)


def test_objects_in_trees_are_static() -> None:
    def f(tree: Any) -> Any:
        return tree["act"](tree["x"]), tree["act"]

    y, act = rlx.from_jax(f)({"act": jnp.tanh, "x": X})
    close(y, np.tanh(X))
    assert act is jnp.tanh
    close(rlx.from_jax(f)({"act": jnp.exp, "x": X})[0], np.exp(X))


def test_registered_containers_pass_through_rlx() -> None:
    @jax.tree_util.register_pytree_node_class
    class Pair:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

        def tree_flatten(self) -> Any:
            return (self.a, self.b), "pair"

        @classmethod
        def tree_unflatten(cls, _: Any, children: Any) -> Any:
            return cls(*children)

    f = rlx.from_jax(lambda p: (p.a * p.b).sum())
    gradient = rlx.jit(rlx.grad(f))(Pair(X, jnp.asarray(2 * X)))
    assert isinstance(gradient, Pair)
    close((gradient.a, gradient.b), (2 * X, X))


def test_donated_arguments_are_replaced() -> None:
    f = rlx.from_jax(lambda p, g: p - 0.1 * g, donate_argnums=0)
    graph, _ = f.named_graph(X, X)
    assert list(graph.donations) == [graph.inputs[0].node.name]
    close(f(X, X), X - np.float32(0.1) * X)


def test_a_closure_is_constant() -> None:
    table = jnp.arange(6.0).reshape(3, 2)
    close(rlx.from_jax(lambda i: table[i])(np.array([2, 0])), np.array([[4, 5], [0, 1]], "float32"))


# Transformations


def test_transformations_of_rlx() -> None:
    def f(x: Any) -> Any:
        return jnp.sum(jnp.tanh(x) ** 2)

    g = rlx.from_jax(f)
    close(rlx.jit(rlx.grad(g))(X), jax.grad(f)(X))
    close(rlx.vmap(g)(np.stack([X, X])), jax.vmap(f)(np.stack([X, X])))
    close(rlx.jit(rlx.hessian(g))(X), jax.hessian(f)(X))
    close(rlx.jit(lambda x: g(x) + 1)(X), f(X) + 1)
    assert "tanh" in str(rlx.make_graph(g)(X))


def test_named_axes_are_those_of_vmap() -> None:
    def f(x: Any) -> Any:
        mean = lax.pmean(x, "i")
        return (
            x - mean,
            lax.psum(x, "i"),
            lax.pmax(x, "i"),
            lax.axis_index("i"),
            lax.all_gather(x, "i"),
        )

    close(rlx.vmap(rlx.from_jax(f), axis_name="i")(X), jax.vmap(f, axis_name="i")(X))


def test_symbolic_extents_are_dimensions_of_jax() -> None:
    n = rlx.Dim("n", max=8)
    f = rlx.from_jax(lambda x: jnp.concatenate([x, x]) / x.shape[0])
    graph = rlx.make_graph(f)(rlx.TensorType(DType.F32, (n,)))
    assert graph.outputs[0].shape == (2 * n,)
    run = rlx.compile(graph)
    close(run(x=X)[0], np.concatenate([X, X]) / np.float32(3))


def test_an_artifact_in_c(tmp_path: Path) -> None:
    f = rlx.from_jax(lambda w, x: jnp.tanh(x @ w["kernel"] + w["bias"]))
    weights = {"kernel": np.ones((3, 2), "float32"), "bias": np.zeros(2, "float32")}
    rlx.aot(
        f, tmp_path, name="dense", example_inputs=[weights, X], param_argnums=(0,), emit_only=True
    )
    header = (tmp_path / "dense.h").read_text()
    assert "w_kernel" in header
    assert (tmp_path / "dense.c").exists()


# Control flow


def test_loops_stay_loops() -> None:
    def f(x: Any) -> Any:
        last, rows = lax.scan(lambda c, r: (c * 0.5 + r, c), x[0], x, reverse=True)
        doubled = lax.while_loop(lambda c: c < 10, lambda c: c * 2, jnp.abs(last) + 1)
        return last, rows, doubled, lax.fori_loop(0, 4, lambda i, c: c + i * x, x)

    close(rlx.from_jax(f)(X), f(X))
    text = str(rlx.make_graph(rlx.from_jax(f))(X))
    assert "scan" in text
    assert "while_loop" in text


def test_branches_stay_branches() -> None:
    def f(i: Any, x: Any) -> Any:
        chosen = lax.switch(i, [jnp.sin, jnp.cos, lambda x: x * 2], x)
        return lax.cond(i > 1, lambda x: x + 1, lambda x: x - 1, chosen)

    for index in (-1, 0, 1, 2, 7):
        close(rlx.from_jax(f)(np.int32(index), X), f(index, X))
    assert "switch" in str(rlx.make_graph(rlx.from_jax(f))(np.int32(0), X))


def test_a_batch_of_loops_runs_until_the_last_has_ended() -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] * 2, c[1] + 1), (x, 0))

    x = np.array([1.0, 20.0, 3.0], "float32")
    close(rlx.from_jax(jax.vmap(f))(x), jax.vmap(f)(x))


def test_mutable_arrays_are_values() -> None:
    def f(x: Any) -> Any:
        total = jax.new_ref(jnp.zeros(()))
        total[...] = total[...] + x.sum()
        return total[...] * 2

    close(rlx.from_jax(f)(X), f(X))


def test_checkpointed_functions_have_their_derivatives() -> None:
    policy = jax.checkpoint_policies.dots_saveable

    def f(x: Any) -> Any:
        return jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum(), policy=policy)(x)

    close(rlx.jit(rlx.grad(rlx.from_jax(f)))(X), jax.grad(f)(X))


# Rules of users


def test_a_custom_vjp_is_what_rlx_differentiates() -> None:
    @jax.custom_vjp  # type: ignore[untyped-decorator]  # JAX may be missing
    def clipped(x: Any, scale: Any) -> Any:
        return x * scale

    clipped.defvjp(
        lambda x, scale: (x * scale, (x, scale)),
        lambda saved, ct: (248.0 * ct, jnp.sum(saved[0] * ct)),
    )
    f: Any = lambda x, s: jnp.sum(clipped(x, s))  # noqa: E731
    close(
        rlx.grad(rlx.from_jax(f), (0, 1))(X, np.float32(2)), jax.grad(f, (0, 1))(X, np.float32(2))
    )
    close(rlx.jit(rlx.from_jax(f))(X, np.float32(2)), f(X, 2.0))


def test_a_custom_vjp_of_integers_and_of_one_forwarded_argument() -> None:
    @jax.custom_vjp  # type: ignore[untyped-decorator]  # JAX may be missing
    def taken(x: Any, i: Any) -> Any:
        return x[i]

    taken.defvjp(
        lambda x, i: (x[i], (x, i)),
        lambda saved, ct: (jnp.zeros_like(saved[0]).at[saved[1]].add(3 * ct), None),
    )
    f: Any = lambda x, i: taken(x, i).sum()  # noqa: E731
    i = np.array([0, 0, 2])
    close(rlx.grad(rlx.from_jax(f))(X, i), jax.grad(f)(X, i))


def test_a_custom_jvp_is_what_rlx_differentiates() -> None:
    @jax.custom_jvp  # type: ignore[untyped-decorator]  # JAX may be missing
    def f(x: Any) -> Any:
        return jnp.sin(x)

    @f.defjvp  # type: ignore[untyped-decorator]  # JAX may be missing
    def moved(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return f(x), 7.0 * t

    g: Any = lambda x: f(x).sum()  # noqa: E731
    close(rlx.grad(rlx.from_jax(g))(X), np.full(3, 7, "float32"))
    close(rlx.jvp(rlx.from_jax(f), (X,), (X,)), jax.jvp(f, (X,), (X,)))
    close(
        rlx.grad(rlx.from_jax(lambda x: jax.nn.relu(x).sum()))(X),
        jax.grad(lambda x: jax.nn.relu(x).sum())(X),
    )


def test_a_rule_is_traced_where_a_derivative_is_taken() -> None:
    traced: list[str] = []

    @jax.custom_jvp  # type: ignore[untyped-decorator]  # JAX may be missing
    def f(x: Any) -> Any:
        return jnp.sin(x)

    @f.defjvp  # type: ignore[untyped-decorator]  # JAX may be missing
    def moved(primals: Any, tangents: Any) -> Any:
        traced.append("rule")
        return jnp.sin(primals[0]), 7.0 * tangents[0]

    g = rlx.from_jax(lambda x: f(x).sum())
    compiled = rlx.jit(g)
    close(compiled(X), np.sin(X).sum())
    rows = np.stack([X, 2 * X])
    close(rlx.jit(rlx.vmap(g))(rows), np.sin(rows).sum(1))
    twice = rlx.jit(lambda x: rlx.lax.fori_loop(0, 2, lambda _, y: y + g(y), x))
    once = X + np.sin(X).sum()
    close(twice(X), once + np.sin(once).sum())
    chosen = rlx.jit(lambda x: rlx.cond(x[0] > 9, g, lambda x: 2 * rlx.checkpoint(g)(x), x))
    close(chosen(X), 2 * np.sin(X).sum())
    assert not traced
    close(rlx.jit(rlx.vmap(rlx.grad(g)))(rows), np.full((2, 3), 7, "float32"))
    close(rlx.jit(rlx.grad(lambda x: rlx.vmap(g)(x).sum()))(rows), np.full((2, 3), 7, "float32"))
    assert traced
    close(rlx.grad(compiled)(X), np.full(3, 7, "float32"))
    close(rlx.jit(lambda x: compiled(x) + rlx.grad(compiled)(x))(X), np.sin(X).sum() + 7)
    assert traced


def test_a_solver_in_a_compiled_program_takes_derivatives_by_rules() -> None:
    @jax.custom_jvp  # type: ignore[untyped-decorator]  # JAX may be missing
    def f(x: Any) -> Any:
        return x * x

    @f.defjvp  # type: ignore[untyped-decorator]  # JAX may be missing
    def moved(primals: Any, tangents: Any) -> Any:
        return f(primals[0]), 4 * tangents[0]

    def root(x: Any) -> Any:
        return rlx.lax.custom_root(
            rlx.from_jax(lambda y: f(y) - 4), x,
            lambda g, guess: guess - g(guess) / rlx.grad(g)(guess),
            lambda g, y: y / g(1.0),
        )  # fmt: skip

    close(rlx.jit(root)(np.float32(4)), np.float32(4 - 12 / 4))


def test_a_linear_solve_has_the_derivatives_of_its_system() -> None:
    a = np.array([[3.0, 1, 0], [0, 2, 1], [1, 0, 4]], "float32")

    def f(a: Any, b: Any) -> Any:
        found = jax.scipy.sparse.linalg.cg(lambda x: a.T @ (a @ x), b, tol=1e-7)[0]
        return found.sum()

    close(rlx.jit(rlx.grad(rlx.from_jax(f), (0, 1)))(a, X), jax.grad(f, (0, 1))(a, X))


# Random numbers


@pytest.mark.parametrize("typed", [True, False])
def test_draws_are_jaxs(typed: bool) -> None:
    key = jax.random.key(3) if typed else jax.random.PRNGKey(3)

    def f(key: Any) -> Any:
        a, b = jax.random.split(key)
        shuffled = jax.random.permutation(jax.random.fold_in(a, 5), 6)
        return jax.random.normal(a, (3,)), jax.random.bits(b, (2,), "uint8"), shuffled

    close(rlx.from_jax(f)(key), f(key))
    keys = jax.random.split(key, 3)
    batched = jax.vmap(lambda k: jax.random.uniform(k, (2,)))
    close(rlx.from_jax(batched)(keys), batched(keys))


def test_keys_are_results_and_rows() -> None:
    def f(key: Any) -> Any:
        return lax.scan(lambda k, _: (jax.random.split(k)[0], jax.random.uniform(k)), key, length=3)

    last, drawn = rlx.jit(rlx.from_jax(f))(jax.random.key(1))
    expected, numbers = f(jax.random.key(1))
    assert last.dtype == expected.dtype
    assert (jax.random.key_data(last) == jax.random.key_data(expected)).all()
    close(drawn, numbers)


def test_gamma_numbers_have_their_derivative_by_the_shape() -> None:
    f: Any = lambda a: jax.random.gamma(jax.random.key(2), a)  # noqa: E731
    a = np.array([0.7, 2.0], "float32")
    g: Any = lambda a: f(a).sum()  # noqa: E731
    close(rlx.from_jax(f)(a), f(a))
    np.testing.assert_allclose(rlx.jit(rlx.grad(rlx.from_jax(g)))(a), jax.grad(g)(a), 1e-3)


def test_other_generators_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="rbg"):
        rlx.from_jax(jax.random.uniform)(jax.random.key(0, impl="rbg"))


# Effects


def test_callbacks_are_called(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        jax.debug.print("x is {} and {k}", x[0], k=x[1])
        return jax.pure_callback(lambda x: np.cumsum(x), jax.ShapeDtypeStruct((3,), "float32"), x)

    close(rlx.from_jax(f)(X), np.cumsum(X))
    assert capsys.readouterr().out == "x is 0.5 and -1.0\n"


# Errors


def test_a_primitive_without_a_rule_is_named_with_the_line_that_uses_it() -> None:
    def f(x: Any) -> Any:
        return jax.ffi.ffi_call("of_another_library", jax.ShapeDtypeStruct((3,), "float32"))(x)

    with pytest.raises(NoRuleError, match="'ffi_call'") as caught:
        rlx.from_jax(f)(X)
    assert caught.value.source is not None
    assert caught.value.source.file == __file__
    assert caught.value.source.function.endswith("f")


def test_nodes_have_the_lines_of_the_users_program() -> None:
    def f(x: Any) -> Any:
        return jnp.sin(x)

    graph = rlx.make_graph(rlx.from_jax(f))(X)
    source = graph.outputs[0].node.source
    assert source is not None
    assert (source.file, source.line) == (__file__, f.__code__.co_firstlineno + 1)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(rlx.RlxError, match="from_jax takes a function"):
        rlx.from_jax(3)  # type: ignore[arg-type]  # as the test is about


# Documentation


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for library in ("equinox", "optax"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    page = Path(__file__).parents[2] / "docs" / "from_jax.md"
    namespace: dict[str, Any] = {"x": np.ones((4, 8), "float32"), "y": np.ones((4, 1), "float32")}
    for block in blocks(page, "py"):
        exec(compile(block, page.name, "exec"), namespace)
    rlx.jax.uninstall()
    assert (tmp_path / "build" / "mlp.c").exists()


@pytest.mark.parametrize("error", [KeyError("x"), InternalError("from_jax: no such part")])
def test_a_fault_in_a_rule_of_ours_is_no_objection_of_the_program(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise error

    broken.__code__ = broken.__code__.replace(co_filename=custom_rules.__file__)
    monkeypatch.setattr(custom_rules, "_traced_forward", broken)
    f = jax.custom_vjp(lambda x: x * 2.0)
    f.defvjp(lambda x: (x * 2.0, None), lambda _, ct: (ct,))
    with pytest.raises(type(error)):
        rlx.grad(rlx.from_jax(f))(1.0)


def test_pivots_that_are_to_be_moved_are_an_error() -> None:
    def solve(d: Any) -> Any:
        return lax.linalg.tridiagonal_solve(d, d, d, d[:, None], perturb_singular=True)

    with pytest.raises(UnsupportedError, match="perturb_singular"):
        rlx.from_jax(solve)(np.ones(3, "f"))


def test_what_a_rule_of_the_program_raises_is_the_reason_that_is_given() -> None:
    def forward(x: Any) -> Any:
        raise KeyError("no slope")

    f = jax.custom_vjp(lambda x: x * 2.0)
    f.defvjp(forward, lambda _, ct: (ct,))
    assert rlx.from_jax(f)(1.0) == 2.0
    with pytest.raises(NoRuleError, match="KeyError: 'no slope'"):
        rlx.grad(rlx.from_jax(f))(1.0)


# Calls of compiled functions


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint32", "bool", "complex64", "bfloat16"])
def test_arrays_of_jax_and_numpy_are_one_argument(dtype: str) -> None:
    f = rlx.from_jax(lambda x, y: {"a": x, "b": (x[::-1], y)})
    find_gateway(wait=True)
    x = jnp.asarray([1, 0, 1]).astype(dtype)
    for _ in range(4):
        for given in (x, np.asarray(x), jnp.stack([x, x])[:, 0], x[None]):
            y = np.asarray(given)
            close(f(given, x), {"a": y, "b": (y[::-1], x)})


def test_weak_types_of_arguments_are_kept() -> None:
    f = rlx.from_jax(lambda x: x * jnp.ones(2, jnp.bfloat16))
    find_gateway(wait=True)
    for _ in range(4):
        assert f(jnp.asarray(2.0)).dtype == f(2.0).dtype == jnp.bfloat16
        assert f(jnp.asarray(2.0, "float32")).dtype == np.float32
        assert rlx.jit(f)(jnp.asarray(2.0)).dtype == jnp.bfloat16


def test_a_setting_of_jax_is_followed_by_the_next_call() -> None:
    f = rlx.from_jax(lambda x: x + jnp.arange(2.0))
    for is_wide in (False, True, False):
        with jax.enable_x64(is_wide):
            assert f(np.float32(1)).dtype == (np.float64 if is_wide else np.float32)


def test_types_of_rlx_become_narrow_for_the_next_call() -> None:
    f, x = rlx.from_jax(lambda x: x + 1), np.ones(2)
    find_gateway(wait=True)
    with jax.enable_x64(True):
        for is_wide in (True, False, True):
            with rlx.jax.enable_x64(is_wide):
                for _ in range(4):
                    assert f(x).dtype == (np.float64 if is_wide else np.float32)


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**40])
def test_an_integer_that_jax_does_not_hold_is_refused(number: int) -> None:
    f = rlx.from_jax(lambda x: x + 1)
    find_gateway(wait=True)
    for _ in range(4):
        assert f(-(2**31)) == 1 - 2**31
        with pytest.raises(DTypeError, match="does not fit i32"):
            f(number)
    with jax.enable_x64(True):
        for _ in range(4):
            assert f(number) == number + 1


def test_a_deleted_array_is_refused() -> None:
    f, x = rlx.from_jax(lambda x: x + 1), jnp.ones(3)
    find_gateway(wait=True)
    for _ in range(4):
        f(x)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        f(x)


def test_a_donated_array_of_jax_is_left_as_it_is() -> None:
    f, x = rlx.from_jax(lambda x: x + 1, donate_argnums=0), jnp.ones(3)
    find_gateway(wait=True)
    for _ in range(4):
        close(f(x), np.full(3, 2, "float32"))
    close(x, np.ones(3, "float32"))


def test_static_leaves_are_found_by_identity() -> None:
    f = rlx.from_jax(lambda function, x: function(x))
    for function in (jnp.sin, jnp.cos, jnp.sin, jnp.tanh):
        close(f(function, X), function(X))


def test_bits_have_no_derivatives() -> None:
    f = rlx.from_jax(lambda x: lax.bitcast_convert_type(x, np.float32) * x)
    assert rlx.grad(f)(np.float32(3)) == 3
