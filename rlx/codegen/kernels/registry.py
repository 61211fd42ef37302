"""Thunk kinds and the builders of their kernels.

A builder states one kind's computation over readers and writers, with the op's attributes:

    @kernel("softmax")
    def softmax(scope: Scope, x: Reader, y: Writer, *, axis: int) -> None: ...

`build_kernel` makes the kernel of a thunk: it declares the arguments from the thunk's types
and calls the builder of the thunk's kind, or of the anchor of a fused body.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from rlx.codegen.kernels.access import Body, Reader, Writer
from rlx.codegen.kernels.extents import Extents
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.nodes import Buffer
from rlx.errors import InternalError

Builder: TypeAlias = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Scope:
    """What a kernel builder builds with."""

    k: KernelBuilder
    extents: Extents
    """Extents as expressions: literals or the kernel's arguments."""
    body: Body
    scratch: Buffer | None = None
    """Arena memory for this kernel's use, in the compute type of its anchor's operand 0."""


KERNELS: dict[str, Builder] = {}
"""Thunk kind -> builder `(scope, *readers, *writers, **attributes)`."""


def kernel(*kinds: str) -> Callable[[Builder], Builder]:
    """Register the builder of one or more thunk kinds; a kind has one builder."""

    def register(builder: Builder) -> Builder:
        for kind in kinds:
            if kind in KERNELS:
                raise InternalError(f"kernel {kind} is registered twice")
            KERNELS[kind] = builder
        return builder

    return register


REASONS: dict[str, str] = {}
"""Op name -> why no thunk of its kind ever reaches code generation."""


def no_kernel(name: str, *, because: str) -> None:
    """Declare that an op has no kernel, for the completeness test and for readers."""
    REASONS[name] = because


ScratchRule: TypeAlias = Callable[..., int]
SCRATCH: dict[str, ScratchRule] = {}
"""Thunk kind -> bytes of scratch, from `(operand types, result types, **attributes)`."""


def scratch(kind: str) -> Callable[[ScratchRule], ScratchRule]:
    """Register how many bytes of scratch the kernel of a kind needs.

    The kernel sees them as elements of its first result's compute type.
    """

    def register(rule: ScratchRule) -> ScratchRule:
        SCRATCH[kind] = rule
        return rule

    return register


def invoke_builder(
    kind: str,
    scope: Scope,
    readers: list[Reader],
    writers: list[Writer],
    attributes: dict[str, Any],
) -> None:
    """Call the builder of `kind`; a kind without one is a fault of lowering."""
    if kind not in KERNELS:
        raise InternalError(
            f"no kernel for thunk kind {kind!r}",
            remedy="decompose the op or register a kernel in rlx/codegen/kernels",
        )
    KERNELS[kind](scope, *readers, *writers, **attributes)
