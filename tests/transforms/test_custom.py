"""Functions whose derivatives the user states, against JAX."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.numbering import program_nodes
from rlx.ir.types import TensorType
from rlx.scipy import special
from rlx.tracing.apply import function
from rlx.tracing.traced_function import trace
from rlx.transforms import custom_functions

X = np.random.default_rng(5).standard_normal(3)


def tripled(t: Any, n: Any) -> Any:
    """Return x * sin(y), whose stated cotangents are three times the true ones."""

    @t.custom_vjp  # type: ignore[untyped-decorator]  # of either library
    def f(x: Any, y: Any) -> Any:
        return x["a"] * n.sin(y), y

    def forward(x: Any, y: Any) -> Any:
        return f(x, y), (x["a"], n.cos(y), n.sin(y))

    def backward(residuals: Any, cotangent: Any) -> Any:
        a, cosine, sine = residuals
        return {"a": 3 * sine * cotangent[0]}, 3 * a * cosine * cotangent[0] + cotangent[1]

    f.defvjp(forward, backward)
    return lambda x: n.sum(f({"a": x * x}, x)[0] * x)


def scaled_elements(t: Any, n: Any) -> Any:
    """Return exp, whose stated tangent is twice the true one."""

    @t.custom_jvp  # type: ignore[untyped-decorator]  # of either library
    def f(x: Any) -> Any:
        return n.exp(x)

    @f.defjvp  # type: ignore[untyped-decorator]  # of either library
    def _(primals: Any, tangents: Any) -> Any:
        result = f(*primals)
        return result, 2 * result * tangents[0]

    return f


def scaled(t: Any, n: Any) -> Any:
    f = scaled_elements(t, n)
    return lambda x: n.sum(f(n.sin(x)) * x)


def unlike(t: Any, n: Any) -> Any:
    """A rule that does not call the function: what it computes is derived as it is."""

    @t.custom_jvp  # type: ignore[untyped-decorator]  # of either library
    def f(x: Any) -> Any:
        return n.exp(x)

    @f.defjvp  # type: ignore[untyped-decorator]  # of either library
    def _(primals: Any, tangents: Any) -> Any:
        result = n.exp(primals[0])
        return result, 2 * result * tangents[0]

    return lambda x: n.sum(f(n.sin(x)) ** 2 * x)


def per_argument(t: Any, n: Any) -> Any:
    @t.custom_jvp  # type: ignore[untyped-decorator]  # of either library
    def f(x: Any, y: Any) -> Any:
        return n.sin(x) * y

    f.defjvps(lambda dx, _, x, y: 5 * n.cos(x) * y * dx, None)
    return lambda x: n.sum(f(x, x * x))


def fixed_argument(t: Any, n: Any) -> Any:
    def clipped(bound: float, x: Any) -> Any:
        return x * 1

    f = t.custom_vjp(clipped, nondiff_argnums=(0,))
    f.defvjp(lambda bound, x: (x * 1, None), lambda bound, _, ct: (n.clip(ct, -bound, bound),))
    return lambda x: n.sum(f(0.5, x) ** 2)


def method(t: Any, n: Any) -> Any:
    """A method, whose object is no array and goes to the rule as it is."""

    class Spring:
        stiffness = 2.5

        @functools.partial(t.custom_vjp, nondiff_argnums=(0,))
        def energy(self, x: Any) -> Any:
            return self.stiffness * x * x / 2

        def forward(self, x: Any) -> Any:
            return Spring.energy(self, x), x  # JAX binds no methods

        def backward(self, x: Any, ct: Any) -> Any:
            return (10 * self.stiffness * x * ct,)

        energy.defvjp(forward, backward)

    energy = Spring.energy
    spring = Spring()
    return lambda x: n.sum(energy(spring, x) * x)


def in_scan(t: Any, n: Any) -> Any:
    f = scaled(t, n)
    scan = t.scan if t is rlx else t.lax.scan
    return lambda x: n.sum(scan(lambda c, _: (n.tanh(c * f(c)), None), x, None, length=3)[0])


FUNCTIONS = [tripled, scaled, unlike, per_argument, fixed_argument, method, in_scan]
USES = {
    "value": lambda t, f: f(X),
    "grad": lambda t, f: t.grad(f)(X),
    "jitted value and grad": lambda t, f: t.jit(t.value_and_grad(f))(X),
    "vmap of grad": lambda t, f: t.vmap(t.grad(f))(np.stack([X, X * X])),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("make", FUNCTIONS, ids=lambda make: make.__name__)
def test_stated_derivatives_are_used_as_in_jax(make: Any, use: str) -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    expected = rlx.tree_leaves(USES[use](jax, make(jax, jax.numpy)))
    for one, other in zip(rlx.tree_leaves(USES[use](rlx, make(rlx, rnp))), expected, strict=True):
        np.testing.assert_allclose(one, np.asarray(other), rtol=1e-9)


SECOND = {
    "reverse": lambda t, f: t.grad(lambda x: (t.grad(f)(x) ** 2).sum())(X),
    "reverse by vjp": lambda t, f: t.grad(lambda x: (t.vjp(f, x)[1](1.0)[0] ** 2).sum())(X),
    "value and gradient": lambda t, f: t.grad(lambda x: sum(t.value_and_grad(f)(x)[0:1]) ** 2)(X),
    "forward": lambda t, f: t.jvp(t.grad(f), (X,), (np.ones(3),))[1],
}
REVERSE_ONLY = (tripled, method)
"""Their rules call the function itself, which has no forward mode in JAX."""


@pytest.mark.parametrize("use", SECOND)
@pytest.mark.parametrize(
    "make",
    [tripled, scaled, per_argument, fixed_argument, method, unlike],
    ids=lambda make: make.__name__,
)
def test_second_derivatives_of_stated_ones_are_those_of_jax(make: Any, use: str) -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    if use == "forward" and make in REVERSE_ONLY:
        return
    expected = np.asarray(SECOND[use](jax, make(jax, jax.numpy)))
    np.testing.assert_allclose(SECOND[use](rlx, make(rlx, rnp)), expected, rtol=1e-9)


@pytest.mark.parametrize("use", SECOND)
def test_second_derivatives_in_a_loop_are_those_of_the_loop_written_out(use: str) -> None:
    """JAX's are, too, unless its own `scan` makes the loop: it then forgets the rule."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    f = scaled(jax, jax.numpy)

    def written_out(x: Any) -> Any:
        for _ in range(3):
            x = jax.numpy.tanh(x * f(x))
        return x.sum()

    found = SECOND[use](rlx, in_scan(rlx, rnp))
    np.testing.assert_allclose(found, np.asarray(SECOND[use](jax, written_out)), rtol=1e-9)


def test_a_stated_jvp_serves_forward_mode() -> None:
    tangent = rlx.jvp(scaled(rlx, rnp), (X,), (np.ones(3),))[1]
    np.testing.assert_allclose(tangent, rlx.grad(scaled(rlx, rnp))(X).sum(), rtol=1e-12)


def test_a_pullback_through_a_loop_uses_its_result() -> None:
    """The implicit derivative of a fixed point, whose search has no reverse mode."""

    @rlx.custom_vjp
    def root(a: Any) -> Any:
        return rlx.while_loop(lambda x: rnp.abs(x * x - a) > 1e-12, lambda x: (x + a / x) / 2, a)

    root.defvjp(lambda a: (y := root(a), y), lambda y, ct: (ct / (2 * y),))
    value, gradient = rlx.jit(rlx.value_and_grad(root))(2.0)
    np.testing.assert_allclose([value, gradient], [2**0.5, 2**-1.5], rtol=1e-11)


def test_captured_arrays_reach_function_and_rule() -> None:
    def outer(x: Any, scale: Any) -> Any:
        f = rlx.custom_vjp(lambda x: x * scale)
        f.defvjp(lambda x: (x * scale, None), lambda _, ct: (ct * scale * 10,))
        return f(x)

    assert rlx.jit(rlx.grad(outer))(2.0, 3.0) == 30.0


def test_defaults_and_keywords_find_their_positions() -> None:
    f = rlx.custom_vjp(lambda x, power=2: x**power, nondiff_argnums=(1,))
    f.defvjp(lambda x, power: (x**power, x), lambda power, x, ct: (ct * power,))
    assert rlx.grad(f)(3.0) == 2.0
    assert rlx.grad(lambda x: f(x, power=5))(3.0) == 5.0


def test_a_method_has_its_rule() -> None:
    class Layer:
        @functools.partial(rlx.custom_jvp, nondiff_argnums=(0,))
        def act(self, x: Any) -> Any:
            return rnp.sin(x)

        @act.defjvp
        def _(self, primals: Any, tangents: Any) -> Any:
            return self.act(*primals), 7 * tangents[0]

    assert rlx.grad(Layer().act)(0.3) == 7.0
    assert rlx.jit(rlx.grad(lambda x: Layer().act(x)))(0.3) == 7.0


def test_per_argument_rules_take_no_fixed_arguments() -> None:
    f = rlx.custom_jvp(lambda n, x: x * n, nondiff_argnums=(0,))
    with pytest.raises(InputError, match="nondiff_argnums"):
        f.defjvps(lambda dx, _, x: dx)


def test_symbolic_zeros_are_refused() -> None:
    f = rlx.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, ct: (ct,), symbolic_zeros=False)
    with pytest.raises(InputError, match="symbolic zeros"):
        f.defvjp(lambda x: (x, None), lambda _, ct: (ct,), symbolic_zeros=True)


def stated(forward: Any, backward: Any) -> Any:
    f = rlx.custom_vjp(lambda x: x * x)
    f.defvjp(forward, backward)
    return rlx.grad(lambda x: rnp.sum(f(x)))


def test_wrong_rules_are_named() -> None:
    with pytest.raises(InputError, match="no rule yet"):
        rlx.custom_vjp(lambda x: x)(1.0)
    with pytest.raises(InputError, match="result, residuals"):
        stated(lambda x: x * x, lambda r, ct: (ct,))(X)
    with pytest.raises(InputError, match="function's own result"):
        stated(lambda x: (x[:2], x), lambda r, ct: (ct,))(X)
    with pytest.raises(InputError, match="2 cotangents"):
        stated(lambda x: (x * x, x), lambda r, ct: (ct, ct))(X)
    with pytest.raises(ShapeError, match=r"cotangent of 'x'.*\n.*test_custom.py"):
        stated(lambda x: (x * x, x), lambda r, ct: (ct[:2],))(X)


def test_rules_that_call_each_other_are_traced_in_polynomial_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every call of a rule would otherwise call both; a count in the functions were their state."""
    calls = 0

    def counted(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        return trace(*args)

    monkeypatch.setattr("rlx.transforms.custom_jvp.trace", counted)

    @rlx.custom_jvp
    def sine(x: Any) -> Any:
        return rnp.sin(x)

    @rlx.custom_jvp
    def cosine(x: Any) -> Any:
        return rnp.cos(x)

    sine.defjvp(lambda p, t: (sine(*p), cosine(*p) * t[0]))
    cosine.defjvp(lambda p, t: (cosine(*p), -sine(*p) * t[0]))
    counts: list[int] = []
    f: Any = sine
    for order in range(1, 6):
        f, calls = rlx.grad(f), 0
        expected = np.sin(0.7 + order * np.pi / 2)
        np.testing.assert_allclose(rlx.jit(f)(np.float64(0.7)), expected, rtol=1e-12)
        counts.append(calls)
    assert counts[-1] < 2 * counts[-2] < 4 * counts[-3]


def test_third_derivatives_follow_a_rule_that_calls_its_function() -> None:
    @rlx.custom_jvp
    def grown(x: Any) -> Any:
        return rnp.exp(x)

    @grown.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        y = grown(*primals)
        return y, 3 * y * (1 - y) * tangents[0]

    third = rlx.grad(rlx.grad(rlx.grad(grown)))
    y = np.exp(0.7)
    first = 3 * y * (1 - y)
    second = 3 * (1 - 2 * y) * first
    np.testing.assert_allclose(third(0.7), 3 * (1 - 2 * y) * second - 6 * first * first)


@pytest.mark.parametrize("kind", ["number", "tracer"])
def test_rules_see_what_their_closures_hold_by_now(kind: str) -> None:
    """A function in a rule is traced once for its types, but again when what it reads moved."""
    held: dict[str, Any] = {"factor": 1.0}

    @rlx.custom_jvp
    def inner(x: Any) -> Any:
        return x * held["factor"]

    @rlx.custom_jvp
    def outer(x: Any) -> Any:
        return x

    @inner.defjvp
    def _inner(primals: Any, tangents: Any) -> Any:
        return inner(primals[0]), tangents[0] * held["factor"]

    @outer.defjvp
    def _outer(primals: Any, tangents: Any) -> Any:
        total = 0.0
        for factor in (1.0, 2.0, 3.0):
            held["factor"] = factor if kind == "number" else factor * primals[0]
            total = total + inner(primals[0])
        return outer(primals[0]), tangents[0] * total

    assert np.asarray(rlx.grad(outer)(np.float32(1))) == 6


def test_kept_traces_of_the_library_are_bounded_by_their_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nesting = custom_functions._Nesting()
    monkeypatch.setattr(custom_functions, "_nesting", nesting)
    monkeypatch.setattr(custom_functions, "_MOST_NODES", 400)
    sizes = []
    for f, dtype in ((special.xlogy, "f32"), (special.xlogy, "f64"), (special.entr, "f32")):
        numbers = [TensorType(DType(dtype), ())] * (2 if f is special.xlogy else 1)
        rlx.jit(rlx.grad(f)).graph(*numbers)
        sizes.append([nodes for _, nodes in nesting._lasting.values()])
    first, both, last = sizes
    assert both == first * 2
    assert len(last) == 1, "the oldest go until the newest has room"
    assert sum(both) < 400 < sum(both) + last[0]


@pytest.mark.slow
def test_rules_are_batched_where_a_derivative_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules hold calls with rules, many times what runs: `vmap` leaves them those of an example."""
    appended = []
    append = Graph.append

    def counted(self: Graph, *args: Any, **kwargs: Any) -> Any:
        appended.append(self.name)
        return append(self, *args, **kwargs)

    monkeypatch.setattr(Graph, "append", counted)
    numbers = TensorType(DType.F64, ()), TensorType(DType.F64, ())
    traced = rlx.jit(rlx.value_and_grad(special.gammainc, argnums=(0, 1))).graph(*numbers)
    count = len(program_nodes(traced))
    rows = [type.with_shape((3,)) for type in numbers]
    trace_of = rlx.vmap(rlx.value_and_grad(special.gammainc, argnums=(0, 1)))
    batched = rlx.jit(trace_of).graph(*rows)
    assert sum(name.endswith("_vmap") for name in appended) < count
    assert len(program_nodes(batched)) < 1.3 * count


@pytest.mark.parametrize("mode", [rlx.jacrev, rlx.jacfwd])
def test_a_stated_rule_of_examples_of_examples(mode: Any) -> None:
    """Derivatives after `vmap`, the rule's own collectives included."""

    @rlx.custom_jvp
    def f(x: Any) -> Any:
        return rlx.lax.psum(x * x, "row")

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return f(x), 3 * rlx.lax.psum(x * t, "row")

    x = np.arange(6.0).reshape(2, 3)
    of_rows = rlx.vmap(rlx.vmap(f, axis_name="row"))
    slopes = rlx.jit(mode(of_rows), backend="reference")(x)
    expected = np.einsum("ij,jk->ijk", np.eye(2), 3 * x)[:, None]
    np.testing.assert_allclose(slopes, np.broadcast_to(expected, (2, 3, 2, 3)))


def test_a_call_that_runs_at_once_traces_no_rule() -> None:
    """As one outside of every function: nothing asks for its derivatives."""
    traced = []

    @rlx.custom_jvp
    def doubled(x: Any) -> Any:
        return x * 2

    @doubled.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        traced.append(primals)
        return doubled(*primals), tangents[0] * 3

    at_once = function(lambda x: doubled(x) + 1)
    assert at_once(np.float64(4)) == 9
    assert not traced
    assert rlx.grad(at_once)(np.float64(4)) == 3
    assert traced


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
def test_a_program_compiled_as_it_is_traces_no_rule(kind: str) -> None:
    traced: list[str] = []

    if kind == "jvp":
        f: Any = rlx.custom_jvp(rnp.sin)

        @f.defjvp  # type: ignore[untyped-decorator]  # any function
        def pushed(primals: Any, tangents: Any) -> Any:
            traced.append(kind)
            return rnp.sin(primals[0]), 7 * tangents[0]
    else:
        f = rlx.custom_vjp(rnp.sin)

        def backward(_: Any, ct: Any) -> Any:
            traced.append(kind)
            return (7 * ct,)

        f.defvjp(lambda x: (rnp.sin(x), None), backward)
    x = np.array([0.5, -1.0])
    g = rlx.jit(lambda x: rlx.fori_loop(0, 2, lambda _, y: f(y), x))
    np.testing.assert_allclose(g(x), np.sin(np.sin(x)))
    assert not traced
    np.testing.assert_allclose(rlx.grad(lambda x: rnp.sum(g(x)))(x), [49, 49])
    assert traced
