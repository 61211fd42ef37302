"""Checkpointing of scans: a scan with checkpoints becomes a scan of segments, each a scan of steps.

The reverse-mode derivative of the outer scan stores the carries at which segments begin, and
that of `checkpoint` runs a segment again when its turn comes: `checkpoints` carries and the
residuals of one segment are held at once, instead of residuals of all steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.loop_signature import Parts
from rlx.passes.loops.loop_steps import LoopStep, name_of
from rlx.passes.rewrite import Rewritten, apply_rewrites, graph_pass, rewrite


@graph_pass
def segment_scans(graph: Graph) -> Rewritten:
    """Spell out checkpointed scans; without a derivative they need no checkpoints.

    scan %c {length = 10000, checkpoints = 100}
                     ->      scan %c {length = 100, body = scan {length = 100}}
    """
    return apply_rewrites(graph, [_checkpointed_scan])


def _has_checkpoints(node: Node) -> bool:
    return node.attribute("checkpoints") is not None


@rewrite(ops.scan, when=_has_checkpoints)
def _checkpointed_scan(node: Node) -> tuple[Value, ...]:
    attributes = node.attrs.as_dict()
    del attributes["residuals"]  # of a program that is being differentiated no more
    return segmented(*node.operands, **attributes)


def segmented(
    *operands: Value,
    body: Graph,
    length: int,
    num_carries: int,
    num_consts: int = 0,
    reverse: bool = False,
    checkpoints: int | None = None,
) -> tuple[Value, ...]:
    """Return the results of the scan, computed in `checkpoints` segments of almost one length.

    The longer segments come first; the two kinds are two scans.
    """
    given = Parts.of(operands, num_carries, num_consts)
    count = checkpoints or 1
    short, longer = divmod(length, count)
    runs = [(longer, short + 1), (count - longer, short)]
    runs = [(segments, steps) for segments, steps in runs if segments and steps]
    carries, pieces = given.carries, []
    start = 0
    for segments, steps in runs:
        first = length - start - segments * steps if reverse else start
        xs = [_cut(x, first, segments, steps) for x in given.rows]
        part = Parts(carries, given.consts, tuple(xs))
        carries, stacked = _run(part, body, segments, steps, reverse=reverse)
        pieces.append([_joined(rows) for rows in stacked])
        start += segments * steps
    if not pieces:
        return _plain(given, body, reverse=reverse)
    ordered = pieces[::-1] if reverse else pieces
    return (*carries, *(_concatenated(rows) for rows in zip(*ordered, strict=True)))


def _run(
    given: Parts[Value], body: Graph, segments: int, steps: int, *, reverse: bool
) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    step = LoopStep(f"{body.name}_segments")
    inputs = Parts.of(body.inputs, len(given.carries), len(given.consts))
    values = [step.carry(v, name_of(n)) for v, n in zip(given.carries, inputs.carries, strict=True)]
    values += [step.const(v, name_of(n)) for v, n in zip(given.consts, inputs.consts, strict=True)]
    values += [step.row(v, name_of(n)) for v, n in zip(given.rows, inputs.rows, strict=True)]
    segment = Graph(f"{body.name}_segment")
    mirrored = [segment.input(name_of(v), v.shape, v.dtype) for v in values]
    segment.set_outputs(
        ops.scan(
            *mirrored,
            body=body,
            length=steps,
            num_carries=len(given.carries),
            num_consts=len(given.consts),
            reverse=reverse,
        )
    )
    results = ops.checkpoint(*values, body=segment)
    split = len(given.carries)
    return step.scan(results[:split], results[split:], length=segments, reverse=reverse)


def _plain(given: Parts[Value], body: Graph, *, reverse: bool) -> tuple[Value, ...]:
    """Return the results of a scan without steps."""
    return ops.scan(
        *given.all,
        body=body,
        length=0,
        num_carries=len(given.carries),
        num_consts=len(given.consts),
        reverse=reverse,
    )


def _cut(x: Value, first: int, segments: int, steps: int) -> Value:
    """Return `segments * steps` rows from `first`, by segment: a view."""
    rows = x
    if x.shape[0] != segments * steps:
        rows = ops.narrow(x, axis=0, start=first, length=segments * steps)
    return ops.reshape(rows, shape=(segments, steps, *x.shape[1:]))


def _joined(rows: Value) -> Value:
    return ops.reshape(rows, shape=(rows.shape[0] * rows.shape[1], *rows.shape[2:]))


def _concatenated(pieces: Sequence[Value]) -> Value:
    whole: Value = pieces[0] if len(pieces) == 1 else ops.concat(*pieces, axis=0)
    return whole
