"""Functions of Python and ops of users inside programs: callbacks, `define_op`, their rules.

The bodies are formulas whose results have few bits, which NumPy computes as the model.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import rlx
import rlx.numpy
from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.registry import Scope
from rlx.custom import define_op
from rlx.ir.graph import Value
from rlx.ir.op import OpDef
from rlx.ir.types import TensorType
from rlx.passes.autodiff.registry import Pullback, Pushforward
from rlx.tracing.apply import as_tracer, emit, function
from tests.fuzz.check import Failure
from tests.fuzz.draws.case import Call
from tests.fuzz.program import Array, draw

_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all")
_INNER: dict[str, tuple[Callable[..., Any], str]] = {
    "host_halves": (lambda x: x * 0.5 + 1, "{0} * 0.5 + 1"),
    "host_squares": (lambda x: x * x, "{0} * {0}"),
    "host_least": (lambda x: np.minimum(x, 0.25), "np.minimum({0}, 0.25)"),
    "op_square": (lambda x: x * x, "{0} * {0}"),
    "op_affine": (lambda x: x * 2.0 + 0.5, "{0} * 2.0 + 0.5"),
    "op_in_c": (lambda x: x * x - x, "{0} * {0} - {0}"),
}
"""What each function computes: as Python on NumPy's arrays, and as an expression."""
_SLOPES = {"host_halves": "0.5", "host_squares": "2 * {0}", "op_square": "2 * {0}",
           "op_affine": "2.0"}  # fmt: skip
"""Derivatives, of those that have one."""
_FORMS = (
    "{inner}", "{inner} + v1", "rlx.vmap(lambda a: {vector})(v0)",
    "rlx.vmap(lambda a, b: {vector} + b, in_axes=(0, None))(v0, v1)",
    "rlx.scan(lambda c, a: (c + {vector}, c), v1, v0)",
    "rlx.fori_loop(0, 3, lambda i, a: {carried} * 0.5, v0)",
    "rlx.map(lambda a: {vector}, v0)", "rlx.cond(np.sum(v1) > 0, lambda a: {vector}, "
    "lambda a: a, v0)", "rlx.jit(lambda a: {vector})(v0) * 2",
    "rlx.vmap(rlx.vmap(lambda a: {vector}))(v0)",
)  # fmt: skip
_SLOPED = (
    "rlx.grad(lambda a: np.sum({vector} * v1))(v0)",
    "rlx.jvp(lambda a: {vector}, (v0,), (v0 * 0 + v1,))[1]",
    "rlx.vmap(rlx.grad(lambda a: np.sum({vector} * v1)))(v0)",
)
_SHAPES: tuple[tuple[int, ...], ...] = ((2, 3), (1, 3), (4, 1), (5, 3))


def case(pick: random.Random) -> Foreign:
    name, method = pick.choice(tuple(_INNER)), pick.choice(_METHODS)
    slope = _SLOPES.get(name)
    form = pick.choice(_SLOPED if slope is not None and pick.random() < 0.5 else _FORMS)
    call = f"{name}({{0}}, {method!r})"
    texts = {"inner": call.format("v0"), "vector": call.format("a"), "carried": call.format("a")}
    plain = _INNER[name][1]
    formulas = {key: f"({plain.format('v0' if key == 'inner' else 'a')})" for key in texts}
    shape = pick.choice(_SHAPES)
    numbers = np.random.default_rng(pick.getrandbits(32))
    dtype = pick.choice(("f32", "f32", "f64")) if name != "op_in_c" else "f32"
    arrays = [draw(numbers, dtype, shape), draw(numbers, dtype, shape[1:])]
    finite = tuple(np.where(np.isfinite(x), x, 1).astype(x.dtype) for x in arrays)
    source = f"def f(v0, v1):\n    return {form.format(**texts)}\n"
    return Foreign(source, f"def f(v0, v1):\n    return {form.format(**formulas)}\n", finite)


@dataclass(frozen=True)
class Foreign:
    """A program that calls functions from outside, and the same with their formulas."""

    source: str
    formula: str
    arrays: tuple[Array, ...]

    def script(self) -> str:
        return f"{Call(self.source, self.arrays).script()}# as\n{self.formula}"

    def failure(self, seed: int, backends: Sequence[str]) -> Failure | None:
        own = {name: functools.partial(_function(name)) for name in _INNER}
        formula = Call(self.formula, self.arrays).function

        def model(*arrays: Array) -> Any:
            found = rlx.jit(formula, backend="reference")(*arrays)
            return tuple(rlx.tree_util.tree_leaves(found))

        return Call(self.source, self.arrays, model, names=own).failure(seed, backends)


@functools.cache
def _function(name: str) -> Callable[..., Any]:
    if name.startswith("host"):
        return _host(name)
    made: Callable[..., Any] = _OPS[name]()
    return made


def _host(name: str) -> Callable[..., Any]:
    """Return a callback, with a derivative if there is one."""
    of_numpy, formula = _INNER[name]
    del formula

    def call(x: Any, method: str) -> Any:
        def plain(x: Any) -> Any:
            return rlx.pure_callback(of_numpy, x, x, vmap_method=method)

        if name not in _SLOPES:
            return plain(x)
        with_slope = rlx.custom_jvp(plain)

        def pushed(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
            slope = eval(_SLOPES[name].format("x"), {"x": primals[0]})
            return with_slope(primals[0]), slope * tangents[0]

        with_slope.defjvp(pushed)
        return with_slope(x)

    return call


def _applied(definition: OpDef, **attributes: Any) -> Callable[..., Any]:
    @function
    def apply(x: Any) -> Any:
        return emit(definition, as_tracer(x), **attributes)

    return lambda x, _: apply(x)


def _square() -> Callable[..., Any]:
    def fuzz_square(x: TensorType) -> TensorType:
        """`x * x`, by a kernel in the loop language."""
        return x

    def kernel(scope: Scope, x: Reader, y: Writer) -> None:
        source, target = x.grouped(((0,),)), y.grouped(((0,),))
        with scope.k.loop("i", source.extent(0)) as i:
            value = scope.k.let("value", source.read_real(i))
            target.write(i, value=value * value)

    def pull(at: Pullback, x: Value) -> Value:
        return at.cotangent * (x + x)

    def push(at: Pushforward, x: Value) -> Value:
        return at.tangent * (x + x)

    made = define_op(fuzz_square, reference=lambda x: x * x, kernel=kernel, vjp=pull, jvp=push)
    return _flat(_applied(made))


def _affine() -> Callable[..., Any]:
    def fuzz_affine(x: TensorType, *, scale: float) -> TensorType:
        """`scale * x + 0.5`, with its derivative in forward mode alone."""
        assert scale
        return x

    def kernel(scope: Scope, x: Reader, y: Writer, *, scale: float) -> None:
        source, target = x.grouped(((0,),)), y.grouped(((0,),))
        with scope.k.loop("i", source.extent(0)) as i:
            target.write(i, value=source.read_real(i) * scale + 0.5)

    def push(at: Pushforward, _: Value, *, scale: float) -> Value:
        return at.tangent * scale

    made = define_op(
        fuzz_affine, reference=lambda x, scale: x * x.dtype.type(scale) + x.dtype.type(0.5),
        kernel=kernel, jvp=push,
    )  # fmt: skip
    return _flat(_applied(made, scale=2.0))


def _in_c() -> Callable[..., Any]:
    def fuzz_in_c(x: TensorType) -> TensorType:
        """`x * x - x`, in C, without a derivative."""
        return x

    source = (
        "void fuzz_in_c(const float *x, float *y, int64_t n) {\n"
        "  for (int64_t i = 0; i < n; ++i) {\n    y[i] = x[i] * x[i] - x[i];\n  }\n}\n"
    )
    return _applied(define_op(fuzz_in_c, reference=lambda x: x * x - x, c_source=source))


def _flat(apply: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of arrays of any rank: the kernels have one axis."""

    def call(x: Any, method: str) -> Any:
        shape = rlx.numpy.shape(x)
        return rlx.numpy.reshape(apply(rlx.numpy.ravel(x), method), shape)

    return call


_OPS: dict[str, Callable[[], Callable[..., Any]]] = {
    "op_square": _square, "op_affine": _affine, "op_in_c": _in_c,
}  # fmt: skip
