"""Random numbers from PyTorch's generator, in the order of the graph."""

from __future__ import annotations

import torch

from rlx.torch.rules.random import Draw
from rlx.torch.types import torch_dtype


def by_torch(draw: Draw, shape: tuple[int, ...]) -> torch.Tensor:
    """Return a tensor with the numbers that eager mode draws."""
    given, dtype = draw.parameters, torch_dtype(draw.dtype)
    if draw.kind == "key":
        return torch.randint(0, 1 << 32, shape, dtype=torch.int64).to(torch.uint32)
    if draw.kind == "integers":
        return torch.randint(*given, shape, dtype=dtype)
    if draw.kind == "permutation":
        return torch.randperm(*given, dtype=dtype)
    if (draw.kind == "uniform" and given == (0.0, 1.0)) or draw.kind == "uniform_standard":
        return torch.rand(shape, dtype=dtype)
    if (draw.kind == "normal" and given == (0.0, 1.0)) or draw.kind == "normal_standard":
        return torch.randn(shape, dtype=dtype)
    return getattr(torch.empty(shape, dtype=dtype), f"{draw.kind}_")(*given)
