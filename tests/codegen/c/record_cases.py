"""The kernels of the recorded uses of ops as one module; run all of them from a library.

As a program it is the process that a sanitizer watches.
"""

from __future__ import annotations

import ctypes
import re
import sys

from rlx.codegen.kernels import has_kernel
from rlx.ir.dtype import DType
from tests.codegen.kernels.native import Case, case_of, run_case
from tests.records import OpRecord, records


def record_cases(stride: int, start: int) -> list[tuple[OpRecord, DType, Case]]:
    """Return every `stride`-th recorded use that has a kernel, from the one at `start`."""
    uses = [(r, d) for r in records() if has_kernel(r.op) for d in r.dtypes]
    return [
        (record, dtype, case_of(record.graph(dtype), re.sub(r"\W", "_", f"{record.id}_{dtype}")))
        for record, dtype in uses[start::stride]
    ]


def main(path: str, stride: int, start: int) -> None:
    library = ctypes.CDLL(path)
    for record, dtype, case in record_cases(stride, start):
        address = ctypes.cast(library[case.entry.name], ctypes.c_void_p).value
        assert address is not None
        status, _ = run_case(case, address, list(record.inputs(dtype).values()))
        assert status == 0, case.name
    print("clean")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
