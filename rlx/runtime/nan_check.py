"""Runs that stop at the first kernel that makes a NaN or an infinity from finite numbers.

    f = rlx.compile(graph, nan_check=True)

Thunks run one at a time, and what each wrote is looked at before the next: slow, and exact
about the place. Inside a fused kernel the ops are replayed by the reference interpreter to
find the one to blame. Infinities that were there before (masks) are not blamed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from rlx.codegen.schedule import AnyThunk, BufferRef, Phase, Thunk
from rlx.dataclass import dataclass
from rlx.errors import NonFiniteError, RlxError
from rlx.ir.dtype import as_dtype
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.ir.reference import evaluate
from rlx.ir.types import TensorType
from rlx.runtime.executable import Executable
from rlx.runtime.signature import Array, concrete


class CheckedExecutable(Executable):
    """Looks at every result of every kernel. Make it with `rlx.compile(nan_check=True)`."""

    def clone(self) -> CheckedExecutable:
        """Return another executable of the same code and params, with its own arena."""
        return CheckedExecutable(self._origin, self._program, self._native, params=self.params)

    def _bind_entries(self) -> None:
        super()._bind_entries()
        extents = ", int64_t" * len(self.signature.symbols)
        self._step = self._function("step", f"int (*)(uint8_t *, int64_t{extents})")
        self._enter = self._run_checked

    def _run_setup(self, elsewhere: Mapping[str, Array]) -> int:
        del elsewhere  # all params are in the arena
        return self._walk(Phase.SETUP, [0] * len(self.signature.symbols))

    def _run_checked(self, *extents: int) -> int:
        return self._walk(Phase.RUN, extents)

    def _walk(self, phase: Phase, extents: Sequence[int]) -> int:
        names = [symbol.name for symbol in self.signature.symbols]
        binding = dict(zip(names, extents, strict=True))
        for number, thunk in enumerate(self.schedule.thunks):
            if thunk.phase is not phase:
                continue
            refs = self._operands(thunk.node)
            if isinstance(thunk, Thunk):
                refs = thunk.operands
            before = [self._read(ref, binding).copy() for ref in refs]
            status = self._step(self._arena_pointer, number, *extents)
            if status != 0:
                return status
            results = thunk.results if isinstance(thunk, Thunk) else self._results(thunk.node)
            check_results(thunk, before, [self._read(ref, binding) for ref in results])
        return 0

    def _read(self, ref: BufferRef, binding: dict[str, int]) -> Array:
        stored = concrete(ref.type.stored_shape, binding)
        array = self.arena.view(ref.offset, ref.type.dtype, stored)
        layout = ref.type.layout
        return (
            array if layout is None else layout.elements(array, concrete(ref.type.shape, binding))
        )

    def _operands(self, node: Node) -> tuple[BufferRef, ...]:
        return tuple(map(self._ref, node.operands))

    def _results(self, node: Node) -> tuple[BufferRef, ...]:
        return tuple(map(self._ref, node.results))

    def _ref(self, value: Value) -> BufferRef:
        return BufferRef(self.plan.slots[value].offset, value.type)


def check_results(thunk: AnyThunk, before: Sequence[Array], after: Sequence[Array]) -> None:
    """Raise NonFiniteError if `thunk` made of finite arrays one that is not."""
    if all(map(is_finite, after)) or not all(map(is_finite, before)):
        return
    raise describe_fault(find_culprit(thunk, before) or culprit_of(thunk.node, before, after))


@dataclass(frozen=True, slots=True)
class Culprit:
    """A node whose operands are finite and whose result is not, with its arrays."""

    node: Node
    operands: tuple[Array, ...]
    result: Array


def is_finite(array: Array) -> bool:
    """True if no element is a NaN or an infinity; integers and bools never are."""
    return array.dtype.kind in "biu" or bool(np.isfinite(array).all())


def culprit_of(node: Node, before: Sequence[Array], after: Sequence[Array]) -> Culprit:
    """Blame a node as a whole for its first result that is not finite."""
    result = next(array for array in after if not is_finite(array))
    return Culprit(node, tuple(before), result)


def find_culprit(thunk: AnyThunk, operands: Sequence[Array]) -> Culprit | None:
    """Replay a fused thunk op by op; None if the reference stays finite, or nothing is fused."""
    if not isinstance(thunk, Thunk) or not thunk.node.op.has(Trait.FUSED):
        return None
    body: Graph = thunk.attrs["body"]
    arrays = _replay(body, operands)
    for inner in _computing(body):
        given = [arrays[operand] for operand in inner.operands]
        made = [arrays[result] for result in inner.results]
        if all(map(is_finite, given)) and not all(map(is_finite, made)):
            return culprit_of(inner, given, made)
    return None


def describe_fault(culprit: Culprit) -> RlxError:
    """Return the error: op, place, its operands there, the user's line."""
    flat = int(np.argmin(np.isfinite(culprit.result).reshape(-1)))
    index = tuple(int(i) for i in np.unravel_index(flat, culprit.result.shape))
    made = culprit.result[index]
    kind = "a NaN" if np.isnan(made) else "an infinity"
    name = culprit.node.name or culprit.node.scope
    where = f" {name!r}" if name else ""
    type = TensorType(as_dtype(culprit.result.dtype), culprit.result.shape)
    given = _operands_at(culprit, index)
    return NonFiniteError(
        f"{culprit.node.op.name}{where}: makes {kind} from finite operands, first at position "
        f"{index} of {type}{given}",
        source=culprit.node.source,
    )


def _operands_at(culprit: Culprit, index: tuple[int, ...]) -> str:
    """Return the operands of an elementwise op at `index`."""
    if not culprit.node.op.has(Trait.ELEMENTWISE):
        return ""
    shape = culprit.result.shape
    read = [str(np.broadcast_to(operand, shape)[index]) for operand in culprit.operands]
    return f": {culprit.node.op.name}({', '.join(read)}) = {culprit.result[index]}"


def _replay(body: Graph, operands: Sequence[Array]) -> dict[Value, Array]:
    """Return the value of everything in `body`, by the reference interpreter."""
    copy = Graph(body.name)
    value_map: dict[Value, Value] = {}
    for node in body.nodes:
        copy.copy_node(node, value_map)
    copy.set_outputs(value_map.values())
    names = [value.node.attribute("name") for value in body.inputs]
    results = evaluate(copy, dict(zip(names, operands, strict=True)))
    return dict(zip(value_map, results, strict=True))


def _computing(body: Graph) -> Iterator[Node]:
    return (node for node in body.nodes if not node.op.has(Trait.LEAF))
