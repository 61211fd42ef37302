"""Random programs as models and back: `python -m tests.onnx.round_trips SEED COUNT`.

A program of the fuzzer becomes a model, which passes ONNX's checker, and is read again: results
have the same bits where each op is one operator, and differ by roundings where a formula is
written out. ONNX Runtime, if it is installed, runs the model too, as far as it has kernels.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import rlx.onnx
from rlx.errors import NoRuleError, RlxError
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.onnx.export_rules import RULES
from rlx.passes.rewrites.decompose import decompose
from tests.fuzz.check import Judge, feeds, trace
from tests.fuzz.generate import program
from tests.fuzz.program import Array

FORMULAS = {"atan2", "exp2", "expm1", "log1p", "log2", "rsqrt", "silu", "trunc", "layer_norm"}
"""Ops that the standard has no operator for, and that are written out with another rounding; and
one whose `epsilon` is an f32 there."""
BEYOND = {"cholesky", "eigh", "lu", "qr", "solve", "svd", "threefry2x32"}
"""Ops that the standard has nothing for, and all of complex numbers."""
UNSAFE = {"gather", "gather_backward", "scatter_add", "scatter_max", "scatter_min", "scatter_mul"}
"""Ops whose indices ONNX Runtime does not bound as rlx does."""
EXTREMA = {"reduce_max", "reduce_min"}
"""Ops that ONNX Runtime computes of the numbers among NaN; in rlx, as in NumPy, one makes NaN."""


class TripError(AssertionError):
    """A program that means something else as a model."""


def round_trip(seed: int) -> str:
    """Return how the program of a seed comes back: "exact", "close", or why it does not leave."""
    made = replace(program(seed, lines=8), symbolic=False)
    arrays = made.arrays()
    try:
        graph = trace(made)
        given = feeds(graph, arrays)
        expected = evaluate(graph, given)
    except RlxError:
        return "no program"
    try:
        model = rlx.onnx.export(graph)
    except NoRuleError:
        return "beyond" if _is_beyond(graph) else "refused"
    again = rlx.onnx.load(model)
    names = {str(value.node.name) for value in again.inputs}
    found = evaluate(again, {**again.param_values, **{n: given[n] for n in names & given.keys()}})
    decomposed = decompose(RULES.keys())(graph)
    ops = {node.op.name for node in all_nodes(decomposed)}
    as_written = evaluate(decomposed, given)
    judge = Judge(graph, arrays, expected, seed)
    how = "exact"
    if not all(map(same_bits, found, as_written)):
        if not ops & FORMULAS:
            raise TripError(f"{seed}: other bits after {sorted(ops)}")
        how = "close"
    difference = judge.difference(found)
    if difference:
        raise TripError(f"{seed}: {difference}")
    return f"{how}{_run_by_peer(model, given, judge, ops)}"


def _is_beyond(graph: Graph) -> bool:
    """True for programs that no model can hold: of complex numbers and decompositions."""
    nodes = list(all_nodes(graph))
    return any(n.op.name in BEYOND for n in nodes) or any(
        value.dtype.is_complex for n in nodes for value in n.results
    )


def all_nodes(graph: Graph) -> Iterator[Any]:
    """Yield the nodes of a graph and of all bodies in it."""
    for node in graph.nodes:
        yield node
        for value in node.attrs.as_dict().values():
            for body in value if isinstance(value, tuple) else (value,):
                if isinstance(body, Graph):
                    yield from all_nodes(body)


def same_bits(a: Array, b: Array) -> bool:
    """True for equal dtypes, shapes and bits; any NaN is any other."""
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    rows = [np.ascontiguousarray(x).reshape(-1, 1).view(np.uint8) for x in (a, b)]
    differ = (rows[0] != rows[1]).any(1)
    nan = ((a != a) & (b != b)).ravel()
    return not bool((differ & ~nan).any())


def _run_by_peer(model: Any, given: Any, judge: Judge, ops: set[str]) -> str:
    """Return " peer" if ONNX Runtime ran the model; raise TripError where it differs."""
    try:
        import onnxruntime
    except ImportError:
        return ""
    if ops & UNSAFE or any(0 in v.shape for n in judge.graph.nodes for v in n.results):
        return ""  # the mean of no elements is left open by the standard
    if ops & EXTREMA and any(bool((x != x).any()) for x in map(np.asarray, given.values())):
        return ""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        found = session.run(None, {x.name: given[x.name] for x in session.get_inputs()})
    except Exception:  # it has no kernel for the dtype, which it says in many ways
        return ""
    difference = judge.difference([np.asarray(y) for y in found])
    if difference and not all(map(_nearly, found, judge.expected)):
        raise TripError(f"{judge.seed}: ONNX Runtime: {difference}")
    return " peer"


def _nearly(theirs: Array, ours: Array) -> bool:
    """True for f64 within 1e-7: ONNX Runtime has Erf in single precision only."""
    is_double = theirs.dtype == ours.dtype == np.float64
    return bool(np.allclose(theirs, ours, 1e-7 if is_double else 0, 0, equal_nan=True))


def trips(seeds: Sequence[int]) -> Counter[str]:
    """Return how many programs come back how; raise TripError for one that does not."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return Counter(map(round_trip, seeds))


def main() -> None:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    total: Counter[str] = Counter()
    for seed in range(first, first + count):
        try:
            total += trips([seed])
        except (TripError, RlxError) as error:
            total["WRONG"] += 1
            print(f"{seed}: {type(error).__name__}: {str(error)[:600]}", flush=True)
    print(dict(total))


if __name__ == "__main__":
    main()
