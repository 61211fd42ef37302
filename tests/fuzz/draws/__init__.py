"""Kinds of draws other than programs of lines, one a file: `case(pick)` draws one."""

from __future__ import annotations

from collections.abc import Mapping

from tests.fuzz.draws import (
    callbacks,
    constants,
    donation,
    indices,
    library,
    quantized,
    ranks,
    symbolic,
)
from tests.fuzz.draws.case import Kind

KINDS: Mapping[str, Kind] = {
    "indices": indices.case, "library": library.case, "constants": constants.case,
    "symbolic": symbolic.case, "callbacks": callbacks.case, "donation": donation.case,
    "ranks": ranks.case, "quantized": quantized.case,
}  # fmt: skip
