"""Random layers over images: shapes, attributes and numbers by a seed.

case = random_case("conv", np.random.default_rng(0))
case.shapes, case.options
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Rng = np.random.Generator
Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class LayerCase:
    """The shapes of operands with channels in front, and options as `rlx.nn` has them."""

    axes: int
    shapes: tuple[tuple[int, ...], ...]
    options: dict[str, Any]


GENERATORS: dict[str, Callable[[Rng], LayerCase]] = {}


def generates(name: str) -> Callable[[Callable[[Rng], LayerCase]], Callable[[Rng], LayerCase]]:
    def register(made: Callable[[Rng], LayerCase]) -> Callable[[Rng], LayerCase]:
        GENERATORS[name] = made
        return made

    return register


def random_case(name: str, rng: Rng) -> LayerCase:
    return GENERATORS[name](rng)


def number(rng: Rng, low: int, high: int) -> int:
    """Return an integer, `high` included."""
    return int(rng.integers(low, high + 1))


def numbers(rng: Rng, count: int, low: int, high: int) -> tuple[int, ...]:
    return tuple(number(rng, low, high) for _ in range(count))


def pairs(rng: Rng, axes: int, most: int) -> Pairs:
    return tuple((number(rng, 0, most), number(rng, 0, most)) for _ in range(axes))


def least_extents(taps: tuple[int, ...], dilation: tuple[int, ...], padding: Pairs) -> list[int]:
    """Return the smallest extents that hold one window, and one element."""
    sides = zip(taps, dilation, padding, strict=True)
    return [max(1, (t - 1) * d + 1 - low - high) for t, d, (low, high) in sides]


@generates("conv")
def conv(rng: Rng) -> LayerCase:
    """Small windows with everything odd: padding beyond the window, strides beyond it, groups."""
    axes = number(rng, 1, 3)
    taps, dilation = numbers(rng, axes, 1, 4), numbers(rng, axes, 1, 3)
    padding = pairs(rng, axes, number(rng, 0, 5))
    groups = number(rng, 1, 4)
    inputs, outputs = numbers(rng, 2, 1, 5)
    extents = [e + number(rng, 0, 9) for e in least_extents(taps, dilation, padding)]
    return LayerCase(
        axes,
        (
            (number(rng, 0, 3), inputs * groups, *extents),
            (outputs * groups, inputs, *taps),
        ),
        {
            "strides": numbers(rng, axes, 1, 5),
            "padding": padding,
            "dilation": dilation,
            "groups": groups,
        },
    )


@generates("wide conv")
def wide_conv(rng: Rng) -> LayerCase:
    """Enough channels for tiles, panels and Winograd's transforms; often 3x3 with stride 1."""
    plain = rng.random() < 0.6
    taps = (3, 3) if plain else numbers(rng, 2, 1, 7)
    dilation = (number(rng, 1, 5),) * 2 if plain else numbers(rng, 2, 1, 2)
    padding = pairs(rng, 2, 5)
    extents = [e + number(rng, 0, 40) for e in least_extents(taps, dilation, padding)]
    inputs, outputs = numbers(rng, 2, 16, 70)
    return LayerCase(
        2,
        ((number(rng, 1, 2), inputs, *extents), (outputs, inputs, *taps)),
        {
            "strides": (1, 1) if plain else numbers(rng, 2, 1, 3),
            "padding": padding,
            "dilation": dilation,
            "groups": 1,
        },
    )


@generates("dilated conv")
def dilated_conv(rng: Rng) -> LayerCase:
    """3x3 over channels enough for Winograd's transforms, which interleave where taps are apart."""
    dilation, padding = numbers(rng, 2, 1, 6), pairs(rng, 2, 6)
    extents = [e + number(rng, 12, 40) for e in least_extents((3, 3), dilation, padding)]
    inputs, outputs = numbers(rng, 2, 64, 130)
    return LayerCase(
        2,
        ((number(rng, 1, 2), inputs, *extents), (outputs, inputs, 3, 3)),
        {"strides": (1, 1), "padding": padding, "dilation": dilation, "groups": 1},
    )


@generates("depthwise conv")
def depthwise_conv(rng: Rng) -> LayerCase:
    taps, dilation = numbers(rng, 2, 1, 5), numbers(rng, 2, 1, 2)
    padding = pairs(rng, 2, 4)
    extents = [e + number(rng, 0, 30) for e in least_extents(taps, dilation, padding)]
    channels, outputs = number(rng, 1, 70), number(rng, 1, 2)
    return LayerCase(
        2,
        ((number(rng, 1, 2), channels, *extents), (channels * outputs, 1, *taps)),
        {
            "strides": numbers(rng, 2, 1, 3),
            "padding": padding,
            "dilation": dilation,
            "groups": channels,
        },
    )


@generates("conv_transpose")
def conv_transpose(rng: Rng) -> LayerCase:
    """Sides are cut off alike, as PyTorch has it; some lengthened at the end."""
    axes = number(rng, 1, 3)
    taps, dilation = numbers(rng, axes, 1, 4), numbers(rng, axes, 1, 3)
    strides = numbers(rng, axes, 1, 4)
    groups = number(rng, 1, 3)
    inputs, outputs = numbers(rng, 2, 1, 9)
    extents = [number(rng, 1, 8) for _ in range(axes)]
    longer = [number(rng, 0, s - 1) for s in strides]
    spread = [
        (e - 1) * s + (t - 1) * d + 1
        for e, s, t, d in zip(extents, strides, taps, dilation, strict=True)
    ]
    cut = [
        number(rng, 0, (whole + more - 1) // 2) for whole, more in zip(spread, longer, strict=True)
    ]
    return LayerCase(
        axes,
        (
            (number(rng, 1, 3), inputs * groups, *extents),
            (inputs * groups, outputs, *taps),
        ),
        {
            "strides": strides,
            "padding": tuple((side, side) for side in cut),
            "output_padding": tuple(longer),
            "dilation": dilation,
            "groups": groups,
        },
    )


def pool_case(rng: Rng, *, dilated: bool) -> LayerCase:
    """PyTorch has dilation where it takes the largest, and means of no image below a window."""
    axes = number(rng, 1, 3)
    window = numbers(rng, axes, 1, 4)
    dilation = numbers(rng, axes, 1, 3) if dilated else (1,) * axes
    sides = [number(rng, 0, taps // 2) for taps in window]
    padding = tuple((side, side) for side in sides)
    least = least_extents(window, dilation, padding if dilated else ((0, 0),) * axes)
    extents = [e + number(rng, 0, 9) for e in least]
    return LayerCase(
        axes,
        ((number(rng, 0, 3), number(rng, 1, 20), *extents),),
        {
            "window_shape": window,
            "strides": numbers(rng, axes, 1, 5),
            "padding": padding,
            "dilation": dilation,
            "ceil_mode": bool(rng.integers(2)),
        },
    )


@generates("max_pool")
def max_pool(rng: Rng) -> LayerCase:
    return pool_case(rng, dilated=True)


@generates("avg_pool")
def avg_pool(rng: Rng) -> LayerCase:
    case = pool_case(rng, dilated=False)
    counted = bool(rng.integers(2))
    return LayerCase(case.axes, case.shapes, {**case.options, "count_include_pad": counted})
