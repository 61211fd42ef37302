"""The reference interpreter of kernels: one element at a time on NumPy, every access checked.

    outcome = run_kernel(kernel, {"x": x, "y": y}, {"n": 5})

Buffers are flat arrays of the buffer's machine type, written in place. A read or write out of
bounds, or of a local never stored, is a fault of the kernel's builder: `InternalError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, assert_never

import numpy as np

from rlx.codegen.loops.evaluate import Array, evaluate, numpy_dtype
from rlx.codegen.loops.nodes import (
    Address,
    Assign,
    Atomic,
    AtomicOp,
    Block,
    Buffer,
    Comment,
    Declare,
    Expr,
    External,
    Fail,
    For,
    If,
    Invoke,
    Kernel,
    Let,
    Load,
    Local,
    LoopKind,
    Pause,
    Prefetch,
    Status,
    Stmt,
    Store,
    TileStep,
    While,
)
from rlx.codegen.loops.tile_registers import TileRegisters
from rlx.dataclass import dataclass
from rlx.errors import InternalError

ExternalFunction = Callable[..., Any]
"""Takes scalars as Python numbers and addresses as array views from the element on."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a kernel returns; `position` and `origin` say where it failed."""

    status: Status = Status.OK
    position: int = 0
    origin: int = -1


class _FailedError(Exception):
    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


@dataclass(slots=True)
class _Frame:
    """Frame of a kernel: its variables, its memory, and which elements were stored."""

    kernel: Kernel
    buffers: dict[str, Array]
    bounds: tuple[int, int] | None
    externals: Mapping[str, ExternalFunction]
    variables: dict[str, Array] = field(default_factory=dict)
    stored: dict[str, Array] = field(default_factory=dict)
    tiles: TileRegisters = field(default_factory=TileRegisters)


def run_kernel(
    kernel: Kernel,
    buffers: Mapping[str, Array],
    scalars: Mapping[str, int | float] | None = None,
    *,
    bounds: tuple[int, int] | None = None,
    externals: Mapping[str, ExternalFunction] | None = None,
) -> Outcome:
    """Run `kernel`, writing `buffers` in place; `bounds` restricts its parallel loop."""
    given = {buffer.name: buffers[buffer.name] for buffer in kernel.buffers}
    for buffer in kernel.buffers:
        _check_argument(kernel, buffer, given[buffer.name])
    values = scalars or {}
    variables = {
        var.name: np.asarray(values[var.name], numpy_dtype(var.type.prim)) for var in kernel.scalars
    }
    frame = _Frame(kernel, given, bounds, externals or {}, variables)
    try:
        with np.errstate(all="ignore"):
            _run_block(frame, kernel.body)
    except _FailedError as failed:
        return failed.outcome
    return Outcome()


def _check_argument(kernel: Kernel, buffer: Buffer, array: Array) -> None:
    expected = numpy_dtype(buffer.prim)
    if array.dtype != expected or array.ndim != 1:
        raise InternalError(
            f"{kernel.name}: buffer {buffer.name} is a {array.ndim}-d array of {array.dtype};"
            f" it must be 1-d of {expected}"
        )


def _run_block(frame: _Frame, block: Block) -> None:
    for statement in block:
        _run(frame, statement)


def _run(frame: _Frame, statement: Stmt) -> None:
    match statement:
        case Let() | Declare() | Assign():
            frame.variables[statement.var.name] = _value(frame, statement.value)
        case Local():
            _reserve(frame, statement.buffer)
        case Store():
            _store(frame, statement)
        case For():
            _run_loop(frame, statement)
        case While():
            while bool(_value(frame, statement.condition)):
                _run_block(frame, statement.body)
        case If():
            taken = bool(_value(frame, statement.condition))
            _run_block(frame, statement.then if taken else statement.orelse)
        case Fail():
            position = int(_value(frame, statement.position))
            raise _FailedError(Outcome(statement.status, position))
        case External():
            _call_external(frame, statement)
        case Invoke():
            _invoke(frame, statement)
        case Atomic():
            _access_atomically(frame, statement)
        case TileStep():
            _run_tile_step(frame, statement)
        case Prefetch() | Pause() | Comment():
            pass
        case _:
            assert_never(statement)


def _value(frame: _Frame, expr: Expr) -> Array:
    def load(node: Load, index: Array) -> Array:
        return _load(frame, node, int(index))

    return evaluate(expr, frame.variables, load)


# Memory


def _reserve(frame: _Frame, buffer: Buffer) -> None:
    extent = buffer.extent or 0
    frame.buffers[buffer.name] = np.zeros(extent, numpy_dtype(buffer.prim))
    frame.stored[buffer.name] = np.zeros(extent, np.bool_)


def _span(frame: _Frame, buffer: Buffer, start: int, lanes: int, verb: str) -> slice:
    extent = frame.buffers[buffer.name].size
    if start < 0 or start + lanes > extent:
        what = f"[{start}]" if lanes == 1 else f"[{start}, {start + lanes})"
        raise InternalError(
            f"{frame.kernel.name}: {verb} {buffer.name}{what}, which holds {extent} elements"
        )
    return slice(start, start + lanes)


def _load(frame: _Frame, node: Load, start: int) -> Array:
    name = node.buffer.name
    span = _span(frame, node.buffer, start, node.lanes, "reads")
    if name in frame.stored and not frame.stored[name][span].all():
        raise InternalError(f"{frame.kernel.name}: reads local {name}[{start}] before it is stored")
    elements = frame.buffers[name][span].copy()
    return elements[0:1].reshape(()) if node.lanes == 1 else elements


def _store(frame: _Frame, statement: Store) -> None:
    value = _value(frame, statement.value)
    start = int(_value(frame, statement.index))
    span = _span(frame, statement.buffer, start, max(1, value.size), "writes")
    frame.buffers[statement.buffer.name][span] = value
    if statement.buffer.name in frame.stored:
        frame.stored[statement.buffer.name][span] = True


def _view(frame: _Frame, address: Address) -> Array:
    """The memory from an address on, as its own machine type."""
    array = frame.buffers[address.buffer.name]
    start = int(_value(frame, address.index))
    if not 0 <= start <= array.size:
        raise InternalError(
            f"{frame.kernel.name}: address of {address.buffer.name}[{start}], which holds"
            f" {array.size} elements"
        )
    target = numpy_dtype(address.prim)
    bytes_left = array[start:].view(np.uint8)
    return bytes_left[: bytes_left.size // target.itemsize * target.itemsize].view(target)


def _mark_stored(frame: _Frame, address: Address) -> None:
    """A callee may have written through `address`: what it left unwritten is not tracked."""
    if address.writable and address.buffer.name in frame.stored:
        frame.stored[address.buffer.name][int(_value(frame, address.index)) :] = True


# Control


def _run_loop(frame: _Frame, loop: For) -> None:
    start, stop = int(_value(frame, loop.start)), int(_value(frame, loop.stop))
    if loop.kind is LoopKind.PARALLEL and frame.bounds is not None:
        start, stop = frame.bounds
    for i in range(start, stop, loop.step):
        frame.variables[loop.var.name] = np.asarray(i, np.int64)
        _run_block(frame, loop.body)


def _call_external(frame: _Frame, statement: External) -> None:
    if statement.symbol not in frame.externals:
        raise InternalError(f"{frame.kernel.name}: no external function {statement.symbol}")
    args: list[Any] = [
        _view(frame, arg) if isinstance(arg, Address) else _value(frame, arg).item()
        for arg in statement.args
    ]
    result = frame.externals[statement.symbol](*args)
    for arg in statement.args:
        if isinstance(arg, Address):
            _mark_stored(frame, arg)
    if statement.result is not None:
        dtype = numpy_dtype(statement.result.type.prim)
        frame.variables[statement.result.name] = np.asarray(result, dtype)


def _invoke(frame: _Frame, statement: Invoke) -> None:
    callee = statement.kernel
    views = [_view(frame, address) for address in statement.buffers]
    buffers = {buffer.name: view for buffer, view in zip(callee.buffers, views, strict=True)}
    values = [_value(frame, scalar).item() for scalar in statement.scalars]
    scalars = {var.name: value for var, value in zip(callee.scalars, values, strict=True)}
    bounds = None
    if statement.bounds is not None:
        bounds = (int(_value(frame, statement.bounds[0])), int(_value(frame, statement.bounds[1])))
    outcome = run_kernel(callee, buffers, scalars, bounds=bounds, externals=frame.externals)
    for address in statement.buffers:
        _mark_stored(frame, address)
    if outcome.status is not Status.OK:
        origin = outcome.origin if outcome.origin >= 0 else statement.origin
        raise _FailedError(Outcome(outcome.status, outcome.position, origin))


def _run_tile_step(frame: _Frame, statement: TileStep) -> None:
    """One instruction on the frame's tile registers."""
    memory, stride = None, 0
    if statement.address is not None:
        memory = _view(frame, statement.address).view(np.uint8)
        _mark_stored(frame, statement.address)
    if statement.stride is not None and statement.address is not None:
        stride = int(_value(frame, statement.stride)) * statement.address.buffer.prim.size
    frame.tiles.run(statement.op, statement.tiles, memory, stride)


def _access_atomically(frame: _Frame, statement: Atomic) -> None:
    """One thread: an ordinary access."""
    start = int(_value(frame, statement.index))
    span = _span(frame, statement.buffer, start, 1, "accesses")
    memory = frame.buffers[statement.buffer.name]
    before = memory[span].copy().reshape(())
    if statement.value is not None:
        value = _value(frame, statement.value)
        memory[span] = before + value if statement.op is AtomicOp.ADD else value
        if statement.buffer.name in frame.stored:
            frame.stored[statement.buffer.name][span] = True
    if statement.result is not None:
        frame.variables[statement.result.name] = before
