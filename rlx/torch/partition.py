"""Forward and backward graphs of a joint one, without values that no rule of ours reads."""

from __future__ import annotations

from typing import Any

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch.fx import GraphModule

_READS_RESULTS = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
_LIBRARY = torch.library.Library("rlx", "DEF")
_LIBRARY.define(
    "attention_backward(Tensor gradient, Tensor query, Tensor key, Tensor value, float dropout_p, "
    "bool is_causal, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor, Tensor, Tensor)"
)


def _attention_backward(
    gradient: Any, query: Any, key: Any, value: Any, dropout_p: float, is_causal: bool,
    *, attn_mask: Any = None, scale: float | None = None,
) -> Any:  # fmt: skip
    """What PyTorch's operator returns, without the results of the forward one, which it reads."""
    options = {"attn_mask": attn_mask, "scale": scale}
    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    results = forward(query, key, value, dropout_p, is_causal, **options)
    return _READS_RESULTS(gradient, query, key, value, *results, dropout_p, is_causal, **options)


_LIBRARY.impl("attention_backward", _attention_backward, "CompositeImplicitAutograd")


def partition(module: GraphModule, inputs: Any, **named: Any) -> tuple[GraphModule, GraphModule]:
    """Return both graphs; results of attention, which rules compute again, are not saved."""
    for node in module.graph.find_nodes(op="call_function", target=_READS_RESULTS):
        node.target = torch.ops.rlx.attention_backward.default
        node.args = (*node.args[:4], *node.args[6:])
    module.graph.eliminate_dead_code()
    module.recompile()
    # A view that is saved is a copy of what it is a view of, such as a weight's transpose.
    with torch._functorch.config.patch(recompute_views=True):
        found: tuple[GraphModule, GraphModule] = min_cut_rematerialization_partition(
            module, inputs, **named
        )
    return found
