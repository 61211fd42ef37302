"""One faulty kernel per rule of the grammar, and what the verifier says of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, fma, select, shuffle
from rlx.codegen.loops.math import build_function
from rlx.codegen.loops.nodes import (
    Assign,
    AtomicOp,
    Binary,
    BinaryOp,
    Buffer,
    Call,
    Const,
    Function,
    Let,
    Load,
    LoopKind,
    Module,
    Prim,
    Status,
    ValueType,
    Var,
)
from rlx.codegen.loops.verify import verify_function, verify_kernel, verify_module
from rlx.errors import InternalError

F32, I64 = ValueType(Prim.F32), ValueType(Prim.I64)
Fault = Callable[[KernelBuilder, Buffer, Buffer], None]


def value(k: KernelBuilder, x: Buffer) -> E:
    return k.load(x, 0)


def leak(k: KernelBuilder, _x: Buffer, out: Buffer) -> None:
    with k.loop("i", 4) as i:
        pass
    k.store(out, i, 1.0)


def bind_twice(k: KernelBuilder, x: Buffer, _out: Buffer) -> None:
    for _ in range(2):
        k.emit(Let(Var("twice", F32), value(k, x).node))


def bind_in_each_loop(k: KernelBuilder, _x: Buffer, _out: Buffer) -> None:
    for loop in ("i", "j"):  # passes take a name for one variable, wherever it is
        with k.loop(loop, 3) as at:
            k.emit(Let(Var("part", I64), at.node))


def two_parallel(k: KernelBuilder, _x: Buffer, out: Buffer) -> None:
    for _ in range(2):
        with k.loop("i", 4, kind=LoopKind.PARALLEL) as i:
            k.store(out, i, 1.0)


def nested_parallel(k: KernelBuilder, _x: Buffer, out: Buffer) -> None:
    with k.loop("j", 4), k.loop("i", 4, kind=LoopKind.PARALLEL) as i:
        k.store(out, i, 1.0)


def late_parallel(k: KernelBuilder, _x: Buffer, out: Buffer) -> None:
    k.store(out, 0, 1.0)
    with k.loop("i", 4, kind=LoopKind.PARALLEL) as i:
        k.store(out, i, 1.0)


def undeclared_accumulator(k: KernelBuilder, x: Buffer, _out: Buffer) -> None:
    total = k.mutable("total", const(0.0, Prim.F32))
    with k.loop("i", 4, kind=LoopKind.SIMD) as i:
        total.set(total + k.load(x, i))


def empty_local(k: KernelBuilder, _x: Buffer, _out: Buffer) -> None:
    k.local("empty", Prim.F32, 0)


def atomic_float(k: KernelBuilder, _x: Buffer, out: Buffer) -> None:
    k.atomic(AtomicOp.ADD, out, 0, 1)


def endless(k: KernelBuilder, x: Buffer, _out: Buffer) -> None:
    with k.while_(value(k, x)):
        k.pause()


def simd_step(k: KernelBuilder, _x: Buffer, out: Buffer) -> None:
    with k.loop("i", 4, step=2, kind=LoopKind.SIMD) as i:
        k.store(out, i, 1.0)


def read_only_invoke(k: KernelBuilder, _x: Buffer, out: Buffer) -> None:
    inner = KernelBuilder("inner")
    target = inner.argument("target", Prim.F32, writable=True)
    inner.store(target, 0, 1.0)
    k.invoke(inner.build(), [k.address(out)])


def bounds_without_parallel(k: KernelBuilder, _x: Buffer, _out: Buffer) -> None:
    k.invoke(KernelBuilder("inner").build(), [], bounds=(const(0, Prim.I64), const(1, Prim.I64)))


def node(build: Callable[[E], E]) -> Fault:
    """A let of an ill-typed expression over one loaded f32."""
    return lambda k, x, _: k.emit(Let(Var("v", build(value(k, x)).type), build(value(k, x)).node))


FAULTS: dict[str, tuple[Fault, str]] = {
    "scope": (leak, "i is not in scope"),
    "twice": (bind_twice, "twice is bound twice"),
    "twice_in_loops_side_by_side": (bind_in_each_loop, "part is bound twice"),
    "type": (
        lambda k, x, _: k.emit(Let(Var("v", I64), value(k, x).node)),
        "v is f32; it must be i64",
    ),
    "operands": (
        node(lambda v: E(Binary(BinaryOp.ADD, v.node, Const(1, I64)))),
        "add of f32, i64; the operands must have one type",
    ),
    "lanes": (
        node(lambda v: E(Binary(BinaryOp.ADD, v.node, Const(1.0, ValueType(Prim.F32, 4))))),
        "add of f32, f32x4",
    ),
    "integer operator": (node(lambda v: v % v), "mod does not take f32"),
    "bitwise": (node(lambda v: v & v), "and does not take f32"),
    "not": (node(lambda v: ~v), "not does not take f32"),
    "fma": (node(lambda v: fma(v.cast(Prim.I32), v.cast(Prim.I32), 1)), "fma does not take i32"),
    "bitcast": (node(lambda v: v.bitcast(Prim.F64)), "bitcast of f32 to f64"),
    "condition": (node(lambda v: select(v, v, v)), "by a condition of f32"),
    "ordered bools": (node(lambda v: (v > 0.0) < (v > 1.0)), "lt does not take bool"),
    "lane": (node(lambda v: v.splat(4).lane(4)), "lane 4 of f32x4"),
    "ramp": (node(lambda v: v.ramp(4)), "ramp of f32"),
    "fold": (node(lambda v: v.splat(4).fold(BinaryOp.SUB)), "fold of f32x4 by sub"),
    "fold lanes": (node(lambda v: v.splat(3).fold(BinaryOp.ADD)), "power of two"),
    "shuffle": (node(lambda v: shuffle(v.splat(2), v.splat(2), [4])), "shuffle of 4 lanes"),
    "constant": (node(lambda _: E(Const(300, ValueType(Prim.U8)))), "300 is no constant of u8"),
    "call": (
        node(lambda v: E(Call(build_function("exp", Prim.F64), (v.node,)))),
        "exp_f64 takes (f64) and is given (f32)",
    ),
    "index": (
        lambda k, x, out: k.store(out, value(k, x), 1.0),
        "store to out: the index is f32; it must be i64",
    ),
    "load index": (node(lambda v: E(Load(Buffer("x", Prim.F32), v.node))), "load of x: the index"),
    "read only": (lambda k, x, _: k.store(x, 0, 1.0), "x is not writable"),
    "stored type": (
        lambda k, _, out: k.store(out, 0, const(1, Prim.I64)),
        "the value stored to out is i64; it must be f32",
    ),
    "unknown buffer": (
        lambda k, _, out: k.store(out, 0, k.load(Buffer("y", Prim.F32), 0)),
        "y is not in scope",
    ),
    "assign a let": (
        lambda k, _x, _: k.emit(Assign(Var("n", I64), const(1, Prim.I64).node)),
        "n is not a mutable variable",
    ),
    "while": (endless, "the condition is f32; it must be bool"),
    "two parallel": (two_parallel, "one parallel loop"),
    "nested parallel": (nested_parallel, "must be at the top level"),
    "late parallel": (late_parallel, "only lets may precede"),
    "accumulator": (undeclared_accumulator, "total is assigned in a simd loop"),
    "simd step": (simd_step, "a simd loop must have step 1"),
    "fail position": (
        lambda k, x, _: k.fail(Status.SINGULAR_MATRIX, value(k, x)),
        "the position is f32",
    ),
    "local": (empty_local, "local empty needs an extent"),
    "invoke": (read_only_invoke, "inner writes target; its address is read-only"),
    "bounds": (bounds_without_parallel, "inner has no parallel loop"),
    "atomic": (atomic_float, "takes i64 memory"),
}


@pytest.mark.whole
@pytest.mark.parametrize("rule", FAULTS)
def test_a_kernel_that_breaks_a_rule_is_refused(rule: str) -> None:
    build, message = FAULTS[rule]
    k = KernelBuilder("faulty")
    x = k.argument("x", Prim.F32)
    out = k.argument("out", Prim.F32, writable=True)
    k.scalar("n")
    build(k, x, out)
    with pytest.raises(InternalError) as caught:
        verify_kernel(k.build())
    assert message in str(caught.value)


def test_all_faults_are_reported_with_a_mark_under_the_statement() -> None:
    k = KernelBuilder("two_faults")
    x = k.argument("x", Prim.F32)
    k.store(x, 0, 1.0)
    with k.loop("i", 4, step=2, kind=LoopKind.SIMD):
        pass
    with pytest.raises(InternalError) as caught:
        verify_kernel(k.build())
    assert caught.value.message.endswith(
        "kernel two_faults(x: f32[])\n"
        "  x[0] = 1.0\n"
        "  ^^^^^^^^^^ x is not writable\n"
        "  for i in 0 .. 4 step 2, simd:\n"
        "  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ a simd loop must have step 1\n"
    )


def test_a_function_must_not_load() -> None:
    impure = Function("impure", (), (), Load(Buffer("x", Prim.F32), Const(0, I64)))
    with pytest.raises(InternalError, match="loads x; a function is pure"):
        verify_function(impure)


def test_a_module_holds_callees_before_callers() -> None:
    inner = KernelBuilder("inner").build()
    outer = KernelBuilder("outer")
    outer.invoke(inner, [])
    caller = outer.build()
    verify_module(Module("good", (), (inner, caller), ()))
    with pytest.raises(InternalError, match="kernel outer calls inner, which is not before it"):
        verify_module(Module("bad", (), (caller, inner), ()))
