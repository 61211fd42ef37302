"""Status codes of the functions of an artifact: those of kernels, and those of loading."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TypeAlias

from rlx.codegen.loops.nodes import Fail, Kernel, Status
from rlx.codegen.loops.visit import walk


class LoadStatus(enum.IntEnum):
    """Status codes for invalid arenas and weights of the caller."""

    SHORT_ARENA = 16
    NO_WEIGHTS = 17
    MISALIGNED_WEIGHTS = 18
    FOREIGN_WEIGHTS = 19
    CORRUPT_WEIGHTS = 20


AnyStatus: TypeAlias = Status | LoadStatus

MEANING: dict[AnyStatus, str] = {
    Status.OK: "ok",
    Status.NULL_ARENA: "the arena is NULL",
    Status.MISALIGNED_ARENA: "the arena is not aligned to {alignment} bytes",
    Status.NOT_SET_UP: "the arena is not set up: call init and setup first",
    Status.EXTENT_OUT_OF_RANGE: "an extent is outside its bounds",
    Status.INDEX_OUT_OF_RANGE: "an index is out of range",
    Status.SINGULAR_MATRIX: "a matrix is singular",
    Status.INVALID_DISTRIBUTION: "logits without a distribution",
    Status.COLLECTIVE_FAILED: "MPI returned an error",
    Status.FOREIGN_CALL_FAILED: "a function from outside returned an error",
    Status.CHECK_FAILED: "a check of the program failed",
    LoadStatus.SHORT_ARENA: "the arena is too small",
    LoadStatus.NO_WEIGHTS: "the weights are missing: call load_weights before setup",
    LoadStatus.MISALIGNED_WEIGHTS: "the weights are not aligned to {alignment} bytes",
    LoadStatus.FOREIGN_WEIGHTS: "the weights belong to another model or format version",
    LoadStatus.CORRUPT_WEIGHTS: "the weights are damaged or cut short",
}
"""What `<name>_status_string` says."""

_ARENA = (Status.OK, Status.NULL_ARENA, Status.MISALIGNED_ARENA, Status.NOT_SET_UP)
_WEIGHTS = (
    LoadStatus.NO_WEIGHTS,
    LoadStatus.MISALIGNED_WEIGHTS,
    LoadStatus.FOREIGN_WEIGHTS,
    LoadStatus.CORRUPT_WEIGHTS,
)


def statuses_of(
    kernels: Iterable[Kernel], *, has_weights: bool, has_symbols: bool
) -> set[AnyStatus]:
    """Return what the functions of an artifact can return."""
    fails = (s for kernel in kernels for s in walk(kernel.body) if isinstance(s, Fail))
    found: set[AnyStatus] = {*_ARENA, LoadStatus.SHORT_ARENA, *(fail.status for fail in fails)}
    found.update(_WEIGHTS if has_weights else ())
    return found | ({Status.EXTENT_OUT_OF_RANGE} if has_symbols else set())
