"""The passes that `rlx.compile(..., without=)` may leave out: what remains is a valid program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rlx.errors import InputError
from rlx.ir.source_lines import calling_source
from rlx.target import Target

OPTIONAL_PASSES = (
    "dead-code", "fold-batch-norm", "reroll-reductions", "segment-scans", "pack-scaled-weights",
    "sort-rows", "tile-attention", "hoist-updates", "update-in-place", "scaled-products",
    "exact-products", "fold-constants", "simplify", "common-subexpressions", "byte-tables",
    "fold-collectives", "hoist-collectives", "bundle-collectives", "simplify-loops",
    "absorb-transposes", "scalar-regions", "fuse-loop-bodies", "use-lapack", "share-factors",
    "split-sorts", "sort-in-lanes", "split-phases", "channels-last", "tile-convolutions",
    "use-blas", "pack-operands", "tile-ragged", "loop-invariant-code-motion", "propagate-reshapes",
    "start-collectives", "recompute-formulas", "fuse", "row-regions", "share-bodies",
    "split-reductions",
)  # fmt: skip
"""In the order of the pipeline; all others make what backends require."""


def without_passes(target: Target, names: Iterable[str]) -> Target:
    """Return `target` as its pipeline leaves out the passes of these names."""
    disabled = pass_names(names)
    return replace(target, disabled_passes=disabled) if disabled else target


def pass_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names once each, in the order of the pipeline; unknown ones are an error."""
    given = {names} if isinstance(names, str) else set(names)
    unknown = sorted(given.difference(OPTIONAL_PASSES))
    if unknown:
        raise InputError(
            f"no pass that can be left out is called {unknown[0]!r}",
            source=calling_source(),
            remedy=f"use some of: {', '.join(OPTIONAL_PASSES)}",
        )
    return tuple(name for name in OPTIONAL_PASSES if name in given)
