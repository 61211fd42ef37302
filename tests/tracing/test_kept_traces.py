"""Formulas whose traces are kept are what they are traced anew, at the line of each call."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.dtype import DType
from rlx.ir.printer import format_graph
from rlx.passes.rewrites.common_subexpressions import common_subexpressions
from rlx.scipy import special
from rlx.tracing.kept_traces import kept
from rlx.transforms.control import while_loop
from rlx.transforms.differentiate import jvp


def _formula(x: Any, y: Any, power: int = 2) -> tuple[Any, Any]:
    """A loop that reads what is around it, a derivative, a weak result and an argument itself."""
    total = while_loop(lambda s: s[0] < power, lambda s: (s[0] + 1, s[1] * y + x), (0, x + y))[1]
    slope = jvp(lambda x: rnp.sin(x) ** power, (x,), (rnp.ones_like(x),))[1]
    return total * slope, y


KEPT = kept(_formula)
USES: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "arrays": lambda f: lambda x, y: f(x, y),
    "a power": lambda f: lambda x, y: f(x, y, 3),
    "twice": lambda f: lambda x, y: f(*f(x, y), 3),
    "a number": lambda f: lambda x, y: f(x, 0.1)[0] + f(y, x)[0],
    "a keyword": lambda f: lambda x, y: f(x, y=y),
    "captured arrays": lambda f: rlx.vmap(lambda x, y: f(x, y)),
    "a derivative": lambda f: lambda x, y: jvp(f, (x, y), (y, x)),
    "a loop": lambda f: (
        lambda x, y: while_loop(lambda s: s[0][0] < 9, lambda s: f(s[0], y), (x, y))
    ),
}


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize("use", USES)
def test_graphs_are_those_of_formulas_traced_anew(use: str, dtype: DType) -> None:
    of, type = USES[use], rlx.TensorType(dtype, (3,))
    # One constant of each number: a trace shares those that it makes itself
    graphs = [
        common_subexpressions(rlx.jit(of(f)).graph(type, type)) for f in (_formula, KEPT, KEPT)
    ]
    # Inputs of loops' bodies are called after what they capture
    texts = [re.sub(r'(input|as|jvp_of_|@)[ @"\w]*', "", format_graph(graph)) for graph in graphs]
    assert texts[0] == texts[1] == texts[2]


def test_a_formula_is_traced_once_for_each_type() -> None:
    traced: list[str] = []

    @kept
    def formula(x: Any) -> Any:
        traced.append(str(x.dtype))
        return rnp.cos(x) * 2

    def program(x: Any, y: Any) -> Any:
        return sum(formula(x) for _ in range(5)) + formula(y)

    single, double = (rlx.TensorType(dtype, (3,)) for dtype in (DType.F32, DType.F64))
    graph = rlx.jit(program).graph(single, double)
    assert traced == ["float32", "float64"]
    assert sum(node.op.name == "cos" for node in graph.nodes) == 6


def test_nodes_name_the_line_of_each_call() -> None:
    def program(x: Any) -> Any:
        first = special.gammaln(x)
        return special.gammaln(x) + first

    graph = rlx.jit(program).graph(rlx.TensorType(DType.F64, (3,)))
    sines = [node.source for node in graph.nodes if node.op.name == "sin"]
    lines = [source.line - program.__code__.co_firstlineno for source in sines if source]
    assert lines == [1, 2]


def test_no_trace_is_kept_where_none_is_open() -> None:
    calls: list[Any] = []

    @kept
    def formula(x: Any, power: int = 2) -> Any:
        calls.append(x)
        return rnp.square(x) ** power

    x = np.float64(3)
    for given in (3, x, 3):
        assert formula(given) == 81
        assert formula(given, 1) == 9
    assert [type(each) for each in calls] == [int, int, np.float64, np.float64, int, int]


def test_jitted_formulas_give_the_numbers_of_formulas_traced_anew() -> None:
    x, y = np.float64(0.3), np.float64(0.5)
    total, same = rlx.jit(KEPT)(x, y)
    np.testing.assert_array_equal(rlx.jit(_formula)(x, y)[0], total)
    assert same == 0.5
