"""What the functions of an artifact return: the statuses of kernels, and those of loading."""

from __future__ import annotations

import enum

from rlx.codegen.loops.nodes import Status


class LoadStatus(enum.IntEnum):
    """Faults of the arena or the weights that a caller hands over."""

    SHORT_ARENA = 16
    NO_WEIGHTS = 17
    MISALIGNED_WEIGHTS = 18
    FOREIGN_WEIGHTS = 19
    CORRUPT_WEIGHTS = 20


MEANING: dict[Status | LoadStatus, str] = {
    Status.OK: "ok",
    Status.NULL_ARENA: "the arena is NULL",
    Status.MISALIGNED_ARENA: "the arena is not aligned to 64 bytes",
    Status.NOT_SET_UP: "the arena is not set up: call init and setup first",
    Status.EXTENT_OUT_OF_RANGE: "an extent is outside its bounds",
    Status.INDEX_OUT_OF_RANGE: "an index is out of range",
    Status.SINGULAR_MATRIX: "a matrix is singular",
    Status.INVALID_DISTRIBUTION: "logits without a distribution",
    Status.COLLECTIVE_FAILED: "MPI returned an error",
    LoadStatus.SHORT_ARENA: "the arena is too small",
    LoadStatus.NO_WEIGHTS: "the weights are missing: call load_weights before setup",
    LoadStatus.MISALIGNED_WEIGHTS: "the weights are not aligned to 64 bytes",
    LoadStatus.FOREIGN_WEIGHTS: "the weights belong to another model or format version",
    LoadStatus.CORRUPT_WEIGHTS: "the weights are damaged or cut short",
}
"""What `<name>_status_string` says."""
