"""Tables of 256 entries, read at bytes: a load for the byte, and one that the cache serves."""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.parallel import blocks
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.nodes import Prim
from rlx.ir.shape import product


@kernel("map_bytes")
def map_bytes(scope: Scope, x: Reader, table: Reader, y: Writer) -> None:
    k, flat = scope.k, (tuple(range(len(x.shape))),)
    source, entries, target = x.grouped(flat), table.grouped(((0,),)), y.grouped(flat)
    with (
        blocks(k, source.extent(0), product(x.shape)) as (start, stop),
        k.loop("i", stop, start=start) as i,
    ):
        byte = k.let("byte", source.read_real(i).cast(Prim.I64) & 255)
        target.write(i, value=entries.read(byte))
