"""Comments above kernels, and the names of their arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from rlx.codegen.kernels.build import telling_ops
from rlx.codegen.schedule import Thunk, number_of
from rlx.codegen.text import as_identifier
from rlx.errors import Source
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.inspect import computed_ops
from rlx.ir.loop_signature import loop_signature
from rlx.ir.op import Trait

_LISTED_VALUES = 6
_LISTED_LINES = 4
_LONGEST_NAME = 40
"""C compares 63 characters of a name, and numbers are still to be added."""


def kernel_doc(thunks: Sequence[Thunk]) -> tuple[str, ...]:
    """Return the comment above a kernel: what it computes, for which values, from which lines."""
    values = list(dict.fromkeys(_label(thunk) for thunk in thunks))
    listed = ", ".join(values[:_LISTED_VALUES])
    more = f" and {len(values) - _LISTED_VALUES} more" if len(values) > _LISTED_VALUES else ""
    shared = f", called {len(thunks)} times" if len(thunks) > 1 else ""
    in_place = ", in place" if thunks[0].aliased else ""
    lines = [f"{computed_ops(thunks[0].node)} -> {listed}{more}{shared}{in_place}"]
    places = list(dict.fromkeys(f"{PurePath(s.file).name}:{s.line}" for s in _sources(thunks)))
    if places:
        rest = ", ..." if len(places) > _LISTED_LINES else ""
        lines.append(f"at {', '.join(places[:_LISTED_LINES])}{rest}")
    return tuple(lines)


def argument_names(thunks: Sequence[Thunk]) -> dict[int, str]:
    """Return the names of arguments, operands before results, that say more than the op does.

    An operand has the user's name if it is the same in all `thunks`.
    """
    if any(thunk.kind != thunk.node.op.name for thunk in thunks):
        return {}
    columns = zip(*(map(_last_word, thunk.node.operands) for thunk in thunks), strict=False)
    agreed = map(set, columns)
    named = {
        i: names.pop() for i, names in enumerate(agreed) if len(names) == 1 and "" not in names
    }
    is_scan = thunks[0].node.op is ops.scan
    return named | _scan_names(thunks[0].node, named) if is_scan else named


def _scan_names(node: Node, named: dict[int, str]) -> dict[int, str]:
    """Name the first and last values of carries, and what is stacked after what it is."""
    body: Graph = node.attribute("body")
    signature, operands = loop_signature(node), len(node.operands)
    count, kept_from = signature.num_carries, len(body.outputs) - signature.num_residuals
    names: dict[int, str] = {}
    for position, carry in enumerate(body.inputs[:count]):
        names[operands + position] = as_identifier(f"last_{carry.node.name}")
        if named.get(position, carry.node.name) == carry.node.name:
            names[position] = as_identifier(f"first_{carry.node.name}")
    for position, row in enumerate(body.outputs[count:], start=count):
        word = row.node.name or row.op.name
        name = f"saved_{word}" if position >= kept_from else f"{word}_rows"
        names[operands + position] = as_identifier(name)
    return names


def tensor_name(value: Value, number: int | None = None) -> str:
    """Return what a reader of the code calls a tensor: the user's name, or op and number.

    `number` is the node's among all of the program, its index by default.
    """
    node = value.node
    own = node.index if number is None else number
    if node.name is not None:
        name = node.name
    elif node.op.name == "pack_panels":
        name = f"{tensor_name(node.operands[0])}_packed"
    elif node.op.has(Trait.FUSED) and node.op is not ops.scalar_region:
        name = f"{'_'.join(telling_ops(node.attribute('body')))}_{own}"
    else:
        name = f"{node.op.name}_{own}"
    return name if len(node.results) == 1 else f"{name}_{value.index}"


def _last_word(value: Value) -> str:
    """Return the user's name of a value without its enclosing blocks, or nothing."""
    word = (value.node.name or "").rpartition(".")[2]
    fits = word.isidentifier() and word.isascii() and len(word) <= _LONGEST_NAME
    return word if fits else ""


def _label(thunk: Thunk) -> str:
    suffix = ".0" if len(thunk.node.results) > 1 else ""
    return f"%{number_of(thunk)}{suffix}"


def _sources(thunks: Sequence[Thunk]) -> Iterator[Source]:
    for thunk in thunks:
        node = thunk.node
        if node.is_one_kernel:
            body: Graph = node.attribute("body")
            yield from (n.source for n in body.nodes if n.source and not n.op.has(Trait.LEAF))
        elif node.source:
            yield node.source
