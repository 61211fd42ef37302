"""Every kind of expression, scalar and vector, gives the bits that its meaning prescribes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.evaluate import evaluate, numpy_dtype
from rlx.codegen.loops.expr import (
    E,
    call,
    const,
    fma,
    index,
    lshr,
    maximum,
    minimum,
    select,
    shuffle,
)
from rlx.codegen.loops.math import build_function
from rlx.codegen.loops.nodes import BinaryOp, Kernel, Prim, UnaryOp, ValueType, Var
from tests.codegen.llvm.native import Array, run, same_bits

Formula = Callable[[E, E], E]

_COUNT = 48
_LANES = 8
_FLOATS = [Prim.F32, Prim.F64]
_INTS = [Prim.I8, Prim.I16, Prim.I32, Prim.I64, Prim.U8, Prim.U16, Prim.U32, Prim.U64]

_FLOAT_FORMULAS: dict[str, Formula] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "min": minimum,
    "max": maximum,
    "neg": lambda a, _: -a,
    "abs": lambda a, _: abs(a),
    "sqrt": lambda a, _: abs(a).unary(UnaryOp.SQRT),
    "floor": lambda a, _: a.unary(UnaryOp.FLOOR),
    "ceil": lambda a, _: a.unary(UnaryOp.CEIL),
    "trunc": lambda a, _: a.unary(UnaryOp.TRUNC),
    "round_even": lambda a, _: a.unary(UnaryOp.ROUND_EVEN),
    "fma": lambda a, b: fma(a, b, a),
    "no_contraction": lambda a, b: a * b + a,
    "constant": lambda a, _: a + 0.1,
    "infinite_constant": lambda a, _: minimum(a, float("inf")),
    "select_on_less": lambda a, b: select(a < b, a * 2.0, b),
    "select_on_unordered": lambda a, b: select(a.ne(a), b, a),
}
_INT_FORMULAS: dict[str, Formula] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, _: a // 7,
    "mod": lambda a, _: a % 7,
    "min": minimum,
    "max": maximum,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a, _: ~a,
    "neg": lambda a, _: -a,
    "abs": lambda a, _: abs(a),
    "shl": lambda a, b: a << (b & 7),
    "shr": lambda a, b: a >> (b & 7),
    "lshr": lambda a, b: lshr(a, b & 7),
    "select": lambda a, b: select(a >= b, a, b - a),
    "largest_constant": lambda a, _: a ^ _largest(a),
}


def _largest(a: E) -> int:
    return int(np.iinfo(numpy_dtype(a.type.prim)).max)


def _samples(prim: Prim) -> tuple[Array, Array]:
    random = np.random.default_rng(5)
    dtype = numpy_dtype(prim)
    if prim is Prim.BOOL:
        return random.random(_COUNT) < 0.5, random.random(_COUNT) < 0.5
    if prim.is_float:
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, 1.5, 2.5]
        pair = random.standard_normal((2, _COUNT)) * 10
        pair[0, :8], pair[1, 4:12] = special, special
        return pair[0].astype(dtype), pair[1].astype(dtype)
    info = np.iinfo(dtype)
    a, b = random.integers(info.min, info.max, (2, _COUNT), dtype, endpoint=True)
    a[:2] = info.min, info.max
    return a, b


def _kernel(formula: Formula, prim: Prim, lanes: int) -> Kernel:
    """Return the kernel that stores `formula(a[i], b[i])`, `lanes` elements at a time."""
    k = KernelBuilder("sample")
    a, b = k.argument("a", prim), k.argument("b", prim)
    result = formula(*_variables(prim)).type.prim
    y = k.argument("y", result, writable=True)
    with k.loop("i", _COUNT, step=lanes) as i:
        left, right = k.let("left", k.load(a, i, lanes)), k.let("right", k.load(b, i, lanes))
        k.store(y, i, formula(left, right))
    return k.build()


def _variables(prim: Prim, lanes: int = 1) -> tuple[E, E]:
    type = ValueType(prim, lanes)
    return E(Var("a", type)), E(Var("b", type))


def _check(formula: Formula, prim: Prim, lanes: int) -> None:
    a, b = _samples(prim)
    expression = formula(*_variables(prim))
    with np.errstate(all="ignore"):
        expected = evaluate(expression.node, {"a": a, "b": b})
    actual = np.zeros(_COUNT, numpy_dtype(expression.type.prim))
    run(_kernel(formula, prim, lanes), [a, b, actual])
    assert same_bits(actual, np.broadcast_to(expected, _COUNT))


@pytest.mark.parametrize("lanes", [1, _LANES])
@pytest.mark.parametrize("prim", _FLOATS)
@pytest.mark.parametrize("name", _FLOAT_FORMULAS)
def test_float_expression_equals_its_meaning(name: str, prim: Prim, lanes: int) -> None:
    _check(_FLOAT_FORMULAS[name], prim, lanes)


@pytest.mark.parametrize("prim", _INTS)
@pytest.mark.parametrize("name", _INT_FORMULAS)
def test_integer_expression_equals_its_meaning(name: str, prim: Prim) -> None:
    _check(_INT_FORMULAS[name], prim, 1)


@pytest.mark.parametrize("name", _INT_FORMULAS)
def test_integer_vector_expression_equals_its_meaning(name: str) -> None:
    _check(_INT_FORMULAS[name], Prim.I32, _LANES)


@pytest.mark.parametrize("lanes", [1, _LANES])
@pytest.mark.parametrize("compare", ["__lt__", "__le__", "__gt__", "__ge__", "eq", "ne"])
@pytest.mark.parametrize("prim", [Prim.F32, Prim.I16, Prim.U16, Prim.BOOL])
def test_comparison_equals_its_meaning(prim: Prim, compare: str, lanes: int) -> None:
    def formula(a: E, b: E) -> E:
        operations: dict[str, E] = {
            "__lt__": a < b,
            "__le__": a <= b,
            "__gt__": a > b,
            "__ge__": a >= b,
            "eq": a.eq(b),
            "ne": a.ne(b),
        }
        return operations[compare]

    _check(formula, prim, lanes)


@pytest.mark.parametrize("lanes", [1, _LANES])
@pytest.mark.parametrize("name", ["and", "or", "xor", "not"])
def test_logic_on_bools_equals_its_meaning(name: str, lanes: int) -> None:
    _check(_INT_FORMULAS[name], Prim.BOOL, lanes)


@pytest.mark.parametrize("target", [prim for prim in Prim if prim is not Prim.BOOL])
@pytest.mark.parametrize("source", list(Prim))
def test_cast_between_numbers_equals_numpy(source: Prim, target: Prim) -> None:
    in_range = source.is_float and target.is_int

    def formula(a: E, _: E) -> E:
        return (select(abs(a) < 100.0, abs(a), 7.5) if in_range else a).cast(target)

    _check(formula, source, 1)


@pytest.mark.parametrize("source", list(Prim))
def test_cast_to_bool_tells_zero_from_the_rest(source: Prim) -> None:
    _check(lambda a, _: a.cast(Prim.BOOL), source, _LANES)


@pytest.mark.parametrize(
    ("source", "target"), [(Prim.F32, Prim.I32), (Prim.U32, Prim.I32), (Prim.F64, Prim.U64)]
)
def test_bitcast_keeps_the_bits(source: Prim, target: Prim) -> None:
    _check(lambda a, _: a.bitcast(target), source, _LANES)


@pytest.mark.parametrize("op", [BinaryOp.ADD, BinaryOp.MUL, BinaryOp.MIN, BinaryOp.MAX])
def test_fold_combines_halves_in_the_stated_order(op: BinaryOp) -> None:
    x = np.random.default_rng(1).standard_normal(16).astype(np.float32)
    k = KernelBuilder("folded")
    source, y = k.argument("x", Prim.F32), k.argument("y", Prim.F32, writable=True)
    vector = k.load(source, 0, 16)
    k.store(y, 0, vector.fold(op))
    actual = np.zeros(1, np.float32)
    run(k.build(), [x, actual])
    operand = E(Var("v", ValueType(Prim.F32, 16)))
    assert same_bits(actual, np.atleast_1d(evaluate(operand.fold(op).node, {"v": x})))


def test_shuffle_picks_lanes_of_both_operands() -> None:
    x = np.arange(8, dtype=np.int32)
    k = KernelBuilder("shuffled")
    source, y = k.argument("x", Prim.I32), k.argument("y", Prim.I32, writable=True)
    low, high = k.let("low", k.load(source, 0, 4)), k.let("high", k.load(source, 4, 4))
    k.store(y, 0, shuffle(low, high, (7, 0, 5, 2)))
    actual = np.zeros(4, np.int32)
    run(k.build(), [x, actual])
    assert actual.tolist() == [7, 0, 5, 2]


def test_ramp_splat_and_lane_build_and_take_apart_vectors() -> None:
    k = KernelBuilder("lanes")
    y = k.argument("y", Prim.I64, writable=True)
    n = k.scalar("n")
    ramp = k.let("ramp", n.ramp(8))
    k.store(y, 0, ramp + (n * 10).splat(8))
    k.store(y, 8, ramp.lane(5))
    actual = np.zeros(9, np.int64)
    run(k.build(), [actual], [3])
    assert actual.tolist() == [*range(33, 41), 8]


@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("prim", _FLOATS)
@pytest.mark.parametrize("name", ["exp", "tanh"])
def test_math_function_equals_its_definition_at_every_width(
    name: str, prim: Prim, lanes: int
) -> None:
    function = build_function(name, prim)
    _check(lambda a, _: call(function, a), prim, lanes)


def test_constants_of_the_smallest_and_negative_values_survive() -> None:
    k = KernelBuilder("constants")
    y = k.argument("y", Prim.F64, writable=True)
    values = [5e-324, -0.0, 1 / 3, float("-inf")]
    for position, value in enumerate(values):
        k.store(y, position, const(value, Prim.F64))
    k.store(y, len(values), index(-5).cast(Prim.F64))
    actual = np.zeros(5)
    run(k.build(), [actual])
    assert same_bits(actual, np.array([*values, -5.0]))
