"""Learning rates as functions of the step number, which counts from 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rlx.numpy as rnp
from rlx.optim.optimizer import Schedule
from rlx.tracing.apply import function


def constant(rate: float) -> Schedule:
    """The same rate at every step."""
    return lambda _: rate


def linear(start: float, end: float, steps: int) -> Schedule:
    """From `start` to `end` in `steps` steps, then constant."""

    @function
    def rate(step: Any) -> Any:
        return start + (end - start) * _progress(step, steps)

    return rate


def cosine_decay(start: float, steps: int, alpha: float = 0.0) -> Schedule:
    """From `start` down to `alpha * start` along half a cosine, then constant."""

    @function
    def rate(step: Any) -> Any:
        falling = 0.5 * (1 + rnp.cos(math.pi * _progress(step, steps)))
        return start * ((1 - alpha) * falling + alpha)

    return rate


def exponential_decay(start: float, steps: int, factor: float) -> Schedule:
    """Times `factor` every `steps` steps, continuously."""

    @function
    def rate(step: Any) -> Any:
        return start * rnp.exp2(math.log2(factor) * (_number(step) / steps))

    return rate


def warmup_cosine(peak: float, warmup_steps: int, steps: int, end: float = 0.0) -> Schedule:
    """Linearly from 0 to `peak`, then along half a cosine to `end` at step `steps`."""
    falling = cosine_decay(peak, steps - warmup_steps, end / peak)
    return join([linear(0.0, peak, warmup_steps), falling], [warmup_steps])


def join(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
    """Each schedule up to its boundary; the step number starts anew at each boundary."""

    @function
    def rate(step: Any) -> Any:
        current = schedules[0](step)
        for schedule, boundary in zip(schedules[1:], boundaries, strict=True):
            current = rnp.where(step < boundary, current, schedule(step - boundary))
        return current

    return rate


def _progress(step: Any, steps: int) -> Any:
    return rnp.clip(_number(step) / max(steps, 1), 0.0, 1.0)


def _number(step: Any) -> Any:
    return rnp.astype(step, "f32")
