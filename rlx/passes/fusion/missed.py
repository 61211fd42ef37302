"""Missed fusions and their reasons, from a second query of the final groups."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.ir.graph import Node
from rlx.ir.shape import Shape
from rlx.passes.fusion.claims import Claims
from rlx.passes.fusion.groups import Group
from rlx.passes.fusion.policy import is_fusable
from rlx.passes.fusion.reasons import MissedFusion, Obstacle, Reason


def missed_fusions(claims: Claims) -> Iterator[MissedFusion]:
    """Yield each value that is stored by one kernel and read by another, elementwise at an end.

    Two nodes of which neither is elementwise never join, and are no miss.
    """
    groups = claims.groups
    for producer, own in groups.group_of.items():
        for reader in groups.readers[producer]:
            joined = groups.group_of[reader] is own
            if not joined and (is_fusable(producer) or is_fusable(reader)):
                yield MissedFusion(producer, reader, _obstacle(claims, producer, reader))


def _obstacle(claims: Claims, producer: Node, reader: Node) -> Obstacle:
    """Return what keeps the two apart now that all claims are made."""
    before, after = claims.groups.group_of[producer], claims.groups.group_of[reader]
    first, second = _anchor(before, producer), _anchor(after, reader)
    if producer is first:
        found = _out_of_producer(claims, producer, reader, second)
    elif second is not None:
        found = _into(claims, producer, reader, second)
    else:
        found = claims.to_merge(after, producer, reader.results[0].shape)
    if found is None and first is not None and second is not None:
        return Reason.TWO_ANCHORS.because(first.op.name, second.op.name)
    return found or Reason.ORDER.because()


def _anchor(group: Group, node: Node) -> Node | None:
    """Return what the kernel of `node` is built around; None for elementwise work alone."""
    return group.anchor or (None if is_fusable(node) else node)


def _into(claims: Claims, producer: Node, reader: Node, anchor: Node) -> Obstacle | None:
    """Return what keeps `producer` out of the kernel around `anchor`, which reads it."""
    group = claims.groups.group_of[reader]
    is_before = reader.index <= anchor.index
    if reader is anchor and not claims.policy.takes_prologue(anchor):
        return Reason.STORED_OPERANDS.because(anchor.op.name)
    if is_before and claims.policy.takes_prologue(anchor):
        obstacle = claims.before_anchor(producer, group, anchor)
    else:
        obstacle = claims.inside_epilogue(producer, group, anchor)
    if obstacle is not None or claims.groups.group_of[producer].anchor is not None:
        return obstacle
    shape = anchor.operands[0].shape if is_before else _shape(anchor)
    return claims.to_merge(group, producer, shape)


def _out_of_producer(
    claims: Claims, anchor: Node, reader: Node, other: Node | None
) -> Obstacle | None:
    """Return what keeps `reader` out of the kernel of `anchor`, whose result it reads."""
    if claims.policy.folds_short_rows(anchor):
        return Reason.SHORT_ROWS.because(anchor.op.name)
    if not claims.policy.takes_epilogue(anchor):
        return Reason.STORED_RESULT.because(anchor.op.name)
    obstacle = claims.after_anchor(reader, anchor)
    if obstacle is not None or other is not None:
        return obstacle
    return claims.to_merge(claims.groups.group_of[anchor], reader, _shape(anchor))


def _shape(node: Node) -> Shape:
    return node.results[0].shape
