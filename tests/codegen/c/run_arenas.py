"""Call the entries of a library on the arenas in a file: the process that a sanitizer watches.

It imports nothing of rlx, which takes longer than the kernels do.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np


def main(path: str, arenas: str) -> None:
    """Leave the arenas in the file as the entries named as they are leave them."""
    library = ctypes.CDLL(path)
    after: dict[str, Any] = {}
    with np.load(arenas) as before:
        for name, arena in before.items():
            memory = np.empty(arena.size + 64, np.uint8)
            start = -memory.ctypes.data % 64
            after[name] = memory[start : start + arena.size]
            after[name][:] = arena
            print(name, library[name](ctypes.c_void_p(after[name].ctypes.data)))
    np.savez(arenas, **after)


if __name__ == "__main__":
    main(*sys.argv[1:])
