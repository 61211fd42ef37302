"""Cost model of schedules: the cycles of a contraction's tiles, and of packing its operands.

`rlx inspect --why` prints what the alternatives of a choice would cost, and `rlx tune` measures the
cheapest of them first. Caches and threads are not modelled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Node
from rlx.ir.lowering import Schedule, Winograd
from rlx.ir.ops.conv_geometry import Planes
from rlx.ir.shape import product, upper
from rlx.passes.layout.choices import Choice
from rlx.passes.layout.convolution_tiles import (
    FEWEST_LANES,
    Vectors,
    cycles_of_step,
    has_channels_last,
    most_rows,
    tiles_that_fit,
)
from rlx.passes.layout.pack_operands import Product
from rlx.passes.layout.prepared import is_prepared
from rlx.passes.layout.tile_channels_last import is_depthwise, planes_of_images, transformed
from rlx.passes.layout.tile_channels_last import with_loops as channels_last_loops
from rlx.passes.layout.tile_convolutions import planes_of_convolution
from rlx.passes.layout.tile_convolutions import with_loops as convolution_with_loops
from rlx.target import Target

_PACK = 0.25
"""Cycles in which a byte is packed: read, written, and read again."""

_PLAIN = 1.5
"""Cycles of a vector of products in plain loops, whose sums are in memory."""

_MOST_VECTORS = 8


@dataclass(frozen=True, slots=True)
class Work:
    """The extents of a contraction, at most, as tiles cover them."""

    node: Node
    target: Target
    batch: int
    down: int
    across: int
    columns: int
    steps: int
    size: int
    packed_bytes: int
    """Bytes that are packed at every call, if the right operand is."""
    planes: Planes | None = None
    """Of a convolution."""

    @classmethod
    def of(cls, node: Node, target: Target) -> Work | None:
        """Return the extents of a contraction of floats that tiles may compute, or None."""
        x, w = node.operands[0], node.operands[-1]
        if x.dtype not in (DType.F32, DType.F64) or target.lanes(x.dtype.size) < FEWEST_LANES:
            return None
        packed = 0 if is_prepared(w) else upper(product(w.shape)) * w.dtype.size
        if node.op is ops.matmul:
            found = Product.of(node).matrices
            extents = (found.batch, found.height, 1, found.columns, found.inner, found.size)
            return cls(node, target, *extents, packed)
        if node.op is ops.conv:
            planes, outputs = planes_of_convolution(node), w.shape[0]
        elif has_channels_last(node) and not is_depthwise(node):
            planes, outputs = planes_of_images(node), w.shape[-1]
        else:
            return None
        layers, down, across = map(upper, planes.positions)
        groups, taps = node.attribute("groups"), upper(product(planes.taps))
        return cls(
            node,
            target,
            upper(x.shape[0]) * groups * layers,
            down,
            across,
            upper(outputs) // groups,
            planes.channels * taps,
            x.dtype.size,
            packed,
            planes,
        )

    @property
    def vectors(self) -> Vectors:
        return Vectors.of(self.target, self.size)

    @property
    def plain_cycles(self) -> float:
        """The cycles of the loops without tiles."""
        products = self.batch * self.down * self.across * self.columns * self.steps
        return _PLAIN * products / self.vectors.lanes

    def cycles(self, schedule: Schedule) -> float:
        """Return the cycles of a schedule's tiles, and of packing."""
        down, across = -(-self.down // schedule.rows), -(-self.across // schedule.across)
        tiles = self.batch * down * across * -(-self.columns // schedule.columns)
        rows, vectors = schedule.rows * schedule.across, schedule.columns // schedule.lanes
        step = cycles_of_step(rows, vectors, self.vectors.units)
        packing = _PACK * self.packed_bytes if schedule.right == "panels" else 0.0
        return tiles * self.steps * step + packing

    def candidates(self) -> list[Schedule]:
        """Return schedules of all tiles that fit the registers, the cheapest first."""
        found = dict.fromkeys(map(self.completed, self._tiles()))
        return sorted(found, key=self.cycles)

    def _tiles(self) -> Iterator[Schedule]:
        vectors = self.vectors
        if self.planes is not None:
            lanes = vectors.lanes
            while lanes >= 2 * self.columns:
                lanes //= 2
            extents = (self.down, self.across, self.columns)
            yield from tiles_that_fit(*extents, lanes, vectors.registers)
            return
        transposed = Product.of(self.node).transposed[1]
        most = min(_MOST_VECTORS, -(-self.columns // vectors.lanes))
        for across in range(1, most + 1):
            columns = across * vectors.lanes
            for rows in range(1, min(self.down, most_rows(across, vectors.registers)) + 1):
                tile = Schedule(rows, columns, vectors.lanes)
                yield tile
                if columns <= self.columns and not transposed:
                    yield replace(tile, right="in_place")

    def completed(self, tile: Schedule) -> Schedule:
        """Return a schedule with the loops that it leaves open."""
        if self.planes is None:
            return Product.of(self.node).completed(tile)
        if self.node.op is ops.conv:
            return convolution_with_loops(self.node, tile)
        return channels_last_loops(self.node, tile)

    def variants(self, schedule: Schedule) -> list[Schedule]:
        """Return schedules with the same tile, and other loops around it."""
        panels = -(-self.columns // schedule.columns)
        found = [replace(schedule, prefetch=ahead) for ahead in (0, 8, 24)]
        groups = {max(1, schedule.groups // 2), min(panels, 2 * schedule.groups)}
        found += [replace(schedule, groups=n) for n in groups]
        strips = -(-self.down // schedule.rows)
        blocks = {max(1, schedule.blocks // 2), min(strips, 2 * schedule.blocks)}
        found += [replace(schedule, blocks=n) for n in blocks]
        if schedule.left != "registers" and not schedule.depth and self.planes is None:
            copied = schedule.left == "copied"
            found.append(replace(schedule, left="in_place" if copied else "copied"))
        found.append(replace(schedule, order=(schedule.order[0], *schedule.order[:0:-1])))
        return [each for each in dict.fromkeys(found) if each != schedule]


def alternatives(node: Node, choice: Choice, target: Target) -> str:
    """Return the estimated cycles of ways to compute a contraction; nothing for other nodes."""
    work = Work.of(node, target) if node.op in CONTRACTIONS else None
    if work is None:
        return ""
    costs: dict[str, float] = {}
    if isinstance(choice.lowering, Schedule) and choice.lowering.library == "none":
        costs["this schedule"] = work.cycles(choice.lowering)
    for tile in work.candidates():
        packed = " in place" if tile.right == "in_place" else ""
        across = f" by {tile.across}" if work.planes is not None else ""
        name = f"tiles of {tile.rows}{across} rows and {tile.columns} columns{packed}"
        same = any(
            other.endswith(" in place") == bool(packed) for other in costs if "tiles" in other
        )
        if not same and tile != choice.lowering:
            costs[name] = work.cycles(tile)
    found = transformed(node, target) if has_channels_last(node) else None
    if found is not None:
        name = "this schedule" if isinstance(choice.lowering, Winograd) else "Winograd's transforms"
        costs[name] = min(map(work.cycles, work.candidates())) - found.saved
    costs["plain loops" if choice.lowering else "these plain loops"] = work.plain_cycles
    listed = (f"{name} {_thousands(cycles)}" for name, cycles in costs.items())
    return f"thousands of cycles: {', '.join(listed)}"


CONTRACTIONS = (ops.matmul, ops.conv, ops.stored_conv)
"""What schedules are given for, and tuned."""


def _thousands(cycles: float) -> str:
    return f"{cycles / 1000:.3g}" if cycles < 1e6 else f"{cycles / 1000:.0f}"
