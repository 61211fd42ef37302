"""Kernel dispatch: choice between an op's own kernel and its decomposition.

    %1: f32[1, 2, 4, 4] = resize_nearest_2x %0   ->  %1 = reshape %0, %2 = expand %1, ...

A backend that lacks a kernel takes the body, if it has kernels for what that is made of. Forcing
bodies, by `KernelDispatch` or `RLX_KERNEL_DISPATCH=common`, checks either against the other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from enum import Enum
from typing import Any

from rlx.dataclass import dataclass
from rlx.errors import UnsupportedError
from rlx.ir import ops
from rlx.ir.graph import Graph, Node
from rlx.ir.op import OPS, OpDef
from rlx.passes.rewrite import GraphPass, Replacement, Rewritten, apply_rewrites, rewrite


class Policy(Enum):
    """What is used where a backend has both."""

    PREFER_NATIVE = "prefer_native"
    FORCE_COMMON = "force_common"
    FORCE_NATIVE = "force_native"


Body = Callable[..., Any]


def _formula(definition: OpDef) -> Body:
    if definition.decompose is None:
        raise UnsupportedError(
            f"{definition.name} has no formula", remedy="run it by its kernel: force_native"
        )
    return definition.decompose


LOGICAL: dict[OpDef, Body] = {
    ops.group_norm: _formula(ops.group_norm),
    ops.resize_nearest_2x: _formula(ops.resize_nearest_2x),
}
"""Op -> its body of other ops; packages of ops add theirs (`custom.define_composite`)."""

_SPELLINGS = {
    **dict.fromkeys(("common", "force_common", "ForceCommon"), Policy.FORCE_COMMON),
    **dict.fromkeys(("native", "force_native", "ForceNative"), Policy.FORCE_NATIVE),
}


@dataclass(frozen=True, slots=True)
class KernelDispatch:
    """A policy, and the names of ops that it does not decide on."""

    policy: Policy = Policy.PREFER_NATIVE
    force_native_kinds: frozenset[str] = frozenset()
    force_common_kinds: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in sorted(self.force_native_kinds | self.force_common_kinds):
            if name not in OPS:
                raise UnsupportedError(
                    f"there is no op {name!r} to choose a kernel for",
                    remedy=f"ops with two bodies: {', '.join(d.name for d in LOGICAL)}",
                )

    @classmethod
    def from_environment(cls) -> KernelDispatch:
        """Return what `RLX_KERNEL_DISPATCH` asks for; what it does not know changes nothing."""
        named = os.environ.get("RLX_KERNEL_DISPATCH") or os.environ.get("KERNEL_DISPATCH") or ""
        return cls(_SPELLINGS.get(named, Policy.PREFER_NATIVE))

    def takes_body(self, definition: OpDef, supported: Collection[str] = ()) -> bool:
        """Return whether an op becomes its body on a backend with kernels for `supported`.

        An empty list means that the backend is unknown.
        """
        if definition not in LOGICAL or definition.name in self.force_native_kinds:
            return False
        if definition.name in self.force_common_kinds or self.policy is Policy.FORCE_COMMON:
            return True
        lacks = bool(supported) and definition.name not in supported
        return self.policy is Policy.PREFER_NATIVE and lacks


def use_common_bodies(dispatch: KernelDispatch, supported: Collection[str] = ()) -> GraphPass:
    """Return the pass that replaces ops by their second bodies as `dispatch` says."""
    taken = [definition for definition in LOGICAL if dispatch.takes_body(definition, supported)]

    def run(graph: Graph) -> Rewritten:
        return apply_rewrites(graph, [rewrite(*taken)(_body)] if taken else [])

    return GraphPass("use-common-bodies", run, __doc__ or "")


def _body(node: Node) -> Replacement:
    replaced: Replacement = LOGICAL[node.op](*node.operands, **node.attrs.as_dict())
    return replaced
