"""Lookup of the modules that declare ops and register their rules and kernels.

The lists are in `homes_lists.py`, which `tools/generate_homes.py` writes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from rlx.ir.homes_lists import LISTS


@functools.cache
def homes_of(kind: str) -> Mapping[str, str]:
    """Return the modules by the names of what they declare or register."""
    modules = (line.split() for line in LISTS.get(kind, "").replace("\n    ", " ").splitlines())
    return {name: module for module, *names in filter(None, modules) for name in names}
