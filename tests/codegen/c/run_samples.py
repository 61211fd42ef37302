"""Call every n-th sample in a shared library: the process that a sanitizer watches."""

from __future__ import annotations

import ctypes
import sys

from tests.codegen.c.native import call_sample
from tests.codegen.loops.samples import SAMPLES


def main(path: str, stride: int) -> None:
    library = ctypes.CDLL(path)
    for sample in SAMPLES[::stride]:
        call_sample(library, sample)
        print(sample.name)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
