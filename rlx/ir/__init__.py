"""The graph IR. Importing it declares every op, so that `OPS` is complete."""

from __future__ import annotations

from rlx.ir import ops as ops
from rlx.ir import printer as printer
