"""Tensors of folders that GGUF files store in another form: renamed, split, or transposed.

Each is a view of the mapped array, or a few numbers of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
View: TypeAlias = Callable[[Array], Array]
Views: TypeAlias = Mapping[str, tuple[tuple[str, View], ...]]
"""By the name of a tensor in a layer: the tensors of a file, and how to get them of the array."""


def same(values: Array) -> Array:
    return values


def _of_every_second(first: int, *, turned: bool) -> View:
    """Return a view of every second column, `[experts, rows, columns]` turned to rows if asked."""

    def view(values: Array) -> Array:
        picked = values[..., first::2]
        return np.swapaxes(picked, 1, 2) if turned else picked

    return view


def _of_half(number: int) -> View:
    """Return a view of half of the columns, `[experts, rows, columns]` turned to rows."""

    def view(values: Array) -> Array:
        wide = values.shape[-1] // 2
        return np.swapaxes(values[..., number * wide : (number + 1) * wide], 1, 2)

    return view


def _turned(values: Array) -> Array:
    return np.swapaxes(values, 1, 2)


def without_middle_axis(values: Array) -> Array:
    """Return `[channels, taps]` of the kernel of a convolution of each channel alone."""
    return values[:, 0] if values.ndim == 3 and values.shape[1] == 1 else values


GPT_OSS: Views = {
    "self_attn.sinks": (("attn_sinks.weight", same),),
    "mlp.experts.gate_up_proj": (
        ("ffn_gate_exps.weight", _of_every_second(0, turned=True)),
        ("ffn_up_exps.weight", _of_every_second(1, turned=True)),
    ),
    "mlp.experts.gate_up_proj_bias": (
        ("ffn_gate_exps.bias", _of_every_second(0, turned=False)),
        ("ffn_up_exps.bias", _of_every_second(1, turned=False)),
    ),
    "mlp.experts.down_proj": (("ffn_down_exps.weight", _turned),),
    "mlp.experts.down_proj_bias": (("ffn_down_exps.bias", same),),
}
LLAMA4: Views = {
    "feed_forward.experts.gate_up_proj": (
        ("ffn_gate_exps.weight", _of_half(0)), ("ffn_up_exps.weight", _of_half(1))
    ),
    "feed_forward.experts.down_proj": (("ffn_down_exps.weight", _turned),),
}  # fmt: skip
DEEPSEEK: Views = {"mlp.gate.e_score_correction_bias": (("exp_probs_b.bias", same),)}
STATE_SPACE: Views = {
    f"{module}.{own}": ((name, view),)
    for module in ("mixer", "linear_attn", "mamba")
    for own, name, view in (
        ("A_log", "ssm_a", lambda values: -np.exp(values.astype(np.float32))),
        ("D", "ssm_d", same),
        ("dt_bias", "ssm_dt.bias", same),
        ("conv1d.weight", "ssm_conv1d.weight", without_middle_axis),
    )
}
LFM2: Views = {"conv.conv.weight": (("shortconv.conv.weight", without_middle_axis),)}
