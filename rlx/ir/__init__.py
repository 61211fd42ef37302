"""The graph IR."""

from rlx.ir import printer as printer
