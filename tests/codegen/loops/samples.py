"""Small kernels that together use every node kind of the loop language, with their inputs.

The interpreter says what each must do; the back ends run the same list and compare bit for bit:

    for sample in SAMPLES:
        expected = run_sample(sample)
        ...
        assert_same(expected.buffers, actual)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.evaluate import numpy_dtype
from rlx.codegen.loops.expr import (
    E,
    binary,
    call,
    compare,
    const,
    dot_bf16,
    dot_bytes,
    fma,
    lookup_bytes,
    lshr,
    select,
    shuffle,
)
from rlx.codegen.loops.interpreter import ExternalFunction, Outcome, run_kernel
from rlx.codegen.loops.math import build_function
from rlx.codegen.loops.math.storage import (
    bf16_to_f32,
    f16_to_f32,
    f32_to_bf16,
    f32_to_f16,
    round_to_f16,
)
from rlx.codegen.loops.nodes import (
    AtomicOp,
    BinaryOp,
    Buffer,
    CompareOp,
    Kernel,
    LoopKind,
    Prim,
    Status,
    UnaryOp,
    ValueType,
)

Array = NDArray[Any]
FLOATS = (Prim.F32, Prim.F64)
INTEGERS = tuple(prim for prim in Prim if prim.is_int)
NUMBERS = (*INTEGERS, *FLOATS)
LANES = (1, 4)
COUNT = 16


@dataclass(frozen=True)
class Sample:
    """A kernel with the buffers, scalars and bounds to call it with."""

    kernel: Kernel
    buffers: Mapping[str, Array]
    scalars: Mapping[str, int | float] = field(default_factory=dict)
    bounds: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        return self.kernel.name

    def fresh_buffers(self) -> dict[str, Array]:
        return {name: array.copy() for name, array in self.buffers.items()}


@dataclass(frozen=True)
class Result:
    outcome: Outcome
    buffers: dict[str, Array]


def run_sample(sample: Sample) -> Result:
    """Run a sample in the interpreter, on copies."""
    buffers = sample.fresh_buffers()
    outcome = run_kernel(
        sample.kernel, buffers, sample.scalars, bounds=sample.bounds, externals=EXTERNALS
    )
    return Result(outcome, buffers)


def assert_same(expected: Mapping[str, Array], actual: Mapping[str, Array]) -> None:
    """Bit for bit, except that a NaN may have any sign and payload."""
    for name, array in expected.items():
        assert comparable(array) == comparable(actual[name]), name


def comparable(array: Array) -> bytes:
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.asarray(np.nan, array.dtype), array)
    return array.tobytes()


def _frexp(x: float, exponent: Array) -> float:
    significand, exponent[0] = math.frexp(x)
    return significand


EXTERNALS: dict[str, ExternalFunction] = {"frexp": _frexp, "labs": abs}


# Inputs


def values(prim: Prim) -> Array:
    """Sixteen values of a machine type with its edges among them."""
    dtype = numpy_dtype(prim)
    if prim is Prim.BOOL:
        return np.array([i % 3 == 0 for i in range(COUNT)])
    if prim.is_int:
        info = np.iinfo(dtype)
        edges = [info.min, info.max, info.min + 1, info.max - 1, 0, 1, 2, 3, 7, 100, 64, 33]
        return np.array([*edges, 5, 17, 90, 127], dtype)
    tiny = np.finfo(dtype).smallest_subnormal
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, tiny, -np.finfo(dtype).max]
    return np.array([*special, 0.5, 1.5, 2.5, -2.5, -0.3, 1e10, 3.1415926], dtype)


def others(prim: Prim) -> Array:
    """Second operands: the values, rotated."""
    return np.roll(values(prim), 5)


def divisors(prim: Prim) -> Array:
    """Second operands that an integer division may have."""
    if prim.is_float:
        return others(prim)
    return np.array([3, 1, 2, 7, 5, 11, 100, 127] * 2, numpy_dtype(prim))


def shift_counts(prim: Prim) -> Array:
    return (np.arange(COUNT) * 3 % (prim.size * 8)).astype(numpy_dtype(prim))


def castable(source: Prim, target: Prim) -> Array:
    """Values of `source` that `Cast` may take to `target`."""
    if source.is_float and target.is_int:
        low = -100.0 if target.is_signed else 0.0
        return np.linspace(low, 120.75, COUNT).astype(numpy_dtype(source))
    return values(source)


# Kernels over sixteen elements


def mapped(
    name: str, inputs: Mapping[str, Array], result: Prim, body: Callable[..., E], lanes: int = 1
) -> Sample:
    """`result[i] = body(inputs[i]...)`, `lanes` elements at a time."""
    k = KernelBuilder(name)
    buffers = [k.argument(each, _prim_of(array)) for each, array in inputs.items()]
    out = k.argument("out", result, writable=True)
    with k.loop("i", COUNT, step=lanes) as i:
        k.store(out, i, body(*(k.load(buffer, i, lanes) for buffer in buffers)))
    arrays = {**inputs, "out": np.zeros(COUNT, numpy_dtype(result))}
    return Sample(k.build(), arrays)


def _prim_of(array: Array) -> Prim:
    return next(prim for prim in Prim if numpy_dtype(prim) == array.dtype)


def unary_samples() -> Iterator[Sample]:
    for op in UnaryOp:
        for prim in _unary_prims(op):
            for lanes in LANES:
                name = f"unary_{op.value}_{prim}_{lanes}"
                yield mapped(name, {"x": values(prim)}, prim, lambda x, op=op: x.unary(op), lanes)


def _unary_prims(op: UnaryOp) -> tuple[Prim, ...]:
    if op is UnaryOp.NOT:
        return (Prim.BOOL, *INTEGERS)
    if op in (UnaryOp.NEG, UnaryOp.ABS):
        return tuple(prim for prim in NUMBERS if not prim.is_unsigned)
    return FLOATS


BITWISE = (BinaryOp.AND, BinaryOp.OR, BinaryOp.XOR)
SHIFTS = (BinaryOp.SHL, BinaryOp.SHR, BinaryOp.LSHR)


def binary_prims(op: BinaryOp) -> tuple[Prim, ...]:
    if op in BITWISE:
        return (Prim.BOOL, *INTEGERS)
    return INTEGERS if op is BinaryOp.MOD or op in SHIFTS else NUMBERS


def binary_samples() -> Iterator[Sample]:
    for op in BinaryOp:
        divides = op in (BinaryOp.DIV, BinaryOp.MOD)
        second = divisors if divides else shift_counts if op in SHIFTS else others
        for prim in binary_prims(op):
            for lanes in LANES:
                inputs = {"a": values(prim), "b": second(prim)}
                name = f"binary_{op.value}_{prim}_{lanes}"
                yield mapped(name, inputs, prim, lambda a, b, op=op: binary(op, a, b), lanes)


def compare_samples() -> Iterator[Sample]:
    for op in CompareOp:
        for prim in (Prim.BOOL, *NUMBERS) if op in (CompareOp.EQ, CompareOp.NE) else NUMBERS:
            for lanes in LANES:
                second = np.where(np.arange(COUNT) % 4, others(prim), values(prim))
                inputs = {"a": values(prim), "b": second}
                name = f"compare_{op.value}_{prim}_{lanes}"
                yield mapped(name, inputs, Prim.BOOL, lambda a, b, op=op: compare(op, a, b), lanes)


def cast_samples() -> Iterator[Sample]:
    for source in Prim:
        for target in Prim:
            if source is target:
                continue
            inputs = {"x": castable(source, target)}
            for lanes in LANES:
                name = f"cast_{source}_{target}_{lanes}"
                yield mapped(name, inputs, target, lambda x, to=target: x.cast(to), lanes)


def bitcast_samples() -> Iterator[Sample]:
    for source in NUMBERS:
        for target in NUMBERS:
            if source is target or source.size != target.size:
                continue
            for lanes in LANES:
                name = f"bitcast_{source}_{target}_{lanes}"
                inputs = {"x": values(source)}
                yield mapped(name, inputs, target, lambda x, to=target: x.bitcast(to), lanes)


def lane_bitcast_samples() -> Iterator[Sample]:
    """The same bits as more lanes, as fewer, and as one."""
    for source, target, lanes in ((Prim.U8, Prim.U32, 16), (Prim.I8, Prim.I32, 4),
                                  (Prim.U32, Prim.I8, 4), (Prim.U32, Prim.U8, 1)):  # fmt: skip
        k = KernelBuilder(f"bitcast_{source}_{target}_{lanes}_lanes")
        x, y = k.argument("x", source), k.argument("y", target, writable=True)
        k.store(y, 0, k.load(x, 0, lanes).bitcast(target))
        found = np.zeros(COUNT, numpy_dtype(target))
        yield Sample(k.build(), {"x": values(source), "y": found})


def select_and_fma_samples() -> Iterator[Sample]:
    for prim in Prim:
        for lanes in LANES:
            inputs = {"c": values(Prim.BOOL), "a": values(prim), "b": others(prim)}
            yield mapped(f"select_{prim}_{lanes}", inputs, prim, select, lanes)
    for prim in FLOATS:
        one = np.asarray(1, numpy_dtype(prim))
        near = one + np.finfo(one.dtype).eps * np.arange(COUNT).astype(one.dtype)
        for lanes in LANES:
            inputs = {"a": near, "b": near[::-1].copy(), "c": -near}
            yield mapped(f"fma_{prim}_{lanes}", inputs, prim, fma, lanes)
            inputs = {"a": values(prim), "b": others(prim), "c": np.roll(values(prim), 3)}
            yield mapped(f"fma_edges_{prim}_{lanes}", inputs, prim, fma, lanes)


def byte_samples() -> Iterator[Sample]:
    for prim in (Prim.U32, Prim.I32):
        for lanes in (*LANES, 8, 16):
            inputs = {"a": values(prim), "b": values(Prim.I32), "c": others(Prim.I32)}
            yield mapped(f"dot_bytes_{prim}_{lanes}", inputs, Prim.I32, dot_bytes, lanes)
            if lanes % 4 == 0:
                squares = functools.partial(dot_bytes, squares=True)
                yield mapped(f"dot_squares_{prim}_{lanes}", inputs, Prim.I32, squares, lanes)


def lookup_samples() -> Iterator[Sample]:
    table = [(37 * place + 201) % 256 for place in range(16)]
    at = values(Prim.U32) & 0x0F0F0F0F
    for lanes in (*LANES, 8, 16):
        body = functools.partial(lookup_bytes, table)
        yield mapped(f"lookup_bytes_{lanes}", {"x": at}, Prim.U32, body, lanes)


def bf16_samples() -> Iterator[Sample]:
    for lanes in (*LANES, 8, 16):
        inputs = {"a": bf16_pairs(3), "b": bf16_pairs(5), "c": np.arange(COUNT).astype(np.float32)}
        yield mapped(f"dot_bf16_{lanes}", inputs, Prim.F32, dot_bf16, lanes)


def bf16_pairs(step: int) -> Array:
    """Words whose sums of products are exact: instructions differ in how they round."""
    halves = np.arange(2 * COUNT) * step % 31 - 9
    bits = halves.astype(np.float32).view(np.uint32) >> 16
    words: Array = (bits[::2] | bits[1::2] << 16).astype(np.uint32)
    return words


def constant_samples() -> Iterator[Sample]:
    for prim in Prim:
        k = KernelBuilder(f"constants_{prim}")
        out = k.argument("out", prim, writable=True)
        for i, value in enumerate(values(prim).tolist()):
            k.store(out, i, const(value, prim))
        k.store(out, COUNT, const(1, prim, 4))
        yield Sample(k.build(), {"out": np.zeros(COUNT + 4, numpy_dtype(prim))})


def vector_samples() -> Iterator[Sample]:
    for prim in NUMBERS:
        for lanes in (2, 4, 8, 16):
            yield _lanes_sample(prim, lanes)


def _lanes_sample(prim: Prim, lanes: int) -> Sample:
    """Splat, ramp, lane, shuffle and every fold of one vector type, at an unaligned index."""
    k = KernelBuilder(f"lanes_{prim}_{lanes}")
    x = k.argument("x", prim)
    out = k.argument("out", prim, writable=True)
    v = k.let("v", k.load(x, 1, lanes))
    k.store(out, 0, k.load(x, 3).splat(lanes))
    k.store(out, lanes, v.lane(lanes - 1))
    k.store(out, lanes + 1, shuffle(v, v + v, [(3 * i + 1) % (2 * lanes) for i in range(lanes)]))
    k.store(out, 2 * lanes + 1, shuffle(v, v, [lanes - 1, 0]))
    if prim.is_int:
        k.store(out, 2 * lanes + 3, k.load(x, 2).ramp(lanes))
    folds = [BinaryOp.ADD, BinaryOp.MUL, BinaryOp.MIN, BinaryOp.MAX]
    folds += [BinaryOp.AND, BinaryOp.OR] if prim.is_int else []
    for i, op in enumerate(folds):
        k.store(out, 3 * lanes + 3 + i, v.fold(op))
    finite = np.array([3, 7, 1, 4, 100, 2, 9, 5, 6, 8, 11, 3, 2, 13, 1, 10, 12], numpy_dtype(prim))
    if prim.is_float:
        finite = finite / np.asarray(3, finite.dtype)
    return Sample(k.build(), {"x": finite, "out": np.zeros(3 * lanes + 9, numpy_dtype(prim))})


def function_samples() -> Iterator[Sample]:
    x = np.linspace(-3, 3, COUNT)
    for prim in FLOATS:
        for name in ("exp", "log", "tanh", "erf", "sin", "pow"):
            function = build_function(name, prim)
            inputs = {each.name: x.astype(numpy_dtype(prim)) for each in function.params}
            for lanes in LANES:
                sample = f"call_{name}_{prim}_{lanes}"
                yield mapped(sample, inputs, prim, lambda *a, f=function: call(f, *a), lanes)
    halves = np.array([0, 1, 0x3C00, 0x7BFF, 0x7C00, 0x8001, 0xFC00, 0x3555] * 2, np.uint16)
    for widen, narrow in ((f16_to_f32, f32_to_f16), (bf16_to_f32, f32_to_bf16)):
        for lanes in (*LANES, 8, 16):
            name = f"{widen.name}_{lanes}"
            yield mapped(name, {"x": halves}, Prim.F32, lambda h, f=widen: call(f, h), lanes)
            name = f"{narrow.name}_{lanes}"
            inputs = {"x": values(Prim.F32)}
            yield mapped(name, inputs, Prim.U16, lambda h, f=narrow: call(f, h), lanes)
    for lanes in (*LANES, 8, 16):
        inputs = {"x": values(Prim.F32)}
        yield mapped(
            f"round_to_f16_{lanes}", inputs, Prim.F32, lambda x: call(round_to_f16, x), lanes
        )


# Statements


def _buffers(k: KernelBuilder, prim: Prim = Prim.F32) -> tuple[Buffer, Buffer]:
    return k.argument("x", prim), k.argument("out", prim, writable=True)


def _pair(prim: Prim = Prim.F32, count: int = COUNT) -> dict[str, Array]:
    dtype = numpy_dtype(prim)
    return {"x": (np.arange(count) * 3 % 7 - 2).astype(dtype), "out": np.zeros(count, dtype)}


def loop_samples() -> Iterator[Sample]:
    for kind in LoopKind:
        k = KernelBuilder(f"loop_{kind.value}")
        x, out = _buffers(k)
        with k.loop("i", COUNT, kind=kind) as i:
            doubled = k.let("doubled", k.load(x, i) * 2.0)
            k.store(out, i, doubled + i.cast(Prim.F32))
        yield Sample(k.build(), _pair())
    k = KernelBuilder("loop_start_step")
    x, out = _buffers(k)
    with k.loop("i", 15, start=2, step=3) as i, k.loop("j", i, start=i - 2) as j:
        k.store(out, j, k.load(out, j) + k.load(x, i))
    yield Sample(k.build(), _pair())
    k = KernelBuilder("loop_symbolic")
    n = k.scalar("n")
    scale = k.scalar("scale", Prim.F64)
    x, out = _buffers(k, Prim.F64)
    with k.loop("i", n, start=n // 4, kind=LoopKind.SIMD) as i:
        k.store(out, i, k.load(x, i) * scale)
    yield Sample(k.build(), _pair(Prim.F64), {"n": 13, "scale": 0.1})
    k = KernelBuilder("loop_parallel_range")
    x, out = _buffers(k)
    with k.loop("i", 8, kind=LoopKind.PARALLEL) as i, k.loop("j", 2, kind=LoopKind.UNROLL) as j:
        k.store(out, i * 2 + j, k.load(x, i * 2 + j) + 1.0)
    yield Sample(k.build(), _pair(), bounds=(2, 5))


def accumulator_samples() -> Iterator[Sample]:
    for op in (BinaryOp.ADD, BinaryOp.MUL, BinaryOp.MIN, BinaryOp.MAX):
        for prim in (Prim.I32, Prim.I64, *FLOATS):
            k = KernelBuilder(f"accumulate_{op.value}_{prim}")
            x, out = _buffers(k, prim)
            total = k.mutable("total", const(1, prim))
            with k.loop("i", COUNT, kind=LoopKind.SIMD, accumulators=[(total, op)]) as i:
                total.set(binary(op, total, k.load(x, i)))
            k.store(out, 0, total)
            yield Sample(k.build(), _pair(prim))


def control_samples() -> Iterator[Sample]:
    k = KernelBuilder("branches")
    x, out = _buffers(k)
    with k.loop("i", COUNT) as i:
        value = k.let("value", k.load(x, i))
        with k.if_(value < 0.0):
            k.store(out, i, -value)
        with k.else_(), k.if_(value > 2.0):
            k.store(out, i, value * value)
    yield Sample(k.build(), _pair())
    k = KernelBuilder("while_collatz")
    x, out = _buffers(k, Prim.I64)
    with k.loop("i", COUNT) as i:
        n = k.mutable("n", abs(k.load(x, i)) + 1)
        steps = k.mutable("steps", const(0, Prim.I64))
        with k.while_(n > 1):
            n.set(select((n & 1).eq(0), n >> 1, n * 3 + 1))
            steps.set(steps + 1)
        k.store(out, i, steps)
    yield Sample(k.build(), _pair(Prim.I64))
    k = KernelBuilder("local_transpose")
    x, out = _buffers(k)
    k.comment("transpose a 4 x 4 tile through scratch")
    tile = k.local("tile", Prim.F32, COUNT)
    with k.loop("i", 4) as i, k.loop("j", 4) as j:
        k.store(tile, i * 4 + j, k.load(x, j * 4 + i))
    with k.loop("i", 4) as i:
        k.store(out, i * 4, k.load(tile, i * 4, 4))
    yield Sample(k.build(), _pair())
    k = KernelBuilder("vector_variable")
    x, out = _buffers(k)
    sums = k.mutable("sums", const(0.0, Prim.F32, 4))
    with k.loop("i", COUNT, step=4) as i:
        sums.set(fma(k.load(x, i, 4), 0.5, sums))
        k.store(out, i, select(sums > 0.5, sums, -sums))
    yield Sample(k.build(), _pair())
    k = KernelBuilder("in_place")
    y = k.argument("out", Prim.F32, writable=True, may_alias=True)
    with k.loop("i", COUNT) as i:
        k.store(y, i, k.load(y, i) + 1.0)
    yield Sample(k.build(), {"out": np.arange(COUNT, dtype=np.float32)})
    k = KernelBuilder("streaming_store")
    x, out = _buffers(k)
    k.store(out, 0, k.load(x, 0, 16) + 1.0, streaming=True)
    yield Sample(k.build(), _pair())


def failing_kernel(name: str) -> Kernel:
    """Fails at the first negative element; stores the others before it."""
    k = KernelBuilder(name)
    x, out = _buffers(k, Prim.I64)
    n = k.scalar("n")
    with k.loop("i", n) as i:
        with k.if_(k.load(x, i) < 0):
            k.fail(Status.INDEX_OUT_OF_RANGE, i)
        k.store(out, i, k.load(x, i))
    return k.build()


def call_samples() -> Iterator[Sample]:
    good = {"x": np.arange(COUNT), "out": np.zeros(COUNT, np.int64)}
    bad = {"x": np.where(np.arange(COUNT) == 5, -1, 3), "out": np.zeros(COUNT, np.int64)}
    yield Sample(failing_kernel("checked_copy"), good, {"n": COUNT})
    yield Sample(failing_kernel("failed_copy"), bad, {"n": COUNT})
    k = KernelBuilder("invoke_failing")
    x, out = _buffers(k, Prim.I64)
    callee = failing_kernel("checked_copy_callee")
    addresses = [k.address(x, 2), k.address(out, 1, writable=True)]
    k.invoke(callee, addresses, [const(3, Prim.I64)], origin=7)
    k.invoke(callee, addresses, [const(10, Prim.I64)], origin=9)
    yield Sample(k.build(), bad)
    yield _invoke_ranges()
    k = KernelBuilder("external_calls")
    x, out = _buffers(k, Prim.F64)
    exponents = k.argument("exponents", Prim.I32, writable=True)
    integers = k.argument("integers", Prim.I64, writable=True)
    with k.loop("i", COUNT) as i:
        address = k.address(exponents, i, writable=True)
        significand = k.external("frexp", [k.load(x, i), address], ValueType(Prim.F64))
        assert significand is not None
        k.store(out, i, significand)
        distance = k.external("labs", [i - 5], ValueType(Prim.I64))
        assert distance is not None
        k.store(integers, i, distance)
    more: dict[str, Array] = {
        "exponents": np.zeros(COUNT, np.int32),
        "integers": np.zeros(COUNT, np.int64),
    }
    yield Sample(k.build(), {**_pair(Prim.F64), **more})


def _invoke_ranges() -> Sample:
    """Whole and partial ranges of a parallel kernel, and memory seen as another type."""
    inner = KernelBuilder("negate_range")
    x, out = _buffers(inner)
    with inner.loop("i", 8, kind=LoopKind.PARALLEL) as i:
        inner.store(out, i, -inner.load(x, i))
    callee = inner.build()
    k = KernelBuilder("invoke_ranges")
    arena = k.argument("out", Prim.U8, writable=True)
    source = k.address(arena, 0, prim=Prim.F32)
    k.invoke(callee, [source, k.address(arena, 64, prim=Prim.F32, writable=True)])
    part = (const(1, Prim.I64), const(4, Prim.I64))
    target = k.address(arena, 128, prim=Prim.F32, writable=True)
    k.invoke(callee, [source, target], bounds=part)
    memory = np.zeros(48, np.float32)
    memory[:8] = np.arange(8) + 0.5
    return Sample(k.build(), {"out": memory.view(np.uint8)})


def atomic_samples() -> Iterator[Sample]:
    k = KernelBuilder("atomics")
    out = k.argument("out", Prim.I64, writable=True)
    before = k.atomic(AtomicOp.ADD, out, 0, 5)
    assert before is not None
    k.store(out, 1, before)
    k.atomic(AtomicOp.STORE, out, 2, before + 1)
    seen = k.atomic(AtomicOp.LOAD, out, 2)
    assert seen is not None
    k.prefetch(out, before + 40)
    k.pause()
    k.store(out, 3, seen)
    yield Sample(k.build(), {"out": np.arange(10, 14)})


def bit_samples() -> Iterator[Sample]:
    """Idioms that the math library leans on."""
    yield mapped(
        "sign_and_exponent",
        {"x": values(Prim.F32)},
        Prim.I32,
        lambda x: (lshr(x.bitcast(Prim.I32), 31) << 8) | ((x.bitcast(Prim.I32) >> 23) & 255),
        4,
    )


SAMPLES: tuple[Sample, ...] = (
    *unary_samples(), *binary_samples(), *compare_samples(), *cast_samples(), *bitcast_samples(),
    *lane_bitcast_samples(), *select_and_fma_samples(), *byte_samples(), *lookup_samples(),
    *bf16_samples(), *constant_samples(), *vector_samples(), *function_samples(), *loop_samples(),
    *accumulator_samples(), *control_samples(), *call_samples(), *atomic_samples(), *bit_samples(),
)  # fmt: skip
