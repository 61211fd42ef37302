"""Recorded uses of every op: what all test suites run over.

A record is one use of an op: operand shapes and data, attributes, the dtypes that it runs
over, and how closely two implementations must agree. `records()` lists them all:

    for record in records():
        for dtype in record.dtypes:
            graph, feeds = record.graph(dtype), record.inputs(dtype)
            expected = evaluate(graph, feeds)

The records of a family live in `tests/op_records/<family>.py`.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.errors import DTypeError
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.op import OpDef, make_attrs
from rlx.ir.types import TensorType

Array = NDArray[Any]
Maker = Callable[[np.random.Generator, tuple[int, ...], DType], Array]

# Two correct implementations differ by rounding in their scalar functions (2e-6 in
# f32) and, for narrow floats, by one or two units of the last place stored.
_ROUNDING = {
    DType.F64: 1e-12,
    DType.F32: 2e-6,
    DType.F8_E4M3FN: 0.13,
    DType.F8_E5M2: 0.26,
    DType.F16: 2e-3,
    DType.BF16: 1.6e-2,
    DType.C64: 1e-5,
    DType.C128: 1e-12,
}


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Results agree if `|a - b| <= atol + rtol * |b|`, NaN only with NaN."""

    rtol: float
    atol: float


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand: `dtype` None means the dtype that the record is run over."""

    shape: tuple[int, ...]
    make: Maker
    dtype: DType | None = None


@dataclass(frozen=True, slots=True, eq=False)
class OpRecord:
    """One use of an op. `name` is unique among the op's records."""

    op: OpDef
    name: str
    operands: tuple[Operand, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    dtypes: tuple[DType, ...] = (DType.F32, DType.F64)
    smooth: bool = False
    """The operands are far from kinks and poles: in f64 finite differences hold."""
    growth: float = 1.0
    """By how much the op amplifies rounding; 0: results are equal to the bit."""
    limits: str = ""
    """What implementations may differ in, and is therefore not compared."""

    @property
    def id(self) -> str:
        return f"{self.op.name}-{self.name}"

    @property
    def operand_names(self) -> tuple[str, ...]:
        if self.op.variadic:
            return tuple(f"{self.op.operands[0]}{i}" for i in range(len(self.operands)))
        return self.op.operands[: len(self.operands)]

    def operand_dtypes(self, dtype: DType) -> tuple[DType, ...]:
        return tuple(operand.dtype or dtype for operand in self.operands)

    def graph(self, dtype: DType) -> Graph:
        """Return a graph of this one node: inputs named as the op's operands, all results out."""
        graph = Graph(self.id.replace("-", "_"))
        dtypes = self.operand_dtypes(dtype)
        inputs = [
            graph.input(name, operand.shape, own)
            for name, operand, own in zip(self.operand_names, self.operands, dtypes, strict=True)
        ]
        result = graph.apply(self.op, inputs, **self.attributes)
        graph.set_outputs(result if isinstance(result, tuple) else (result,))
        return graph

    def inputs(self, dtype: DType, seed: int = 0) -> dict[str, Array]:
        """Return arrays for the graph's inputs, the same for the same seed."""
        rng = np.random.default_rng([seed, len(self.id)])
        return {
            name: operand.make(rng, operand.shape, own)
            for name, operand, own in zip(
                self.operand_names, self.operands, self.operand_dtypes(dtype), strict=True
            )
        }

    def tolerance(self, dtype: DType) -> Tolerance:
        """Return how closely results of `dtype` must agree; integers and bools always do."""
        bound = self.growth * _ROUNDING.get(dtype, 0.0)
        return Tolerance(bound, bound)


def accepted_dtypes(
    op: OpDef, operands: tuple[Operand, ...], attributes: Mapping[str, Any]
) -> tuple[DType, ...]:
    """Return every dtype over which `op` takes `operands`: what its inference accepts."""
    attrs = make_attrs(op, attributes)
    accepted = []
    for dtype in DType:
        types = tuple(TensorType(operand.dtype or dtype, operand.shape) for operand in operands)
        try:
            op.infer_types(types, attrs)
        except DTypeError:
            continue
        accepted.append(dtype)
    return tuple(accepted)


def over_all_dtypes(
    op: OpDef, name: str, *operands: Operand, smooth: bool = False, growth: float = 1.0,
    limits: str = "", **attributes: Any,
) -> OpRecord:  # fmt: skip
    """Return a record that runs over every dtype that the op accepts."""
    dtypes = accepted_dtypes(op, operands, attributes)
    return OpRecord(op, name, operands, attributes, dtypes, smooth, growth, limits)


@functools.cache
def records() -> list[OpRecord]:
    """Return all records, family by family; their ids are unique."""
    package = importlib.import_module("tests.op_records")
    found: list[OpRecord] = []
    for module in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        found += importlib.import_module(f"tests.op_records.{module}").RECORDS
    repeated = [id for id, count in Counter(record.id for record in found).items() if count > 1]
    if repeated:
        raise ValueError(f"records with the same id: {sorted(repeated)}")
    return found
