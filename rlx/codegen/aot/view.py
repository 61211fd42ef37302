"""Views of kernels, tensors and constants of an artifact, as plain data for its templates."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from rlx.codegen.aot.layout import ArtifactLayout, Keep, Tensor
from rlx.codegen.aot.phases import PhaseKernel
from rlx.codegen.aot.status import MEANING, AnyStatus
from rlx.codegen.c.spelling import literal
from rlx.codegen.entry import can_fail
from rlx.codegen.loops.nodes import Const, Prim, ValueType, storage
from rlx.codegen.text import Emitted, c_string, identifier, verbatim
from rlx.dataclass import dataclass
from rlx.ir.demands import demanded
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.literal import Literal
from rlx.ir.ranks import RankAxis
from rlx.ir.shape import Extent, Factor, Quotient, Symbol, ends, upper
from rlx.ir.types import TensorType
from rlx.passes.rewrite import bodies_of

ABI_VERSION = 2
_NOTES = {
    DType.F16: "IEEE half precision, as its bits",
    DType.BF16: "bfloat16, as its bits",
    DType.F8_E4M3FN: "float8_e4m3fn, as its bits",
    DType.F8_E5M2: "float8_e5m2, as its bits",
    DType.C64: "pairs of real and imaginary part",
    DType.C128: "pairs of real and imaginary part",
}
_C_TYPES = {Prim.F32: "float", Prim.F64: "double", Prim.BOOL: "bool"}
_LINE_LENGTH = 98
_FIXED, _COMPUTED = -1, -2
_FATES = {
    ("INPUT", False): "; not changed by a run",
    ("INPUT", True): "; a run replaces it by its next value",
    ("PARAM", True): "; a run replaces it by its next value",
}


@dataclass(frozen=True, slots=True)
class TensorView:
    """One tensor as the header and the sources mention it."""

    name: str
    c_name: Emitted
    constant: Emitted
    """The stem of its macro-free constants, `MLP_X`."""
    c_type: Emitted
    dtype: str
    shape: str
    extents: tuple[int, ...]
    """Per axis, its largest extent."""
    note: str
    labels: Emitted
    """Initializers of the names of classes, which its numbers or its columns are the indices of."""
    offset: int
    bytes: int
    size: Emitted
    """Bytes at the extents of a call, as an expression."""
    varies: bool
    """True if a call may use fewer bytes."""
    elements: int
    role: Emitted
    space: str
    is_float: bool
    is_replaced: bool
    """True if a run leaves its next value in its place."""
    fate: str
    """What a run does to it, in words."""
    axis_symbols: tuple[int, ...]
    """Per axis, the number of the symbol that it is, as `rlx_info.h` counts."""
    example: tuple[Emitted, ...] = ()
    """The elements that the sample program gives it, as lines of literals."""
    initial: str = ""
    """The block of its first value: `weights` or `constants`."""
    initial_offset: int = 0
    ranks: RankAxis | None = None
    """Those that it reaches, if it is a communicator."""


@dataclass(frozen=True, slots=True)
class ConstantView:
    """An array embedded in the code."""

    c_name: Emitted
    c_type: Emitted
    shape: str
    elements: int
    offset: int
    lines: tuple[Emitted, ...]


@dataclass(frozen=True, slots=True)
class SymbolView:
    name: str
    c_name: Emitted
    constant: Emitted
    min: int
    max: int


BLOCKS = {
    "arena": verbatim("arena"),
    "weights": verbatim("weights_of(arena)"),
    "constants": verbatim("(const uint8_t *)&constant_data"),
}
"""How the interface reaches each block of memory."""


@dataclass(frozen=True, slots=True)
class StepView:
    """A call of a phase's kernel."""

    name: Emitted
    args: tuple[Emitted, ...]
    frame_args: tuple[Emitted, ...]
    """The same in a task that shares a run."""
    fails: bool
    is_shared: bool


@dataclass(frozen=True, slots=True)
class StatusView:
    name: Emitted
    value: int
    text: str


def _literal(label: str | int) -> Emitted:
    """Return a label in C: a string or an integer."""
    return c_string(label) if isinstance(label, str) else verbatim(str(int(label)))


def tensor_view(
    tensor: Tensor, prefix: str, role: str, extents: Mapping[str, Emitted]
) -> TensorView:
    """Return the view of `tensor` in an artifact whose constants start with `prefix`.

    `extents` are the program's symbols and what C calls them, in order.
    """
    prim = storage(tensor.type.dtype)
    pairs = 2 if tensor.type.dtype.is_complex else 1
    initial, initial_offset = ("", 0)
    if tensor.initial is not None:
        initial, initial_offset = tensor.initial[0].value, tensor.initial[1]
    return TensorView(
        name=tensor.name,
        c_name=identifier(tensor.c_name),
        constant=identifier(f"{prefix}_{tensor.c_name.upper()}"),
        c_type=c_type(prim),
        dtype=str(tensor.type.dtype),
        shape=", ".join(map(str, tensor.type.shape)) or "scalar",
        extents=tuple(upper(extent) for extent in tensor.type.shape),
        note=_NOTES.get(tensor.type.dtype, "") if tensor.ranks is None else _reached(tensor.ranks),
        labels=verbatim(", ".join(map(_literal, tensor.labels))),
        offset=tensor.offset,
        bytes=tensor.bytes,
        size=size_text(tensor.type, extents),
        varies=not tensor.type.is_static,
        elements=pairs * tensor.bytes // tensor.type.dtype.size,
        role=identifier(role),
        space=tensor.space.value,
        is_float=prim.is_float,
        is_replaced=tensor.donated,
        fate=_FATES.get((role, tensor.donated), ""),
        axis_symbols=tuple(_axis_symbol(extent, list(extents)) for extent in tensor.type.shape),
        initial=initial,
        initial_offset=initial_offset,
        ranks=tensor.ranks,
    )


def _reached(ranks: RankAxis) -> str:
    """Say of which ranks a communicator is."""
    apart = "" if ranks.stride == 1 else f" that are {ranks.stride} apart"
    return f"what MPI_Comm_c2f gives for {ranks.size} ranks{apart}"


def constant_view(tensor: Tensor) -> ConstantView:
    assert tensor.data is not None, "what is embedded has content"
    texts = literals(tensor.data)
    return ConstantView(
        c_name=identifier(tensor.c_name),
        c_type=c_type(storage(tensor.type.dtype)),
        shape=str(tensor.type),
        elements=len(texts),
        offset=tensor.offset,
        lines=tuple(filled(texts)),
    )


def symbol_view(symbol: Symbol, c_name: Emitted) -> SymbolView:
    constant = identifier(c_name.upper())
    return SymbolView(symbol.name, c_name, constant, symbol.min, symbol.max or 0)


def doubtful_extents(graph: Graph, extents: Mapping[str, Emitted]) -> list[Emitted]:
    """Return the extents, in C, that are negative for some values of their symbols.

    An op refuses them then: its window does not fit, or it reads outside of an axis.
    """
    shapes = (result.shape for node in graph.nodes for result in node.results)
    found = dict.fromkeys(extent for shape in shapes for extent in shape if ends(extent)[0] < 0)
    with demanded() as needed:
        _infer_again(graph)
    return [extent_text(extent, extents) for extent in dict.fromkeys([*found, *needed])]


def _infer_again(graph: Graph) -> None:
    """Infer the types of all nodes, in bodies too, for what inference demands."""
    for node in graph.nodes:
        node.op.infer_types(tuple(operand.type for operand in node.operands), node.attrs)
        for body in bodies_of(node.attrs):
            _infer_again(body)


def step_views(steps: Sequence[PhaseKernel], extents: Collection[str]) -> list[StepView]:
    """Return the views of calls that are given some of the extents, by their names in C."""
    return [_step_view(step, extents) for step in steps]


def _step_view(step: PhaseKernel, extents: Collection[str]) -> StepView:
    kernel = step.kernel
    blocks = [identifier(buffer.name) for buffer in kernel.buffers]
    names = [identifier(scalar.name) for scalar in kernel.scalars if scalar.name in extents]
    return StepView(
        name=identifier(kernel.name),
        args=(*(BLOCKS[block] for block in blocks), *names),
        frame_args=tuple(verbatim(f"frame->{name}") for name in (*blocks, *names)),
        fails=can_fail(kernel),
        is_shared=step.is_shared,
    )


def status_views(statuses: Collection[AnyStatus], alignment: int) -> list[StatusView]:
    """Return the views of `statuses`, by value; `alignment` is the arena's."""
    return [
        StatusView(identifier(status.name), int(status), text.format(alignment=alignment))
        for status, text in MEANING.items()
        if status in statuses
    ]


def c_type(prim: Prim) -> Emitted:
    """Return the C type of an element; half floats are their bits."""
    if prim in _C_TYPES:
        return identifier(_C_TYPES[prim])
    return identifier(f"{'' if prim.is_signed else 'u'}int{prim.size * 8}_t")


def size_text(type: TensorType, extents: Mapping[str, Emitted]) -> Emitted:
    """Return the bytes of a tensor as a C expression over its symbols."""
    if type.is_static:
        return verbatim(str(type.bytes))
    return verbatim(f"(size_t)({extent_text(type.elements, extents)}) * {type.dtype.size}")


def extent_text(extent: Extent, extents: Mapping[str, Emitted]) -> Emitted:
    """Return an extent as a C expression of int64_t; `extents` are the names of symbols in C."""
    if isinstance(extent, int):
        return verbatim(str(extent))
    terms = [
        " * ".join([*([] if factor == 1 and monomial else [str(factor)]),
                    *(_factor_text(each, extents) for each in monomial)])
        for monomial, factor in extent.terms
    ]  # fmt: skip
    return verbatim(" + ".join(terms))


def _factor_text(factor: Factor, extents: Mapping[str, Emitted]) -> Emitted:
    """Return a factor in C, whose division rounds towards zero: see `Extents`."""
    if not isinstance(factor, Quotient):
        return extents[factor.name]
    dividend, missing = factor.nonnegative
    text = f"({extent_text(dividend, extents)}) / {factor.divisor}"
    return verbatim(f"({text} - {missing})" if missing else f"({text})")


def literals(data: Literal) -> list[str]:
    """Return the elements of `data` as C literals, in memory order."""
    prim = storage(data.dtype)
    raw = data.array.reshape(-1)
    flat = raw.view(f"u{prim.size}") if data.dtype.is_low_precision else raw
    pairs = flat.view(data.dtype.part.numpy) if data.dtype.is_complex else flat
    type = ValueType(prim)
    return [literal(Const(x, type)) for x in pairs.tolist()]


def filled(texts: Sequence[str]) -> Iterator[Emitted]:
    """Yield comma-separated lines of literals, of limited length."""
    line = ""
    for text in texts:
        if line and len(line) + len(text) + 2 > _LINE_LENGTH - 4:
            yield verbatim(line)
            line = ""
        line += f"{' ' if line else ''}{text},"
    if line:
        yield verbatim(line)


def keeps(layout: ArtifactLayout, keep: Keep) -> list[Tensor]:
    return [param for param in layout.params if param.keep is keep]


def _axis_symbol(extent: Extent, names: Sequence[str]) -> int:
    if isinstance(extent, int):
        return _FIXED
    return names.index(str(extent)) if str(extent) in names else _COMPUTED
