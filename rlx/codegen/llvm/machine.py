"""The machine that code is generated for: plain data, so that emitting text needs no LLVM."""

from __future__ import annotations

from rlx.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """A CPU as LLVM names it. `features` is LLVM's list, such as `+avx2,-avx512f`."""

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    """Bytes of the widest registers worth using."""
    abi: str = ""
    """How arguments are passed, where the triple leaves it open."""

    @property
    def is_x86(self) -> bool:
        return self.triple.startswith(("x86_64", "i686", "i386"))
