"""Phase decomposition of transposed convolutions: one dense convolution per phase of the result.

Between the elements of a dilated input are zeros: gradients by the input, and transposed
convolutions, would spend most of their products on them. Results that are a dilation apart read
the same taps, those that fall on elements, and nothing else:

    y[s * q + r] = sum over taps t with (r + t * dilation - low) divisible by s of
                   w[t] * x[q + (r + t * dilation - low) / s]

So each of the `s` phases `r` is a plain convolution with some of the taps; phases that no tap
reaches are zeros. Where all phases read the same elements, as for windows side by side, one
convolution has them as output channels. The results are interleaved at the end. Requires nothing;
run it before kernels are chosen.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.ops.conv_geometry import (
    Geometry,
    Numbers,
    WindowDimension,
    attributes_of,
    geometry,
    result_extents,
    static,
)
from rlx.ir.shape import Extent
from rlx.passes.algebra import zeros
from rlx.passes.rewrite import Rewritten, apply_rewrites, graph_pass, rewrite

_FEW_PHASES = 4
"""Phases that are faster one by one than with results that are cut off: measured."""


@graph_pass
def split_phases(graph: Graph) -> Rewritten:
    """Compute convolutions of spread inputs phase by phase."""
    return apply_rewrites(graph, [_by_phase])


@rewrite(ops.conv)
def _by_phase(node: Node) -> Value | None:
    x, w = node.operands
    attributes = node.attrs.as_dict()
    groups = attributes.pop("groups")
    sliding = geometry(x.rank - 2, **attributes)
    steps = tuple(axis.input_dilation for axis in sliding)
    has_both = any(axis.input_dilation > 1 and axis.stride > 1 for axis in sliding)
    known = all(isinstance(extent, int) for extent in (*x.shape[2:], *w.shape))
    if max(steps) == 1 or has_both or not known or 0 in x.shape:
        return None
    positions = tuple(map(static, result_extents(x.shape[2:], w.shape[2:], sliding)))
    first = tuple(-(axis.low + 1) % axis.input_dilation for axis in sliding)
    pays = not any(first) or math.prod(steps) > _FEW_PHASES
    if pays and 0 not in w.shape and all(map(_has_as_many_taps, w.shape[2:], sliding)):
        return _in_one(x, w, first, positions, sliding, groups)
    rows = tuple(-(-extent // step) for extent, step in zip(positions, steps, strict=True))
    parts = [
        _part(x, w, _phases(phase, rows, x, w, sliding), rows, groups)
        for phase in itertools.product(*map(range, steps))
    ]
    images, channels, *_ = parts[0].shape
    stacked = ops.concat(
        *(ops.reshape(part, shape=(images, channels, 1, *rows)) for part in parts), axis=2
    )
    apart = ops.reshape(stacked, shape=(images, channels, *steps, *rows))
    return _interleaved(apart, steps, (0,) * len(rows), positions)


def _has_as_many_taps(taps: Extent, axis: WindowDimension) -> bool:
    """True if each phase has as many taps as the others."""
    step = axis.input_dilation
    return step == 1 or (axis.dilation == 1 and static(taps) % step == 0)


def _in_one(
    x: Value, w: Value, first: Numbers, positions: Numbers, sliding: Geometry, groups: int
) -> Value:
    """Compute all phases by one convolution.

    They read the same elements once `first` more results are computed in front.
    """
    steps = tuple(axis.input_dilation for axis in sliding)
    longer = tuple(
        replace(axis, low=axis.low + more) for axis, more in zip(sliding, first, strict=True)
    )
    ends = zip(first, positions, steps, strict=True)
    rows = tuple(-(-(more + extent) // step) for more, extent, step in ends)
    return _interleaved(_all_phases(x, w, rows, longer, groups), steps, first, positions)


def _all_phases(x: Value, w: Value, rows: Numbers, sliding: Geometry, groups: int) -> Value:
    """Return the results of all phases, with an axis of phases for each spatial axis.

    The phase `r` reads the taps that are congruent to `-1 - r`.
    """
    axes, (out, channels, *taps) = range(len(rows)), map(static, w.shape)
    steps = [axis.input_dilation for axis in sliding]
    counts = [count // step for count, step in zip(taps, steps, strict=True)]
    pairs = itertools.chain.from_iterable(zip(counts, steps, strict=True))
    by_step = ops.reshape(w, shape=(out, channels, *pairs))
    by_phase = ops.reverse(by_step, axes=tuple(3 + 2 * axis for axis in axes))
    order = (0, *(3 + 2 * axis for axis in axes), 1, *(2 + 2 * axis for axis in axes))
    weights = ops.transpose(by_phase, perm=order)
    weights = ops.reshape(weights, shape=(out * math.prod(steps), channels, *counts))
    alike = tuple(each.sliding for each in _phases((0,) * len(rows), rows, x, w, sliding))
    y = ops.conv(x, weights, **attributes_of(alike), groups=groups)
    return ops.reshape(y, shape=(x.shape[0], out, *steps, *rows))


@dataclass(frozen=True, slots=True)
class _Phase:
    """What one axis of one phase is: which taps, and how they slide over the elements."""

    first: int
    step: int
    count: int
    """Taps; 0 if none falls on an element."""
    sliding: WindowDimension


def _phases(
    phase: Numbers, rows: Numbers, x: Value, w: Value, sliding: Geometry
) -> tuple[_Phase, ...]:
    extents = zip(phase, rows, x.shape[2:], w.shape[2:], sliding, strict=True)
    return tuple(_phase(r, n, static(extent), static(k), s) for r, n, extent, k, s in extents)


def _phase(phase: int, rows: int, extent: int, taps: int, axis: WindowDimension) -> _Phase:
    apart = axis.input_dilation
    if apart == 1:
        return _Phase(0, 1, taps, axis)
    hits = [t for t in range(taps) if (phase + t * axis.dilation - axis.low) % apart == 0]
    if not hits:
        return _Phase(0, 1, 0, axis)
    step = hits[1] - hits[0] if len(hits) > 1 else 1
    dilation = max(1, step * axis.dilation // apart)
    low = (axis.low - phase - hits[0] * axis.dilation) // apart
    high = rows + (len(hits) - 1) * dilation - extent - low
    return _Phase(hits[0], step, len(hits), WindowDimension(1, low, high, dilation))


def _part(x: Value, w: Value, phases: tuple[_Phase, ...], rows: Numbers, groups: int) -> Value:
    """Return the result of one phase."""
    shape = (x.shape[0], w.shape[0], *rows)
    if any(phase.count == 0 for phase in phases):
        return zeros(x.graph, x.type.with_shape(shape))
    start = (0, 0, *(phase.first for phase in phases))
    stop = (*w.shape[:2], *(p.first + (p.count - 1) * p.step + 1 for p in phases))
    taps = ops.slice(w, start=start, stop=stop, step=(1, 1, *(phase.step for phase in phases)))
    sliding = tuple(phase.sliding for phase in phases)
    return ops.conv(x, taps, **attributes_of(sliding), groups=groups)


def _interleaved(apart: Value, steps: Numbers, first: Numbers, positions: Numbers) -> Value:
    """Return `positions` results from `first` on of phases `[N, C, *steps, *rows]`."""
    images, channels, *rest = apart.shape
    axes = len(steps)
    rows = rest[axes:]
    pairs = ((2 + axes + axis, 2 + axis) for axis in range(axes))
    order = (0, 1, *itertools.chain.from_iterable(pairs))
    extents = [row * step for row, step in zip(rows, steps, strict=True)]
    whole = ops.reshape(ops.transpose(apart, perm=order), shape=(images, channels, *extents))
    for axis, (start, extent) in enumerate(zip(first, positions, strict=True), start=2):
        if whole.shape[axis] != extent:
            whole = ops.narrow(whole, axis=axis, start=start, length=extent)
    result: Value = whole
    return result
