"""C that kernels call to reach other ranks: functions over MPI, from a template."""

from __future__ import annotations

from collections.abc import Sequence

from rlx.codegen.mpi_names import PREFIX, fold_name, is_collective
from rlx.codegen.text import Emitted, identifier
from rlx.dataclass import dataclass
from rlx.ir.dtype import DType

_TYPES = {
    DType.F32: "MPI_FLOAT",
    DType.F64: "MPI_DOUBLE",
    DType.I8: "MPI_INT8_T",
    DType.I16: "MPI_INT16_T",
    DType.I32: "MPI_INT32_T",
    DType.I64: "MPI_INT64_T",
    DType.U8: "MPI_UINT8_T",
    DType.U16: "MPI_UINT16_T",
    DType.U32: "MPI_UINT32_T",
    DType.U64: "MPI_UINT64_T",
    DType.C64: "MPI_C_FLOAT_COMPLEX",
    DType.C128: "MPI_C_DOUBLE_COMPLEX",
}
_C_FLOATS = {DType.F32: "float", DType.F64: "double"}


@dataclass(frozen=True, slots=True)
class Reduction:
    """A function that folds elements of one dtype over ranks."""

    symbol: Emitted
    reduction: str
    dtype: DType

    @property
    def mpi_type(self) -> Emitted:
        return identifier(_TYPES[self.dtype])

    @property
    def mpi_op(self) -> Emitted:
        return identifier(f"MPI_{self.reduction.upper()}")

    @property
    def width(self) -> int:
        return self.dtype.size

    @property
    def is_extremum_of_floats(self) -> bool:
        return self.reduction != "sum" and self.dtype in _C_FLOATS

    @property
    def name(self) -> Emitted:
        """The name of the MPI reduction operator."""
        return identifier(f"mpi_{self.reduction}_{self.dtype}")

    @property
    def c_type(self) -> Emitted:
        return identifier(_C_FLOATS[self.dtype])


def _folds(symbols: Sequence[str], collective: str) -> list[Reduction]:
    """Return those of `symbols` that `fold_name` made for `collective`."""
    found = []
    for dtype in _TYPES:
        for reduction in ("sum", "max", "min"):
            symbol = PREFIX + fold_name(collective, reduction, dtype)
            if symbol in symbols:
                found.append(Reduction(identifier(symbol), reduction, dtype))
    return found


def collectives_text(symbols: Sequence[str]) -> str:
    """Return the C text that defines those of `symbols` that are collectives; "" for none."""
    wanted = [symbol for symbol in symbols if is_collective(symbol)]
    if not wanted:
        return ""
    from rlx.codegen.c.templates import environment  # Jinja, which few LLVM programs need

    all_reduces = _folds(wanted, "all_reduce")
    return (
        environment()
        .get_template("collectives.c.j2")
        .render(
            symbols=wanted,
            extrema=[fold for fold in all_reduces if fold.is_extremum_of_floats],
            all_reduces=all_reduces,
            starts=_folds(wanted, "all_reduce_start"),
            reduce_scatters=_folds(wanted, "reduce_scatter"),
        )
    )
