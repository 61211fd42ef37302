"""C that kernels call to reach other ranks: functions over MPI, from a template."""

from __future__ import annotations

from collections.abc import Sequence

from rlx.ir.dtype import DType

PREFIX = "rlx_mpi_"
_TYPES = {
    DType.F32: "MPI_FLOAT",
    DType.F64: "MPI_DOUBLE",
    DType.I8: "MPI_INT8_T",
    DType.I16: "MPI_INT16_T",
    DType.I32: "MPI_INT32_T",
    DType.I64: "MPI_INT64_T",
    DType.U8: "MPI_UINT8_T",
    DType.U32: "MPI_UINT32_T",
    DType.C64: "MPI_C_FLOAT_COMPLEX",
}
REDUCTIONS = ("sum", "max", "min")


def is_collective(symbol: str) -> bool:
    """True for a function that reaches other ranks, and is built with MPI."""
    return symbol.startswith(PREFIX)


def type_code(dtype: DType) -> int:
    """Return the number by which the C functions know a dtype that can be folded."""
    return list(_TYPES).index(dtype)


def collectives_text(symbols: Sequence[str]) -> str:
    """Return the C text that defines those of `symbols` that are collectives; "" for none."""
    wanted = [symbol for symbol in symbols if is_collective(symbol)]
    if not wanted:
        return ""
    from rlx.codegen.c.templates import environment  # Jinja, which few LLVM programs need

    return (
        environment()
        .get_template("collectives.c.j2")
        .render(
            symbols=wanted,
            typed=any("reduce" in symbol for symbol in wanted),
            types=[(dtype.value, name) for dtype, name in _TYPES.items()],
            f32=type_code(DType.F32),
            f64=type_code(DType.F64),
        )
    )
