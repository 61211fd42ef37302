"""The name of machine code that was made before."""

from __future__ import annotations

from rlx.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class MachineCode:
    """Machine code that a cache keeps, and what loading it again takes."""

    key: str
    entries: tuple[str, ...]
    externals: tuple[tuple[str, str], ...]
    """The functions that it calls, and what each is called where it comes from."""
