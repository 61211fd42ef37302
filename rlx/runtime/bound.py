"""Executables that read large inputs where they lie and write large results where they go.

See `codegen.bound`. An input is read in place if it is contiguous, else copied as usual. A
large result is an array over memory of its own, which is used again once nobody holds it:
fresh memory would cost a page fault for every 4 KiB, more than most kernels take to fill it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from rlx.codegen.bound import Region
from rlx.ir.graph import Graph, Value
from rlx.runtime.backend import NativeModule
from rlx.runtime.executable import Executable, Program
from rlx.runtime.signature import Array, checked, concrete

_ALIGNMENT = 64
_BLOCKS_KEPT = 2
"""Per result: `y = f(x)` in a loop holds the last result while the next is computed."""

_UNHELD = 2
"""References to memory that no array uses: its block's, and the argument of the count."""


class BoundExecutable(Executable):
    """Runs one compiled graph; copies small inputs and outputs only."""

    def __init__(
        self,
        graph: Graph,
        program: Program,
        native: NativeModule,
        *,
        regions: Sequence[Region],
        threads: int = 1,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        self._regions = tuple(regions)
        self._moved_inputs = {r.position: r for r in regions if r.is_input}
        outputs = program.plan.graph.outputs
        self._results = {
            r.position: ResultMemory(r, outputs[r.position]) for r in regions if not r.is_input
        }
        super().__init__(graph, program, native, threads=threads, params=params)

    def clone(self) -> BoundExecutable:
        return BoundExecutable(
            self._graph, self._program, self._native,
            regions=self._regions, threads=self._threads, params=self.params,
        )  # fmt: skip

    def try_arrays(self, values: tuple[Any, ...]) -> tuple[Array, ...] | None:
        layout = self._fixed
        assert layout is not None, "bound graphs have static extents"
        fits = len(values) == len(layout.inputs) and all(
            type(value) is ndarray and value.dtype is dtype and value.shape == shape
            for (_, dtype, shape, _), value in zip(layout.inputs, values, strict=True)
        )
        return self._execute(values) if fits else None

    def _execute(self, values: Sequence[Any]) -> tuple[Array, ...]:
        with self._lock:
            if self._needs_setup:
                self._setup()
            layout = self._fixed
            assert layout is not None, "bound graphs have static extents"
            held = []  # arrays made here must live until the run is over
            moves: dict[Region, int] = {}
            for position, ((write, _, _, argument), value) in enumerate(
                zip(layout.inputs, values, strict=True)
            ):
                array = checked(argument, value)
                region = self._moved_inputs.get(position)
                if region is not None and array.flags.c_contiguous and array.flags.aligned:
                    held.append(array)
                    moves[region] = address_of(array) - self.arena.address - region.start
                else:
                    write(..., array)
            blocks = {memory.region: memory.take() for memory in self._results.values()}
            for region, block in blocks.items():
                moves[region] = block.address - self.arena.address - region.start
            status = layout.enter(*[moves.get(region, 0) for region in self._regions])
            if status != 0:
                raise self._fault(status)
            del held
            return tuple(
                self._results[position].view(blocks) if position in self._results else copy()
                for position, copy in enumerate(layout.outputs)
            )

    def _run_entry(self) -> tuple[str, int]:
        return "run_at", len(self._regions)


@dataclass(frozen=True, slots=True)
class Block:
    """Memory for one result, from its first aligned address on."""

    memory: Array
    start: int
    address: int

    @classmethod
    def of(cls, size: int) -> Block:
        memory = np.empty(size + _ALIGNMENT, np.uint8)
        start = -address_of(memory) % _ALIGNMENT
        return cls(memory, start, address_of(memory) + start)


class ResultMemory:
    """The memory of one result, call after call."""

    def __init__(self, region: Region, value: Value) -> None:
        self.region = region
        self._shape: tuple[int, ...] = concrete(value.shape, {})
        self._dtype = value.dtype.numpy
        self._blocks: list[Block] = []

    def take(self) -> Block:
        """Return memory that no array uses."""
        for block in self._blocks:
            if sys.getrefcount(block.memory) == _UNHELD:
                return block
        block = Block.of(self.region.stop - self.region.start)
        self._blocks = [*self._blocks[1 - _BLOCKS_KEPT :], block]
        return block

    def view(self, blocks: Mapping[Region, Block]) -> Array:
        """Return the result in its block, which it keeps alive."""
        block = blocks[self.region]
        return ndarray(self._shape, self._dtype, block.memory, block.start)


def address_of(array: Array) -> int:
    """Return where the first element lies."""
    address: int = array.__array_interface__["data"][0]
    return address
