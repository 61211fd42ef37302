"""Which operators PyTorch takes apart before the rules see them: those that have no rule."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._higher_order_ops.flex_attention import flex_attention, math_attention
from torch.fx import GraphModule

from rlx.torch import rules as rules  # fills the table
from rlx.torch.foreach import foreach_decompositions
from rlx.torch.registry import entry_of

_Table = dict[Any, Callable[..., Any]]


@functools.cache
def decompositions() -> _Table:
    """Return PyTorch's decompositions of what has no rule."""
    table: _Table = foreach_decompositions()
    for op, apply in {**_further(), **dict(core_aten_decompositions())}.items():
        if entry_of(op) is None:
            table[op] = apply
    return table


def write_out_flex_attention(module: GraphModule) -> None:
    """Replace calls of `flex_attention` by the operators that its eager mode applies."""
    for part in module.modules():
        if isinstance(part, GraphModule):
            calls = part.graph.find_nodes(op="call_function", target=flex_attention)
            for node in calls:
                node.target = math_attention
            if calls:
                part.recompile()


def _further() -> _Table:
    """Return decompositions beyond those of PyTorch's core set."""
    return {
        op: apply
        for op, apply in decomposition_table.items()
        if isinstance(op, torch._ops.OpOverload) and not op._schema.is_mutable
    }
