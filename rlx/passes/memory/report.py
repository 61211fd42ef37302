"""The memory plan as text, for people."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.passes.memory.bodies import OUTSIDE
from rlx.passes.memory.plan import MemoryPlan, Slot
from rlx.passes.rewrite import is_leaf
from rlx.passes.views import view_of


def format_plan(plan: MemoryPlan) -> str:
    """Return the plan: totals and the lower bound, then one row per slot by offset.

    Columns are tab-separated: offset, size, first and last step, value. A body has
    rows of its own; `outside` of it are its operands and what it computes in their place.
    """
    ratio = plan.arena_bytes / plan.live_bytes if plan.live_bytes else 1.0
    unshared = sum(slot.size for slot in plan.slots.values() if slot.root is None)
    head = [
        f"# arena {plan.arena_bytes} bytes, {ratio:.3f} of the maximal live set "
        f"{plan.live_bytes}; resident {plan.resident_bytes - plan.header_bytes}; "
        f"saved {max(0, unshared - plan.arena_bytes)} of {unshared}",
        "# offset\tsize\tbirth\tdeath\tvalue",
    ]
    rows = [(slot, _describe(plan, value)) for value, slot in plan.slots.items()]
    rows += [(slot, f"scratch of {node.op.name}") for node, slot in plan.scratch.items()]
    rows.sort(key=lambda row: (row[0].offset, row[0].birth))
    bodies = [
        f"# body {inner.graph.name} of {node.results[0].label}\n{format_plan(inner)}"
        for node, inners in plan.bodies.items()
        for inner in inners
    ]
    stored = [_residuals(node) for node in plan.order if node.attrs.get("residuals")]
    return "\n".join([*head, *stored, *(_row(slot, text) for slot, text in rows), *bodies])


def _residuals(node: Node) -> str:
    """Return what a scan stores per step for a backward sweep; all else is computed again."""
    body: Graph = node.attribute("body")
    saved = body.outputs[-int(node.attribute("residuals")) :]
    stored = [_stored(value) for value in saved]
    listed = ", ".join(f"{_what(value)} {value.type}" for value in stored)
    size = sum(value.type.bytes for value in saved)
    others = {
        result
        for inner in body.nodes
        for result in inner.results
        if view_of(inner) is None and not is_leaf(inner)
    } - {*stored, *body.outputs}
    rest = sum(value.type.bytes for value in others)
    steps = node.attribute("length")
    return (
        f"# scan {node.results[0].label} stores {listed} per step for its backward sweep: "
        f"{steps} x {size} bytes\n# of {len(others)} other values of a step, {rest} bytes, "
        "the sweep computes again what it needs"
    )


def _stored(value: Value) -> Value:
    """Return what `value` is a copy of, if it is one."""
    while value.op is ops.expand and value.node.operands[0].type == value.type:
        value = value.node.operands[0]
    return value


def _what(value: Value) -> str:
    return f"{value.node.name!r}" if value.op is ops.input else value.op.name


def _row(slot: Slot, text: str) -> str:
    offset = "outside" if slot.offset >= OUTSIDE else slot.offset
    return f"{offset}\t{slot.size}\t{slot.birth}\t{slot.death}\t{text}"


def _describe(plan: MemoryPlan, value: Value) -> str:
    slot = plan.slots[value]
    name = f" {value.node.name!r}" if value.node.name else ""
    text = f"{value.label}: {value.type} = {value.op.name}{name}"
    if slot.root is not None:
        in_place = any(result == value.index for _, result in plan.in_place.get(value.node, ()))
        text += f" ({'in place of' if in_place else 'view of'} {slot.root.label})"
    return text + (" resident" if slot.resident else "")


MemoryPlan.__str__ = format_plan  # type: ignore[method-assign, assignment]  # what `print` shows
