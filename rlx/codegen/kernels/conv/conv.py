"""The plain convolution, for any dtype and geometry, and for sizes too small to pack."""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.contraction.plain import contract
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.ir.shape import upper

_COLUMNS = 256
"""Columns of a block: their sums stay in the first-level cache."""


@kernel("conv", "stored_conv")
def conv(scope: Scope, x: Reader, w: Reader, out: Writer, **_: object) -> None:
    contract(scope, x, w, out, width=min(_COLUMNS, upper(out.shape[-1])))
