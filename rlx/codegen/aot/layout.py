"""Layout of an artifact: arena, weights block, constants.

The memory plan puts params and constants into the arena. An artifact keeps most of them
elsewhere, so that many arenas share them: params in a block that the caller maps read-only,
constants in the code. What remains in the arena moves up; `Layout.relocate` returns where.
"""

from __future__ import annotations

import bisect
import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from rlx.codegen.aot.names import (
    distinct_identifiers,
    names_for_extents,
    names_for_tensors,
    names_of_extents,
)
from rlx.codegen.aot.ranks import communicators_of
from rlx.codegen.c.names import free_name
from rlx.codegen.text import Emitted
from rlx.dataclass import dataclass
from rlx.errors import GraphError, InternalError
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.literal import Literal
from rlx.ir.ranks import RankAxis
from rlx.ir.types import TensorType
from rlx.passes.memory.placement import align_up
from rlx.passes.memory.plan import MemoryPlan
from rlx.passes.memory.planner import ALIGNMENT

WEIGHTS_HEADER_BYTES = 64
"""Magic, version, layout hash, size and content hash before the tensors."""


class Space(enum.Enum):
    """A block of memory that kernels read."""

    ARENA = "arena"
    WEIGHTS = "weights"
    CONSTANTS = "constants"


class Keep(enum.Enum):
    """Storage of a param in an artifact: weights file, constants in the code, or the arena."""

    FILE = "file"
    EMBED = "embed"
    ARGUMENT = "argument"


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input, output, param or constant: its name in the graph and in C, and its place.

    `initial` is the source of the first value of a param in the arena.
    """

    name: str
    c_name: str
    type: TensorType
    space: Space
    offset: int
    keep: Keep | None = None
    donated: bool = False
    initial: tuple[Space, int] | None = None
    ranks: RankAxis | None = None
    """Those that it reaches, if it is a communicator."""
    labels: tuple[str | int, ...] = ()
    """Names of classes, which its numbers or its columns are the indices of."""
    data: Literal | None = field(default=None, repr=False)

    @property
    def bytes(self) -> int:
        return self.type.bytes


@dataclass(frozen=True, slots=True)
class _Cut:
    """Bytes of the plan that are elsewhere in the artifact, and how many the arena loses."""

    start: int
    stop: int
    space: Space
    target: int
    removed_before: int


@dataclass(frozen=True, slots=True)
class ArtifactLayout:
    """The blocks of an artifact and the offsets in them."""

    arena_bytes: int
    weights_bytes: int
    """Size of the weights file with its header; 0 if there is none."""
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    params: tuple[Tensor, ...]
    constants: tuple[Tensor, ...]
    """What is embedded in the code, in order: graph constants, then embedded params."""
    unused: tuple[str, ...]
    """Inputs and params that nothing reads."""
    extents: Mapping[str, Emitted] = field(default_factory=dict)
    """The symbols of the program by name, in order, and what C calls them."""
    _cuts: tuple[_Cut, ...] = field(repr=False, default=())
    alignment: int = ALIGNMENT
    """What offsets in the arena, and its address, are multiples of."""

    @property
    def constants_bytes(self) -> int:
        """Bytes of what is embedded, gaps included."""
        return max((each.offset + each.type.bytes for each in self.constants), default=0)

    def relocate(self, offset: int) -> tuple[Space, int]:
        """Return the place of the byte at `offset` of the memory plan."""
        position = bisect.bisect_right(self._cuts, offset, key=lambda cut: cut.start) - 1
        if position < 0:
            return Space.ARENA, offset
        cut = self._cuts[position]
        if offset < cut.stop:
            return cut.space, cut.target + offset - cut.start
        removed = cut.removed_before + align_up(cut.stop - cut.start, self.alignment)
        return Space.ARENA, offset - removed

    def reads(self, space: Space) -> bool:
        """True if kernels read the block, rather than `init` or `load_weights` alone."""
        return space is Space.ARENA or any(cut.space is space for cut in self._cuts)

    @property
    def weights(self) -> tuple[Tensor, ...]:
        """What the weights file holds, in order, with offsets into the file."""
        return tuple(p for p in self.params if p.keep is Keep.FILE)


def make_layout(
    plan: MemoryPlan,
    declared: Graph,
    keep: Mapping[str, Keep],
    values: Mapping[str, Literal],
    output_names: Sequence[str] = (),
    *,
    name: str = "",
    alignment: int = ALIGNMENT,
    unread: Collection[Value] = (),
) -> ArtifactLayout:
    """Lay out an artifact of `declared`, whose lowered graph has the memory `plan`.

    The artifact is called `name`. `values` holds the content of the embedded params;
    `output_names` names the outputs that replace nothing, in order. `alignment` is that of the
    plan; below that of a cache line, constants are as close as a C struct's members. Constants in
    `unread` are nowhere.
    """
    return _ArtifactLayoutMaker(
        plan, declared, keep, values, output_names, name, alignment, unread
    ).make()


class _ArtifactLayoutMaker:
    def __init__(
        self,
        plan: MemoryPlan,
        declared: Graph,
        keep: Mapping[str, Keep],
        values: Mapping[str, Literal],
        output_names: Sequence[str],
        name: str,
        alignment: int,
        unread: Collection[Value],
    ) -> None:
        self._unread = unread
        self._alignment = alignment
        self._output_names = output_names
        self._plan = plan
        self._declared = declared
        self._keep = keep
        self._values = values
        self._communicators = communicators_of(declared)
        self._leaves = {str(leaf.node.name): leaf for leaf in declared.inputs + declared.params}
        symbols = [symbol.name for symbol in plan.graph.symbols]
        self._name = name
        extents = distinct_identifiers(symbols, names_for_extents(name), artifact=name)
        self._extents = dict(zip(symbols, extents, strict=True))
        reserved = (*names_for_tensors(name), *names_of_extents(extents))
        self._c_names = dict(zip(self._leaves, self._distinct(self._leaves, reserved), strict=True))
        self._reserved = (*reserved, *self._c_names.values())
        self._lowered = {str(v.node.name): v for v in plan.graph.inputs + plan.graph.params}
        self._weights_end = WEIGHTS_HEADER_BYTES
        self._constants_end = 0
        self._constants: list[Tensor] = []
        self._members: set[str] = set(self._c_names.values())
        """Names of what is embedded, and of what may be."""
        self._pool: dict[tuple[DType, bytes], int] = {}
        """Offsets of constants of equal content."""
        self._moved: list[tuple[int, int, Space, int]] = []

    def make(self) -> ArtifactLayout:
        for value, data, offset in _constants_of(self._plan):
            self._embed_constant(value, data, offset)
        self._drop_unread_params()
        moved_params = [self._param(name) for name in self._used(self._declared.params)]
        cuts = tuple(_cuts(self._moved, self._alignment))
        arena = ArtifactLayout(0, 0, (), (), (), (), (), {}, cuts, self._alignment)
        has_weights = any(param.keep is Keep.FILE for param in moved_params)
        return ArtifactLayout(
            arena_bytes=arena.relocate(self._plan.arena_bytes)[1],
            weights_bytes=self._weights_end if has_weights else 0,
            inputs=tuple(self._input(name, arena) for name in self._used(self._declared.inputs)),
            outputs=tuple(self._outputs(arena)),
            params=tuple(_in_arena(param, arena) for param in moved_params),
            constants=tuple(self._constants),
            unused=tuple(name for name in self._leaves if name not in self._lowered),
            extents=self._extents,
            _cuts=cuts,
            alignment=self._alignment,
        )

    def _distinct(self, names: Iterable[str], reserved: Iterable[str]) -> list[Emitted]:
        """Return identifiers of tensors, which differ from the functions that give addresses."""
        return distinct_identifiers(names, reserved, artifact=self._name)

    def _drop_unread_params(self) -> None:
        """Drop params that no kernel reads, as a weights file would have to be present for them."""
        graph = self._plan.graph
        users = graph.users()
        for param in graph.params:
            name = str(param.node.name)
            kept = users[param] or param in graph.outputs or name in graph.donations
            if not kept and self._keep[name] is Keep.FILE:
                del self._lowered[name]

    def _used(self, leaves: tuple[Value, ...]) -> list[str]:
        return [str(v.node.name) for v in leaves if str(v.node.name) in self._lowered]

    def _offset(self, name: str) -> int:
        return self._plan.slots[self._lowered[name]].offset

    def _embed_constant(self, value: Value, data: Literal, offset: int) -> None:
        if value.type.bytes == 0:
            return
        if value in self._unread:  # no kernel reads it: its bytes are left out of the arena
            self._moved.append((offset, offset + value.type.bytes, Space.ARENA, offset))
            return
        label = value.label.removeprefix("%").replace(".", "_")
        name = f"constant_{label}" if self._is_outer(value) else f"constant_{label}_{offset}"
        content = (value.dtype, data.array.tobytes())
        if content not in self._pool:
            self._pool[content] = self._embed(free_name(name, self._members), value.type, data)
        target = self._pool[content]
        self._moved.append((offset, offset + value.type.bytes, Space.CONSTANTS, target))

    def _is_outer(self, value: Value) -> bool:
        """True outside the bodies of control flow, whose nodes have numbers of their own."""
        return value.graph is self._plan.graph

    def _embed(self, c_name: str, type: TensorType, data: Literal) -> int:
        dense = self._alignment < ALIGNMENT
        target = align_up(self._constants_end, type.dtype.part.size if dense else ALIGNMENT)
        self._constants_end = target + type.bytes
        self._members.add(c_name)
        self._constants.append(Tensor(c_name, c_name, type, Space.CONSTANTS, target, data=data))
        return target

    def _param(self, name: str) -> Tensor:
        """Return a param with the plan's offset if it stays in the arena, else its new place."""
        type, keep = self._leaves[name].type, self._keep[name]
        offset, donated = self._offset(name), name in self._plan.graph.donations
        place = self._stored(name, type, keep)
        if place is not None and not donated:
            self._moved.append((offset, offset + type.bytes, *place))
            return Tensor(name, self._c_names[name], type, *place, keep=keep)
        return Tensor(
            name, self._c_names[name], type, Space.ARENA, offset, keep, donated, initial=place
        )

    def _stored(self, name: str, type: TensorType, keep: Keep) -> tuple[Space, int] | None:
        if type.bytes == 0 or keep is Keep.ARGUMENT:
            return None
        if keep is Keep.EMBED:
            return Space.CONSTANTS, self._embed(self._c_names[name], type, self._values[name])
        start = self._weights_end
        self._weights_end = align_up(start + type.bytes, ALIGNMENT)
        return Space.WEIGHTS, start

    def _input(self, name: str, arena: ArtifactLayout) -> Tensor:
        donated = name in self._plan.graph.donations
        place = arena.relocate(self._offset(name))
        type, ranks = self._leaves[name].type, self._communicators.get(name)
        return Tensor(name, self._c_names[name], type, *place, donated=donated, ranks=ranks)

    def _outputs(self, arena: ArtifactLayout) -> Iterator[Tensor]:
        replaces = {position: name for name, position in self._plan.graph.donations.items()}
        outputs = self._plan.graph.outputs
        plain = [position for position in range(len(outputs)) if position not in replaces]
        given = self._output_names or _output_names(len(plain))
        if len(given) != len(plain):
            raise GraphError(
                f"{len(given)} output names for {len(plain)} outputs that replace no param",
                remedy="give one name for each of these outputs",
            )
        by_position = dict(zip(plain, given, strict=True))
        named = [by_position.get(i) or f"{replaces[i]}_next" for i in range(len(outputs))]
        for position, (output, c_name) in enumerate(
            zip(outputs, self._distinct(named, self._reserved), strict=True)
        ):
            space, offset = arena.relocate(self._plan.slots[output].offset)
            if space is not Space.ARENA:
                raise InternalError(f"output {position} is in the {space.value}, not the arena")
            donated = position in replaces
            labels = self._plan.graph.output_labels[position : position + 1]
            yield Tensor(
                named[position], c_name, output.type, space, offset, donated=donated,
                labels=labels[0] if labels else (),
            )  # fmt: skip


def _output_names(count: int) -> list[str]:
    return ["y"] if count == 1 else [f"y_{position}" for position in range(count)]


def _constants_of(plan: MemoryPlan) -> Iterator[tuple[Value, Literal, int]]:
    """Yield the constants of the graph and of all bodies, with their offsets in the plan."""
    for node in plan.graph.nodes:
        if node.op.name == "constant" and node.result in plan.slots:
            yield node.result, node.attribute("value"), plan.slots[node.result].offset
    for bodies in plan.bodies.values():
        for body in bodies:
            yield from _constants_of(body)


def _cuts(moved: list[tuple[int, int, Space, int]], alignment: int) -> Iterator[_Cut]:
    removed = 0
    for start, stop, space, target in sorted(moved, key=lambda each: each[0]):
        yield _Cut(start, stop, space, target, removed)
        removed += align_up(stop - start, alignment)


def _in_arena(param: Tensor, arena: ArtifactLayout) -> Tensor:
    if param.space is not Space.ARENA:
        return param
    _, offset = arena.relocate(param.offset)
    return Tensor(
        param.name, param.c_name, param.type, Space.ARENA, offset, param.keep, param.donated,
        initial=param.initial,
    )  # fmt: skip
