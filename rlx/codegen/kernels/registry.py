"""Thunk kinds and the builders of their kernels.

A builder states one kind's computation over readers and writers, with the op's attributes:

    @kernel("softmax")
    def softmax(scope: Scope, x: Reader, y: Writer, *, axis: int) -> None: ...

An op may have a further kernel for each kind of lowering record, which its builder is given if it
takes one:

    @kernel("matmul", lowering=Schedule)
    def contract_by_schedule(scope: Scope, ..., lowering: Schedule) -> None: ...

`build_kernel` makes the kernel of a thunk: it declares the arguments from the thunk's types
and calls the builder of the thunk's kind, or of the anchor of a fused body.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.extents import Extents
from rlx.codegen.kernels.grouped import Body
from rlx.codegen.kernels.parallel import is_large
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.codegen.loops.passes.pipeline import KernelPass
from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir.dtype import DType
from rlx.ir.lazy_table import LazyTable
from rlx.ir.lowering import Lowering
from rlx.ir.shape import Extent
from rlx.target import Target

Builder: TypeAlias = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Scope:
    """Context of a kernel builder: the builder, target, extents and scratch."""

    k: KernelBuilder
    extents: Extents
    """Extents as expressions: literals or the kernel's arguments."""
    body: Body
    scratch: Buffer | None
    """Arena memory for this kernel's use, in the compute type of its anchor's operand 0."""
    target: Target
    """What the kernel runs on."""
    large: bool | None = None
    """Whether the work is worth several threads, where extents do not say it."""
    passes: list[KernelPass] = field(default_factory=list)
    """What the kernel goes through when it is built."""

    @property
    def scratch_memory(self) -> Buffer:
        """The scratch of a kernel that asks for some."""
        if self.scratch is None:
            raise InternalError(f"kernel {self.k.name} needs scratch")
        return self.scratch

    def lanes(self, prim: Prim) -> int:
        """Return how many numbers fit a vector; 1 where there are none."""
        return self.target.lanes(prim.size)

    def is_large(self, work: Extent) -> bool:
        """True if `work` elements are worth several threads."""
        return is_large(work) if self.large is None else self.large


KERNELS: LazyTable[Builder] = LazyTable("kernel")
"""Thunk kind -> builder `(scope, *readers, *writers, **attributes)`."""

LOWERED: LazyTable[Builder] = LazyTable("lowered kernel")
"""Thunk kind and kind of record (`lowered_key`) -> builder, which may take the record, as
`lowering`."""


def lowered_key(kind: str, lowering: type[Lowering] | None) -> str:
    """Return the name of an entry for a thunk kind with a kind of lowering record, or with none."""
    return kind if lowering is None else f"{kind}/{lowering.__name__}"


def kernel(*kinds: str, lowering: type[Lowering] | None = None) -> Callable[[Builder], Builder]:
    """Register the builder of one or more thunk kinds, plain or with a lowering record."""

    def register(builder: Builder) -> Builder:
        for kind in kinds:
            table = KERNELS if lowering is None else LOWERED
            key = lowered_key(kind, lowering)
            if not table.is_free(key):
                raise InternalError(f"kernel {kind} is registered twice")
            table[key] = builder
        return builder

    return register


def has_builder(kind: str, lowering: Lowering | None) -> bool:
    """True if there is a kernel for a thunk kind with this record, or with none."""
    return kind in KERNELS if lowering is None else lowered_key(kind, type(lowering)) in LOWERED


REASONS: LazyTable[str] = LazyTable("no kernel")
"""Op name -> why no thunk of its kind ever reaches code generation."""


def no_kernel(name: str, *, because: str) -> None:
    """Declare that an op has no kernel, for the completeness test and for readers."""
    REASONS[name] = because


ScratchRule: TypeAlias = Callable[..., int]
SCRATCH: LazyTable[ScratchRule] = LazyTable("scratch")
"""Thunk kind and kind of record (`lowered_key`) -> bytes of scratch, from `(*operand types,
results=result types, **attributes)`, and the record, as `lowering`, where there is one."""


SCRATCH_ELEMENTS: LazyTable[Callable[[DType], Prim]] = LazyTable("scratch elements")
"""Thunk kind -> what its scratch holds, by the dtype of its first operand; by default that is
the operand's compute type."""


def scratch(
    kind: str,
    *,
    lowering: type[Lowering] | None = None,
    elements: Callable[[DType], Prim] | None = None,
) -> Callable[[ScratchRule], ScratchRule]:
    """Register how many bytes of scratch the kernel of a kind needs.

    The kernel sees them as `elements`, by default of its first operand's compute type.
    """

    def register(rule: ScratchRule) -> ScratchRule:
        SCRATCH[lowered_key(kind, lowering)] = rule
        if elements is not None:
            SCRATCH_ELEMENTS[kind] = elements
        return rule

    return register


OpenRule: TypeAlias = Callable[..., Mapping[str, int] | None]
OPEN: LazyTable[OpenRule] = LazyTable("open extents")
"""Thunk kind -> the extents that its kernel can take as arguments, from `(shape of the operand,
**attributes)`: that shape with adjacent axes merged, by name; or None."""


def open_extents(kind: str) -> Callable[[OpenRule], OpenRule]:
    """Register which extents thunks of one operand need not agree in to share a kernel.

    The kernel must be about as fast as with literals, and its result's type follow from the
    operand's.
    """

    def register(rule: OpenRule) -> OpenRule:
        OPEN[kind] = rule
        return rule

    return register


def invoke_builder(
    kind: str,
    scope: Scope,
    readers: list[Reader],
    writers: list[Writer],
    attributes: dict[str, Any],
    lowering: Lowering | None = None,
) -> None:
    """Call the builder of `kind`; a kind without one is a fault of lowering."""
    if not has_builder(kind, lowering):
        chosen = "" if lowering is None else f" with lowering {lowering.name}"
        raise InternalError(
            f"no kernel for thunk kind {kind!r}{chosen}",
            remedy="decompose the op, or register a kernel in rlx/codegen/kernels and run "
            "python tools/generate_homes.py",
        )
    if lowering is None:
        KERNELS[kind](scope, *readers, *writers, **attributes)
    else:
        build = LOWERED[lowered_key(kind, type(lowering))]
        record = {"lowering": lowering} if _takes_record(build) else {}
        build(scope, *readers, *writers, **record, **attributes)


@functools.cache
def _takes_record(builder: Builder) -> bool:
    """True if a builder reads its record, which says more than its kind."""
    return "lowering" in inspect.signature(builder).parameters
