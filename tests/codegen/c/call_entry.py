"""Print what the function `entry` of a library makes of a number: a process to be watched."""

from __future__ import annotations

import ctypes
import sys

if __name__ == "__main__":
    print(ctypes.CDLL(sys.argv[1]).entry(int(sys.argv[2])))
