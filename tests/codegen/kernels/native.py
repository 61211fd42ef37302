"""Running the kernels of single records through the native backends.

Many kernels share one module, because loading a module costs more than running it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.codegen.kernels import build_kernel, scratch_bytes
from rlx.codegen.kernels.build import WIDEST
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.nodes import Kernel, Module, Prim
from rlx.codegen.loops.visit import functions_of
from rlx.codegen.schedule import BufferRef, Phase, Thunk
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.shape import evaluate
from rlx.ir.types import TensorType
from rlx.target import Target

Array = NDArray[Any]
Bytes = NDArray[np.uint8]

ALIGNMENT = 64
GUARD = 0xA5
"""Memory that no kernel may touch holds this, and so do results before a run."""


@dataclass(frozen=True)
class Case:
    """One node to run as one kernel."""

    name: str
    thunk: Thunk
    kernel: Kernel
    entry: Kernel
    arena_bytes: int


def thunk_of(node: Node, in_place: bool = False) -> tuple[Thunk, int]:
    """Return the thunk of `node` with its values laid out one after the other, and their end."""
    place = ALIGNMENT

    def reserve(size: int) -> int:
        nonlocal place
        offset = place
        place += -(-size // ALIGNMENT) * ALIGNMENT + ALIGNMENT
        return offset

    def ref(value: Value) -> BufferRef:
        return BufferRef(reserve(value.type.bytes), value.type)

    operands = tuple(map(ref, node.operands))
    results = operands[:1] if in_place else tuple(map(ref, node.results))
    size = scratch_bytes(node)
    scratch = BufferRef(reserve(size), TensorType(DType.U8, (size,))) if size else None
    aliased = ((0, 0),) if in_place else ()
    attrs = node.attrs
    thunk = Thunk(
        node.op.name, attrs, operands, results, Phase.RUN, node, scratch, aliased, node.lowering
    )
    return thunk, place


def case_of(graph: Graph, name: str, *, in_place: bool = False, target: Target = WIDEST) -> Case:
    """Build the kernel of a graph's one node, and an entry that runs all of it."""
    (node,) = (node for node in graph.nodes if node.op.name not in ("input", "param"))
    thunk, size = thunk_of(node, in_place)
    kernel = build_kernel(thunk, f"kernel_{name}", target=target)
    k = KernelBuilder(f"run_{name}")
    arena = k.argument("arena", Prim.U8, writable=True, may_alias=True)
    scalars = [k.scalar(variable.name) for variable in kernel.scalars]
    refs = [*thunk.operands, *thunk.results, *([thunk.scratch] if thunk.scratch else [])]
    addresses = [
        k.address(arena, ref.offset, prim=buffer.prim, writable=buffer.writable)
        for ref, buffer in zip(refs, kernel.buffers, strict=True)
    ]
    k.invoke(kernel, addresses, scalars, origin=0)
    return Case(name, thunk, kernel, k.build(), size)


def module_of(cases: Sequence[Case]) -> Module:
    kernels = tuple(case.kernel for case in cases)
    entries = tuple(case.entry for case in cases)
    return Module("kernels", functions_of((*kernels, *entries)), kernels, entries)


def run_case(
    case: Case, address: int, feeds: Sequence[Array], extents: dict[str, int] | None = None
) -> tuple[int, list[Array]]:
    """Run a case on `feeds`; return its status and its results."""
    binding = extents or {}
    arena = arena_of(case, feeds)
    scalars = [ctypes.c_int64(binding[v.name]) for v in case.kernel.scalars]
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, *[ctypes.c_int64] * len(scalars))
    status = function(address)(arena.ctypes.data, *scalars)
    return status, results_of(case, arena, binding)


def arena_of(case: Case, feeds: Sequence[Array]) -> Bytes:
    """Return the memory that a case runs in, with its operands."""
    arena = _aligned(case.arena_bytes)
    arena[:] = GUARD
    for ref, array in zip(case.thunk.operands, feeds, strict=True):
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        arena[ref.offset : ref.offset + raw.size] = raw
    return arena


def results_of(case: Case, arena: Bytes, binding: Mapping[str, int]) -> list[Array]:
    """Return what a run left in the arena; fail if it wrote elsewhere than into its buffers."""
    results = []
    used = np.zeros(arena.size, bool)
    for ref in (*case.thunk.operands, *case.thunk.results):
        used[ref.offset : ref.offset + ref.type.bytes] = True
    if case.thunk.scratch is not None:
        scratch = case.thunk.scratch
        used[scratch.offset : scratch.offset + scratch.type.bytes] = True
    assert (arena[~used] == GUARD).all(), f"{case.name} writes outside its buffers"
    for ref in case.thunk.results:
        shape = tuple(evaluate(extent, binding) for extent in ref.type.stored_shape)
        size = int(np.prod(shape, dtype=np.int64)) * ref.type.dtype.size
        raw = arena[ref.offset : ref.offset + size].copy()
        results.append(raw.view(ref.type.dtype.numpy).reshape(shape))
    return results


def _aligned(size: int) -> Bytes:
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]
