"""Forward and backward graphs of a joint one, without values that no rule of ours reads."""

from __future__ import annotations

from typing import Any

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch.fx import GraphModule, Node

from rlx.torch.registry import name_of

_UNREAD = {"_scaled_dot_product_flash_attention_for_cpu_backward": (4, 5)}
"""Operands that our rules compute again: the result of attention, and its logarithms of sums."""


def partition(module: GraphModule, inputs: Any, **named: Any) -> tuple[GraphModule, GraphModule]:
    """Return both graphs; what backward operators would not read is not saved for them."""
    for node in list(module.graph.nodes):
        places = _UNREAD.get(name_of(node.target)) if node.op == "call_function" else None
        if places is None:
            continue
        operand = node.args[1]
        assert isinstance(operand, Node)  # the operand of the forward operator
        for place in places:
            node.update_arg(place % len(node.args), operand)
    module.graph.eliminate_dead_code()
    module.recompile()
    # A view that is saved is a copy of what it is a view of, such as a weight's transpose.
    with torch._functorch.config.patch(recompute_views=True):
        found: tuple[GraphModule, GraphModule] = min_cut_rematerialization_partition(
            module, inputs, **named
        )
    return found
