"""Cache entries of compiled machine code."""

from __future__ import annotations

from rlx.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class MachineCode:
    """Cached machine code, and the data needed to load it again."""

    keys: tuple[str, ...]
    """Names of the files in the cache: a shared library, or the objects that are linked."""
    entries: tuple[str, ...]
    externals: tuple[tuple[str, str], ...]
    """The functions that it calls, and what each is called where it comes from."""
