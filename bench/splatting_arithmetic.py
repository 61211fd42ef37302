"""How much of the machine's arithmetic the inner loop of compositing uses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import rlx
from bench.splatting_scene import Array, scene
from rlx.codegen.loops.nodes import (
    Binary,
    BinaryOp,
    Block,
    Call,
    Expr,
    Fma,
    For,
    Function,
    Kernel,
    Unary,
)
from rlx.codegen.loops.visit import all_expressions, walk, walk_expression
from rlx.runtime.compile import choose_backend
from rlx.runtime.lower import lower_for
from rlx.runtime.peaks import measure_peaks
from rlx.runtime.profile import profile
from rlx.splat import ops as splat_ops
from rlx.splat import reference as stages
from rlx.splat.layout import Screen
from rlx.target import detect_target

TILE, LANES = 16, 8
_ARITHMETIC = {BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV}


def arithmetic(splats: int, size: int) -> str:
    """Draw all entries of all lists on one thread, and say what its loop over pixels reaches.

    Both the loop and the peak are measured in processor time, so that a busy machine shares its
    caches with them and nothing more.
    """
    arrays, target, backend = scene(splats), detect_target(), choose_backend("auto")
    graph = _graph(arrays, size)
    program = lower_for(graph, target)
    feeds = {f"x{i}": array for i, array in enumerate(arrays)}
    times = profile(
        graph, program, feeds, backend=backend, target=target, repeats=20,
        clock=time.CLOCK_THREAD_CPUTIME_ID,
    )  # fmt: skip
    timed = next(each for each in times.thunks if "splat_composite" in each.kernel)
    kernel = next(k for k in program.kernels.values() if k.name == timed.kernel)
    each = flops_of_lane(kernel)
    pixels = splat_pixels(arrays, size)
    rate = each * pixels / timed.best
    peak = measure_peaks(backend, target, time.thread_time).flops
    return (
        f"{splats:,} splats at {size} x {size}: {pixels:,} splat-pixels of {each} operations in "
        f"{1e3 * timed.best:.1f} ms of processor time: {rate / 1e9:.1f} of {peak / 1e9:.1f} "
        f"GFLOP/s, {100 * rate / peak:.0f} % ({timed.best / pixels * 1e9:.2f} ns each)"
    )


def _graph(arrays: list[Array], size: int) -> rlx.Graph:
    graph = rlx.Graph("splat")
    given = [graph.input(f"x{i}", a.shape, "f32") for i, a in enumerate(arrays)]
    image = splat_ops.gaussian_splat_render(
        *given, width=size, height=size, max_splat_steps=0, transmittance_threshold=0.0,
        max_list_entries=1 << 22,
    )  # fmt: skip
    graph.set_outputs([image])
    return graph


def flops_of_lane(kernel: Kernel) -> int:
    """Return the operations on floats of one pixel in the loop over the vectors of a row."""
    return sum(map(_flops, all_expressions(_innermost(kernel.body))))


def _innermost(block: Block) -> Block:
    """Return the body of the loop over vectors that blends: the longest without loops inside."""
    bodies = [loop.body for loop in walk(block) if isinstance(loop, For)]
    leaves = [body for body in bodies if not any(isinstance(s, For) for s in walk(body))]
    blending = [body for body in leaves if any(isinstance(e, Call) for e in _all(body))]
    return max(blending, key=lambda body: any("blended" in str(s) for s in walk(body)))


def _all(body: Block) -> Iterator[Expr]:
    for expression in all_expressions(body):
        yield from walk_expression(expression)


def _flops(expression: Expr) -> int:
    if isinstance(expression, Call):
        return _function_flops(expression.function)
    if not expression.type.prim.is_float:
        return 0
    if isinstance(expression, Fma):
        return 2
    counted = isinstance(expression, Binary) and expression.op in _ARITHMETIC
    return int(counted or isinstance(expression, Unary))


def _function_flops(function: Function) -> int:
    values = [*(let.value for let in function.lets), function.result]
    return sum(_flops(part) for value in values for part in walk_expression(value))


def splat_pixels(arrays: list[Array], size: int) -> int:
    """Return how many pixels, in whole vectors, all entries of all lists touch."""
    *given, meta = arrays
    of: Any = stages  # operands are a list
    screen = Screen(size, size, TILE)
    view: dict[str, Any] = {"width": size, "height": size}
    cutoff = {"alpha_cutoff": 1 / 255}
    *frame, outlines, distances = of.splat_project(
        *given, np.array([True]), meta, **view, **cutoff, radius_scale=1.6
    )
    numbers = of.splat_coefficients(*frame, given[2], meta, **view, **cutoff)
    total = 0
    for splat in np.flatnonzero(distances < 1e30):
        left, right, low, high = numbers[splat, 17:21].astype(int)
        tiles = stages.touched_tiles(outlines[splat], screen)
        x, y = tiles % screen.columns * TILE, tiles // screen.columns * TILE
        rows = np.minimum(high - y, TILE - 1) - np.maximum(low - y, 0) + 1
        first = np.maximum(left - x, 0) // LANES
        last = np.maximum(np.minimum(right - x, TILE - 1) + LANES, 0) // LANES
        total += int(np.sum(np.maximum(rows, 0) * np.maximum(last - first, 0))) * LANES
    return total
