"""The machine that code is generated for: plain data, so that emitting text needs no LLVM."""

from __future__ import annotations

from rlx.dataclass import dataclass

_BLOCK = 16


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
    def vector_blocks(self) -> int:
        """Blocks of 128 bits in scalable vectors (SVE), for which alone code is made; or 0."""
        is_wide = self.vector_bytes > _BLOCK and "+sve" in self.features.split(",")
        return self.vector_bytes // _BLOCK if is_wide else 0

    @property
    def instructions(self) -> str:
        """The features, and `+sve256` where scalable vectors have 256 bits."""
        bits = 8 * _BLOCK * self.vector_blocks
        return f"{self.features},+sve{bits}" if bits else self.features

    @property
    def is_x86(self) -> bool:
        return self.triple.startswith(("x86_64", "i686", "i386"))
