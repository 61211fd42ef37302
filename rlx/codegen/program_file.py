"""Program files: a legal graph with its memory plan, from which the rest follows.

    rlx-program 1 <bytes of graph> <bytes of plan> <SHA-256 of both>
    <a graph file, see rlx.ir.serialize>
    <the plan as JSON: offsets and lifetimes by node number>

Schedule, kernels and module are functions of graph and plan, so that they are made again on
loading and cannot contradict them. Nothing in a file is executed. A damaged file, or a plan in
which live values overlap, is a FormatError.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from rlx.codegen.kernels.build import scratch_bytes
from rlx.codegen.lower.graph import Program, program_of
from rlx.errors import FormatError, RlxError
from rlx.ir import serialize
from rlx.ir.graph import Graph, Node, Value
from rlx.limits import LoadLimits, loading
from rlx.passes.memory.check import plan_faults
from rlx.passes.memory.plan import MemoryPlan, Slot
from rlx.passes.rewrite import bodies_of

VERSION = 1
_FIRST_LINE = re.compile(rb"rlx-program (\d{1,9}) (\d{1,18}) (\d{1,18}) ([0-9a-f]{64})\n")


def dumps_program(program: Program) -> bytes:
    """Return the content of the file for `program`."""
    graph = serialize.dumps(program.graph)
    plan = json.dumps(_plan_data(program.plan), separators=(",", ":")).encode()
    digest = hashlib.sha256(graph + plan).hexdigest()
    first = f"rlx-program {VERSION} {len(graph)} {len(plan)} {digest}\n"
    return first.encode() + graph + plan


def loads_program(content: bytes, *, limits: LoadLimits | None = None) -> Program:
    """Return the program that `dumps_program` wrote; LimitError if it needs more than `limits`."""
    with loading(limits, "<program>") as budget:
        budget.charge_bytes(len(content))
        graph_bytes, plan_bytes = _parts(content)
        return _program(serialize.loads(graph_bytes, limits=limits), plan_bytes)


def _program(graph: Graph, plan_bytes: bytes) -> Program:
    try:
        plan = _read_plan(graph, json.loads(plan_bytes))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(
            f"the plan of program {graph.name!r} is not one: {error}",
            remedy="save the program again",
        ) from error
    faults = [*plan_faults(plan), *_scratch_faults(plan)]
    if faults:
        raise FormatError(
            f"the plan of program {graph.name!r} is unsound: {faults[0]}",
            remedy="save the program again",
        )
    try:
        return program_of(graph, plan)
    except RlxError as error:
        raise FormatError(
            f"program {graph.name!r} cannot be lowered: {error}",
            remedy="save the program again with this version",
        ) from error


def _scratch_faults(plan: MemoryPlan) -> list[str]:
    """Say which kernels have less scratch than they need, bodies included."""
    needs = {node: scratch_bytes(node) for node in plan.order}
    given = {node: slot.size for node, slot in plan.scratch.items()}
    faults = [
        f"{node.op.name} has {given.get(node, 0)} bytes of scratch; it needs {need}"
        for node, need in needs.items()
        if given.get(node, 0) < need
    ]
    return faults + [
        f for bodies in plan.bodies.values() for b in bodies for f in _scratch_faults(b)
    ]


def _parts(content: bytes) -> tuple[bytes, bytes]:
    found = _FIRST_LINE.match(content)
    if found is None:
        raise FormatError(
            "not a program file: it must start with 'rlx-program <version> ...'",
            remedy="give a file that rlx.save wrote",
        )
    version, graph_size, plan_size = (int(found[i]) for i in (1, 2, 3))
    if version != VERSION:
        raise FormatError(
            f"the program file has version {version}; this rlx reads {VERSION}",
            remedy="save the program again with this version",
        )
    body = content[found.end() :]
    if len(body) != graph_size + plan_size:
        raise FormatError(
            f"the program file holds {len(body)} of {graph_size + plan_size} bytes",
            remedy="copy it again, or save the program again",
        )
    if hashlib.sha256(body).hexdigest().encode() != found[4]:
        raise FormatError(
            "the program file is damaged: its hash does not match",
            remedy="copy it again, or save the program again",
        )
    return body[:graph_size], body[graph_size:]


def _plan_data(plan: MemoryPlan) -> dict[str, Any]:
    return {
        "bytes": [plan.header_bytes, plan.resident_bytes, plan.arena_bytes, plan.live_bytes],
        "slots": [[*_place(value), *_slot_data(slot)] for value, slot in plan.slots.items()],
        "scratch": [[node.index, *_slot_data(slot)] for node, slot in plan.scratch.items()],
        "in_place": [[node.index, list(map(list, pairs))] for node, pairs in plan.in_place.items()],
        "order": [node.index for node in plan.order],
        "bodies": [
            [node.index, [_plan_data(body) for body in bodies]]
            for node, bodies in plan.bodies.items()
        ],
    }


def _place(value: Value) -> list[int]:
    return [value.node.index, value.index]


def _slot_data(slot: Slot) -> list[Any]:
    root = None if slot.root is None else _place(slot.root)
    return [slot.offset, slot.size, slot.birth, slot.death, slot.resident, root]


def _read_plan(graph: Graph, data: dict[str, Any]) -> MemoryPlan:
    def node(number: int) -> Node:
        return graph.nodes[_natural(number)]

    def value(place: list[int]) -> Value:
        return node(place[0]).results[_natural(place[1])]

    def slot(fields: list[Any]) -> Slot:
        *numbers, resident, root = fields
        offset, size, birth, death = map(_natural, numbers)
        if not isinstance(resident, bool):
            raise ValueError(f"{resident!r} does not say whether a value is resident")
        if not birth <= death <= len(graph.nodes):
            raise ValueError(f"a value lives from step {birth} to {death}")
        return Slot(offset, size, birth, death, resident, None if root is None else value(root))

    header, resident, arena, live = map(_natural, data["bytes"])
    slots = {value(row[:2]): slot(row[2:]) for row in data["slots"]}
    missing = [r.label for n in graph.nodes for r in n.results if r not in slots]
    if missing:
        raise ValueError(f"no slot for {', '.join(missing)}")
    order = tuple(node(number) for number in data["order"])
    if sorted(n.index for n in order) != list(range(len(graph.nodes))):
        raise ValueError("the order does not have every node once")
    return MemoryPlan(
        graph=graph,
        slots=slots,
        scratch={node(row[0]): slot(row[1:]) for row in data["scratch"]},
        header_bytes=header,
        resident_bytes=resident,
        arena_bytes=arena,
        live_bytes=live,
        in_place={
            node(number): tuple((_natural(a), _natural(b)) for a, b in pairs)
            for number, pairs in data["in_place"]
        },
        order=order,
        bodies={
            node(number): _read_bodies(node(number), plans) for number, plans in data["bodies"]
        },
    )


def _read_bodies(node: Node, plans: list[dict[str, Any]]) -> tuple[MemoryPlan, ...]:
    pairs = zip(bodies_of(node.attrs), plans, strict=True)
    return tuple(_read_plan(body, plan) for body, plan in pairs)


def _natural(number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"{number!r} is not a natural number")
    return number
