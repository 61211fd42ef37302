"""The runtime image: data needed to run a program, without graph, plan or schedule.

An image is made from a program, or read from a file that an earlier process left:

    rlx-image 4
    {"name": "mlp", "arena_bytes": 4096, ...}
    <the constants that passes made>

Constants that are in the source graph as they are needed are given by their number among its
constants: weights in a graph are not stored a second time. Where the source graph will not be at
hand, all are stored.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from rlx.codegen.regions import Region
from rlx.dataclass import dataclass
from rlx.errors import FormatError
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.literal import Literal
from rlx.ir.types import TensorType

if TYPE_CHECKING:
    from rlx.passes.memory.plan import MemoryPlan

_FIRST_LINE = b"rlx-image 4\n"
_LEAST_SHARED_BYTES = 256
"""Smaller constants are stored, whether or not the source graph has them."""


class Planned(Protocol):
    """The part of a lowered program that an image is made from."""

    @property
    def plan(self) -> MemoryPlan: ...

    @property
    def schedule(self) -> Named: ...


class Named(Protocol):
    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Image:
    """Byte offsets into the arena, and how the entries are called."""

    name: str
    """Begins the names of the entries."""
    arena_bytes: int
    leaves: Mapping[str, int]
    """Offsets of the inputs and params that passes kept."""
    outputs: tuple[int, ...]
    constants: tuple[tuple[int, Literal], ...]
    regions: tuple[Region, ...] = ()
    threads: int = 1
    passing: tuple[str, ...] = ()
    """Large params that `setup` alone reads."""
    setup_takes_places: bool = False
    """True if there is an entry of `setup` that takes their addresses."""
    resident_bytes: int = 0
    """Inputs, outputs and temporaries follow these; 0 where that is not known."""
    residents: str | None = None
    """Digest of what stays in the arena from call to call, and where; None where ops of the user's
    own make it (`graph_digest`)."""

    @staticmethod
    def of(program: Planned, *, regions: Sequence[Region] = (), threads: int = 1) -> Image:
        from rlx.runtime.resident_layout import passing_params, residents_digest

        plan = program.plan
        leaves = (*plan.graph.inputs, *plan.graph.params)
        return Image(
            name=program.schedule.name,
            arena_bytes=plan.arena_bytes,
            leaves={str(leaf.node.name): plan.slots[leaf].offset for leaf in leaves},
            outputs=tuple(plan.slots[output].offset for output in plan.graph.outputs),
            constants=tuple(_placed_constants(plan)),
            regions=tuple(regions),
            threads=threads,
            passing=passing_params(plan),
            resident_bytes=plan.resident_bytes,
            residents=residents_digest(plan),
        )


def dumps_image(image: Image, source: Graph | None) -> bytes:
    """Return the file for an image of `source`, which must be at hand when it is read, if given."""
    known = [] if source is None else literals_of(source)
    numbers = {literal: i for i, literal in enumerate(known)}
    content = bytearray()
    constants: list[list[Any]] = []
    for offset, literal in image.constants:
        number = numbers.get(literal) if literal.array.nbytes >= _LEAST_SHARED_BYTES else None
        if number is None:
            constants.append([offset, literal.dtype.value, list(literal.array.shape)])
            content += literal.array.tobytes()
        else:
            constants.append([offset, number])
    facts = {
        "name": image.name,
        "arena_bytes": image.arena_bytes,
        "leaves": dict(image.leaves),
        "outputs": image.outputs,
        "constants": constants,
        "regions": [list(asdict(region).values()) for region in image.regions],
        "threads": image.threads,
        "passing": image.passing,
        "setup_takes_places": image.setup_takes_places,
        "resident_bytes": image.resident_bytes,
        "residents": image.residents,
    }
    return _FIRST_LINE + json.dumps(facts).encode() + b"\n" + bytes(content)


def loads_image(data: bytes, source: Graph | None) -> Image:
    """Return the image that `dumps_image` wrote, or raise FormatError."""
    if not data.startswith(_FIRST_LINE):
        raise FormatError("not an image of a program", remedy="compile the program again")
    facts, _, content = data[len(_FIRST_LINE) :].partition(b"\n")
    try:
        fields = json.loads(facts)
        constants = tuple(_constants(fields.pop("constants"), content, source))
        regions = tuple(Region(*values) for values in fields.pop("regions"))
        outputs, passing = tuple(fields.pop("outputs")), tuple(fields.pop("passing"))
        return Image(
            **fields, outputs=outputs, passing=passing, constants=constants, regions=regions
        )
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise FormatError(
            f"the image of {source.name if source else 'a program'!r} is not one: {error}",
            remedy="compile the program again",
        ) from error


def literals_of(graph: Graph) -> list[Literal]:
    """Return the constants of a graph in order, bodies left out."""
    return [node.attribute("value") for node in graph.nodes if node.op.name == "constant"]


def _placed_constants(plan: MemoryPlan) -> Iterator[tuple[int, Literal]]:
    for node in plan.graph.nodes:
        if node.op.name == "constant":
            literal = node.attribute("value")
            slot = plan.slots.get(node.result)
            if slot is not None and literal.array.size:
                yield slot.offset, literal


def _constants(
    rows: list[list[Any]], content: bytes, source: Graph | None
) -> Iterator[tuple[int, Literal]]:
    shared = [] if source is None else literals_of(source)
    start = 0
    for offset, first, *shape in rows:
        if not shape:
            yield offset, shared[first]
            continue
        extents = tuple(operator.index(extent) for extent in shape[0])
        type = TensorType(DType(first), extents)
        stop = start + type.dtype.size * math.prod(extents)
        yield offset, Literal.from_bytes(type, content[start:stop])
        start = stop
