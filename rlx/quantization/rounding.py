"""How the input and the weights of layers are rounded: the way that loses least."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import InputError
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.quantization.calibration import Activation
from rlx.quantization.histogram import SMALLEST_SCALE, Method, require_range
from rlx.quantization.report import Layer
from rlx.quantization.requirements import require_number
from rlx.quantization.sites import Scales, Site, along
from rlx.runtime.compile import compile

Array = NDArray[Any]
LONGEST_SUM = (2**31 - 1) // (255 * 127)
"""Products of an input by a weight that i32 can always add up."""
_LOPSIDED = 0.5
"""Share of the larger side of a range that the smaller one has where symmetric codes do."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The rounding that the caller chose."""

    method: Method
    percentile: float
    largest_error: float
    keep: Sequence[str]
    propagate_nonfinite: bool = True

    def __post_init__(self) -> None:
        require_range(self.method, self.percentile)
        share = "a share of the result's norm: 0.1, or 0 to keep all layers in floats"
        require_number("largest_error", self.largest_error, share)
        if not self.largest_error >= 0:
            raise InputError(f"largest_error is {self.largest_error}", remedy=f"give {share}")
        if not isinstance(self.propagate_nonfinite, bool):
            raise InputError(
                f"propagate_nonfinite is {self.propagate_nonfinite!r}",
                remedy="give True, or False where inputs are known to be finite",
            )
        if not (isinstance(self.keep, Iterable) and all(isinstance(n, str) for n in self.keep)):
            raise InputError(
                f"keep is {self.keep!r}", remedy="give names of weights, as the report has them"
            )


@dataclass(frozen=True, slots=True)
class Rounding:
    """What becomes of a layer, and how its input is rounded."""

    layer: Layer
    input: Steps
    propagates: bool
    """True if its result is NaN where its input holds NaN or infinities."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The scales of an input, one or one for each channel, and its zero point."""

    scales: Scales
    zero: int = 0


def roundings_of(
    sites: Sequence[Site], activation: Activation, weights: Sequence[Array], choice: Choice
) -> list[Rounding]:
    """Return how layers that read one input round it: in one way, that loses least over all."""
    _require_finite(weights)
    scale = activation.histogram.scale(choice.method, choice.percentile)
    candidates = [Steps(np.array([scale], np.float32))]
    if sites[0].inputs_axis is not None:
        axes = [site.inputs_axis for site in sites]
        candidates.append(_equalized(activation, _largest_of_inputs(weights, axes)))
    exact = [_result(site, activation.first, w) for site, w in zip(sites, weights, strict=True)]
    errors = [
        [
            _error(site, steps, activation.first, w, wanted)
            for site, w, wanted in zip(sites, weights, exact, strict=True)
        ]
        for steps in candidates
    ]
    totals = [float(np.sum(np.square(each))) for each in errors]
    best = int(np.argmin(np.nan_to_num(totals, nan=np.inf)))
    found = zip(sites, weights, errors[best], strict=True)
    steps = candidates[best]
    return [
        Rounding(
            _layer(site, steps, activation, w, error, choice), steps, choice.propagate_nonfinite
        )
        for site, w, error in found
    ]


def _layer(
    site: Site, steps: Steps, activation: Activation, w: Array, error: float, choice: Choice
) -> Layer:
    """Return what the report says of a layer."""
    reason = "kept" if site.weights in choice.keep else ""
    if not reason and not error <= choice.largest_error:
        reason = f"error above {choice.largest_error:.0%}"
    if activation.histogram.largest == 0:
        reason = "its input was always zero"
    if w.size // w.shape[site.outputs_axis] > LONGEST_SUM:
        reason = "its sums are beyond i32"
    kind, largest = site.node.op.name, float(steps.scales.max())
    return Layer(site.weights, kind, largest, error, w.nbytes, not reason, reason)


def _largest_of_inputs(weights: Sequence[Array], axes: Sequence[int | None]) -> Array:
    """Return the largest magnitude of the weights of each input channel."""
    each = []
    for w, axis in zip(weights, axes, strict=True):
        others = tuple(other for other in range(w.ndim) if other != axis)
        each.append(np.abs(w).max(axis=others, initial=0.0))
    found: Array = np.max(each, axis=0)
    return found


def _equalized(activation: Activation, weights: Array) -> Steps:
    """Return a scale for each input channel, by the root of what inputs and weights have there.

    Weights are multiplied by the same before they are rounded, so that channels of outliers do not
    set the scale of all. Xiao et al., SmoothQuant (2023). What is mostly of one sign gets a zero
    point, and so all 256 codes.
    """
    channels = np.maximum(activation.high, -activation.low)
    known = (weights > 0) & (channels > 0)
    ratio = np.sqrt(np.where(known, channels, 1.0) / np.where(known, weights, 1.0))
    low = float(np.where(known, activation.low / ratio, 0.0).min(initial=0.0))
    high = float(np.where(known, activation.high / ratio, 0.0).max(initial=0.0))
    lopsided = min(high, -low) < _LOPSIDED * max(high, -low)
    step = (high - low) / 255.0 if lopsided else max(high, -low) / 127.0
    scales = np.maximum(ratio * step, SMALLEST_SCALE).astype(np.float32)
    return Steps(scales, round(-128 - low / step) if lopsided else 0)


def _error(site: Site, steps: Steps, x: Array, w: Array, exact: Array) -> float:
    """Return how far the layer's result moves when input and weights are rounded."""
    scales, zero = steps.scales, steps.zero
    codes, factors = quantized_weights(site.scaled(w, scales), site.outputs_axis)
    step = along(scales, site.channels, x.ndim) if len(scales) > 1 else scales[0]
    centered = np.clip(_round_away(x / step) + zero, -128, 127) - zero
    rounded = _result(site, centered, codes)
    factors = along(factors, 1, x.ndim) if site.node.op is ops.conv else factors
    exact = exact.astype(np.float64)  # whose squares neither vanish nor overflow
    norm = float(np.linalg.norm(exact))
    return float(np.linalg.norm(rounded * factors - exact)) / norm if norm else 0.0


def _result(site: Site, x: Array, w: Array) -> Array:
    graph = Graph("layer")
    given = [np.asarray(array, np.float32) for array in (x, w)]
    inputs = [graph.input(name, a.shape, "f32") for name, a in zip("xw", given, strict=True)]
    graph.set_outputs(graph.append(site.node.op, inputs, site.node.attrs))
    return np.asarray(compile(graph).run(dict(zip("xw", given, strict=True)))[0])


def quantized_weights(w: Array, axis: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return codes and one scale for each index of `axis`: symmetric, without -128."""
    others = tuple(other for other in range(w.ndim) if other != axis)
    _require_finite([w])
    largest = np.abs(w).max(axis=others, initial=0.0)
    scales = np.where(largest > 0, largest / 127.0, 1.0).astype(np.float32)
    shape = [1] * w.ndim
    shape[axis] = -1
    codes = np.clip(_round_away(w / scales.reshape(shape)), -127, 127)
    return codes.astype(np.int8), scales


def _require_finite(weights: Sequence[Array]) -> None:
    if not all(np.isfinite(w).all() for w in weights):
        raise InputError("weights are not finite", remedy="quantize a network that was trained")


def _round_away(x: Array) -> Array:
    whole = np.trunc(x)
    rounded: Array = whole + np.where(np.abs(x - whole) >= 0.5, np.sign(x), 0.0)
    return rounded
