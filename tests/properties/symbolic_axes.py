"""Recorded uses of ops with one extent symbolic, and their derivatives and batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rlx.errors import RlxError
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.shape import Dim, Extent
from rlx.passes.autodiff import grad_with_loss
from rlx.passes.autodiff.errors import NoDerivativeError
from rlx.passes.vmap import vmap
from tests.records import OpRecord, records

Feeds = dict[str, np.ndarray[Any, Any]]

MODES = ("value", "gradient", "vmap")
PAGE = Path(__file__).parents[2] / "docs" / "symbolic_axes.md"
_HEAD = "| op | axes | refused | reason |\n| --- | --- | --- | --- |\n"
_EXAMPLES = 2


def axes() -> Iterator[tuple[OpRecord, int]]:
    """Yield the first record of each op with each of the extents of its operands above 1."""
    seen = set[str]()
    for record in records():
        if record.op.name not in seen and record.operands:
            seen.add(record.op.name)
            extents = {extent for operand in record.operands for extent in operand.shape}
            yield from ((record, extent) for extent in sorted(extents) if extent > 1)


def at_extent(record: OpRecord, extent: int, chosen: int) -> OpRecord:
    """Return the record with another number wherever its operands have `extent`."""
    operands = tuple(
        replace(operand, shape=tuple(chosen if e == extent else e for e in operand.shape))
        for operand in record.operands
    )
    return replace(record, operands=operands)


def dtype_of(record: OpRecord) -> DType:
    return DType.F64 if DType.F64 in record.dtypes else record.dtypes[0]


def program(record: OpRecord, extent: int, chosen: Extent, mode: str) -> Graph | None:
    """Return the program of `mode` with `chosen` for `extent`; None if it has no derivative."""
    graph = Graph("symbolic_axis")
    dtype = dtype_of(record)
    operands = [
        graph.input(
            name,
            tuple(chosen if e == extent else e for e in operand.shape),
            operand.dtype or dtype,
        )
        for name, operand in zip(record.operand_names, record.operands, strict=True)
    ]
    made = graph.apply(record.op, operands, **record.attributes)
    results = made if isinstance(made, tuple) else (made,)
    graph.set_outputs(results)
    names = [str(leaf.node.name) for leaf in graph.inputs]
    if mode == "value":
        return graph
    if mode == "vmap":
        return vmap(graph, dict.fromkeys(names, 0), size=_EXAMPLES)
    moving = [str(leaf.node.name) for leaf in graph.inputs if leaf.dtype.is_differentiable]
    smooth = [result for result in results if result.dtype.is_differentiable]
    if not (moving and smooth):
        return None
    graph.set_outputs(smooth[:1])
    try:
        return grad_with_loss(graph, moving, missing="zero")
    except NoDerivativeError:
        return None


def feeds(record: OpRecord, extent: int, chosen: int, mode: str, graph: Graph) -> Feeds | None:
    """Return arrays for the inputs; None if the record has none of these shapes."""
    dtype = dtype_of(record)
    try:
        made = [at_extent(record, extent, chosen).inputs(dtype, s) for s in range(_EXAMPLES)]
    except (ValueError, IndexError, ZeroDivisionError):  # of a maker: as an index into nothing
        return None
    arrays = dict(made[0])
    if mode == "vmap":
        return {name: np.stack([each[name] for each in made]) for name in arrays}
    rng = np.random.default_rng(0)
    for leaf in graph.inputs:
        if str(leaf.node.name) not in arrays:
            shape = tuple(e for e in leaf.shape if isinstance(e, int))
            arrays[str(leaf.node.name)] = rng.normal(size=shape).astype(leaf.dtype.numpy)
    return arrays


def refusal(record: OpRecord, extent: int, mode: str) -> RlxError | None:
    """Return the error of building a program with a symbolic extent."""
    try:
        program(record, extent, dim(extent), mode)
    except RlxError as error:
        return error
    return None


def dim(extent: int) -> Dim:
    return Dim("n", max=extent + 1)


def where(record: OpRecord, extent: int) -> str:
    """Return which axes of the operands have `extent`: `x[0], y[1]`."""
    pairs = zip(record.operand_names, record.operands, strict=True)
    found = (
        f"{name}[{axis}]"
        for name, operand in pairs
        for axis, e in enumerate(operand.shape)
        if e == extent
    )
    return ", ".join(found)


def refused() -> dict[tuple[str, str], str]:
    """Return the op, the axes and the modes that the page lists."""
    rows = (line.split("|") for line in PAGE.read_text("utf-8").splitlines())
    cells = [[cell.strip() for cell in row[1:-1]] for row in rows if len(row) == 6]
    return {(row[0].strip("`"), row[1].strip("`")): row[2] for row in cells[2:]}


def write_page() -> None:
    """Write the table of what is refused, after the text that is there."""
    text, mark, _ = PAGE.read_text("utf-8").partition(_HEAD)
    lines = []
    for record, extent in axes():
        if not builds(record, extent):
            continue
        errors = {mode: refusal(record, extent, mode) for mode in MODES}
        modes = [mode for mode, error in errors.items() if error is not None]
        if modes:
            first = str(errors[modes[0]]).splitlines()[0].removeprefix(f"{record.op.name}: ")
            axes_of = where(record, extent)
            lines.append(f"| `{record.op.name}` | `{axes_of}` | {', '.join(modes)} | {first} |\n")
    PAGE.write_text(text + mark + "".join(sorted(lines)), "utf-8")


def builds(record: OpRecord, extent: int) -> bool:
    """True if the record has programs where the extent is a number."""
    try:
        return program(record, extent, extent, "value") is not None
    except RlxError:
        return False


if __name__ == "__main__":
    write_page()
