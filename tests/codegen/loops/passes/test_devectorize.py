"""Vectors as their lanes."""

from __future__ import annotations

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import const, shuffle
from rlx.codegen.loops.nodes import BinaryOp, Buffer, Prim
from rlx.codegen.loops.passes.devectorize import devectorize
from tests.codegen.loops.passes.cases import after


@after(devectorize).gives("""
    for i in 0 .. 4 step 2:
      let lane: i64 = i * 2
      let lane_2: f64 = x[0]
      let value.0: f64 = x[lane] * lane_2
      let value.1: f64 = x[lane + 1] * lane_2
      y[i] = value.0
      y[i + 1] = value.1
""")
def test_lanes_become_scalars_and_share_what_they_read(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    with k.loop("i", 4, step=2) as i:
        value = k.let("value", k.load(x, i * 2, 2) * k.load(x, 0).splat(2))
        k.store(y, i, value)


@after(devectorize).gives("""
    var total.0: f64 = 0.0
    var total.1: f64 = 0.0
    var total.2: f64 = 0.0
    var total.3: f64 = 0.0
    for i in 0 .. 8 step 4:
      let lane: f64 = total.3 + x[i]
      let lane_2: f64 = total.2 + x[i + 1]
      let lane_3: f64 = total.1 + x[i + 2]
      let lane_4: f64 = total.0 + x[i + 3]
      total.0 = lane
      total.1 = lane_2
      total.2 = lane_3
      total.3 = lane_4
    let lane_5: f64 = total.0 + total.2
    let lane_6: f64 = total.1 + total.3
    let lane_7: f64 = lane_5 + lane_6
    y[0] = lane_7 + total.2
""")
def test_folds_keep_their_order_and_lanes_are_read_before_any_is_written(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    total = k.mutable("total", const(0.0, Prim.F64, 4))
    with k.loop("i", 8, step=4) as i:
        loaded = k.load(x, i, 4)
        total.set(shuffle(total, total, (3, 2, 1, 0)) + loaded)
    k.store(y, 0, total.fold(BinaryOp.ADD) + total.lane(2))


@after(devectorize).changes_nothing()
def test_kernels_of_scalars_stay(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    with k.loop("i", 4) as i:
        k.store(y, i, k.load(x, i))
