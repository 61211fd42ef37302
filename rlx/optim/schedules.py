"""Learning rates as functions of the step number, which counts from 0."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.optim.protocol import Schedule
from rlx.tracing.apply import function


def constant_schedule(value: float) -> Schedule:
    """The same value at every step."""
    return lambda _: value


def polynomial_schedule(
    init_value: float, end_value: float, power: float, transition_steps: int,
    transition_begin: int = 0,
) -> Schedule:  # fmt: skip
    """From one value to another in so many steps, along a power; constant around them."""
    if transition_steps <= 0:
        return constant_schedule(init_value)

    @function
    def rate(count: Any) -> Any:
        left = 1 - _progress(count, transition_steps, transition_begin)
        return (init_value - end_value) * _power(left, power) + end_value

    return rate


def _power(x: Any, exponent: float) -> Any:
    return x if exponent == 1 else rnp.power(x, exponent)


def linear_schedule(
    init_value: float, end_value: float, transition_steps: int, transition_begin: int = 0
) -> Schedule:
    """From one value to another in so many steps, then constant."""
    return polynomial_schedule(init_value, end_value, 1, transition_steps, transition_begin)


def cosine_decay_schedule(
    init_value: float, decay_steps: int, alpha: float = 0.0, exponent: float = 1.0
) -> Schedule:
    """From `init_value` down to `alpha * init_value` along half a cosine, then constant."""
    if decay_steps <= 0:
        raise InputError(
            f"a cosine decays in a positive number of steps, not in {decay_steps}",
            remedy="give more decay_steps; those of a warm-up are counted among them",
        )

    @function
    def rate(count: Any) -> Any:
        falling = 0.5 * (1 + rnp.cos(math.pi * _progress(count, decay_steps)))
        return init_value * ((1 - alpha) * _power(falling, exponent) + alpha)

    return rate


def exponential_decay(
    init_value: float, transition_steps: int, decay_rate: float, transition_begin: int = 0,
    staircase: bool = False, end_value: float | None = None,
) -> Schedule:  # fmt: skip
    """Times `decay_rate` every `transition_steps` steps, continuously or in a `staircase`."""
    if transition_steps <= 0 or decay_rate == 0:
        return constant_schedule(init_value)

    @function
    def rate(count: Any) -> Any:
        part = rnp.maximum(_number(count) - max(transition_begin, 0), 0) / transition_steps
        part = rnp.floor(part) if staircase else part
        value = init_value * rnp.exp2(math.log2(decay_rate) * part)
        if end_value is None:
            return value
        return (rnp.maximum if decay_rate < 1 else rnp.minimum)(value, end_value)

    return rate


def piecewise_constant_schedule(
    init_value: float, boundaries_and_scales: Mapping[int, float] | None = None
) -> Schedule:
    """Multiplied by each scale from its boundary on."""
    steps = sorted((boundaries_and_scales or {}).items())

    @function
    def rate(count: Any) -> Any:
        value: Any = rnp.float32(init_value)
        for boundary, scale in steps:
            value = rnp.where(rnp.greater_equal(count, boundary), value * scale, value)
        return value

    return rate


def piecewise_interpolate_schedule(
    interpolate_type: str,
    init_value: float,
    boundaries_and_scales: Mapping[int, float] | None = None,
) -> Schedule:
    """Between values at boundaries, each a scale times the one before, "linear" or "cosine"."""
    if interpolate_type not in ("linear", "cosine"):
        raise InputError(
            f"interpolate_type is {interpolate_type!r}", remedy="use 'linear' or 'cosine'"
        )
    steps = sorted((boundaries_and_scales or {}).items())
    places = [0, *(boundary for boundary, _ in steps)]
    values = list(
        itertools.accumulate((s for _, s in steps), lambda a, b: a * b, initial=init_value)
    )

    @function
    def rate(count: Any) -> Any:
        found: Any = rnp.float32(values[-1])
        for place in reversed(range(len(steps))):
            start, stop = places[place], places[place + 1]
            part = (_number(count) - start) / max(stop - start, 1)
            if interpolate_type == "cosine":
                part = (1 - rnp.cos(math.pi * part)) / 2
            value = values[place] + (values[place + 1] - values[place]) * part
            found = rnp.where(rnp.less(count, stop), value, found)
        return found

    return rate


def linear_onecycle_schedule(
    transition_steps: int, peak_value: float, pct_start: float = 0.3, pct_final: float = 0.85,
    div_factor: float = 25.0, final_div_factor: float = 1e4,
) -> Schedule:  # fmt: skip
    """Up to a peak, down again, and further down, in straight lines."""
    return piecewise_interpolate_schedule("linear", peak_value / div_factor, {
        int(pct_start * transition_steps): div_factor,
        int(pct_final * transition_steps): 1.0 / div_factor,
        transition_steps: 1.0 / final_div_factor,
    })  # fmt: skip


def cosine_onecycle_schedule(
    transition_steps: int, peak_value: float, pct_start: float = 0.3, div_factor: float = 25.0,
    final_div_factor: float = 1e4,
) -> Schedule:  # fmt: skip
    """Up to a peak and far down, along cosines."""
    return piecewise_interpolate_schedule("cosine", peak_value / div_factor, {
        int(pct_start * transition_steps): div_factor,
        transition_steps: 1.0 / (div_factor * final_div_factor),
    })  # fmt: skip


def warmup_constant_schedule(init_value: float, peak_value: float, warmup_steps: int) -> Schedule:
    """Linearly to a peak, then constant."""
    return linear_schedule(init_value, peak_value, warmup_steps)


def warmup_cosine_decay_schedule(
    init_value: float, peak_value: float, warmup_steps: int, decay_steps: int,
    end_value: float = 0.0, exponent: float = 1.0,
) -> Schedule:  # fmt: skip
    """Linearly to a peak, then along half a cosine to `end_value` at step `decay_steps`."""
    alpha = end_value / peak_value if peak_value else 0.0
    falling = cosine_decay_schedule(peak_value, decay_steps - warmup_steps, alpha, exponent)
    return join_schedules(
        [linear_schedule(init_value, peak_value, warmup_steps), falling], [warmup_steps]
    )


def warmup_exponential_decay_schedule(
    init_value: float, peak_value: float, warmup_steps: int, transition_steps: int,
    decay_rate: float, transition_begin: int = 0, staircase: bool = False,
    end_value: float | None = None,
) -> Schedule:  # fmt: skip
    """Linearly to a peak, then an `exponential_decay`."""
    falling = exponential_decay(
        peak_value, transition_steps, decay_rate, transition_begin, staircase, end_value
    )
    return join_schedules(
        [linear_schedule(init_value, peak_value, warmup_steps), falling], [warmup_steps]
    )


def sgdr_schedule(cosine_kwargs: Iterable[Mapping[str, Any]]) -> Schedule:
    """One `warmup_cosine_decay_schedule` after the other."""
    cycles = [dict(each) for each in cosine_kwargs]
    ends = list(itertools.accumulate(each["decay_steps"] for each in cycles))
    return join_schedules([warmup_cosine_decay_schedule(**each) for each in cycles], ends[:-1])


def join_schedules(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
    """Each schedule up to its boundary; the step number starts anew at each boundary."""

    @function
    def rate(step: Any) -> Any:
        current = schedules[0](step)
        for schedule, boundary in zip(schedules[1:], boundaries, strict=True):
            current = rnp.where(rnp.less(step, boundary), current, schedule(step - boundary))
        return current

    return rate


def _progress(step: Any, steps: int, begin: int = 0) -> Any:
    return rnp.clip((_number(step) - max(begin, 0)) / max(steps, 1), 0.0, 1.0)


def _number(step: Any) -> Any:
    return rnp.astype(step, "f32")
