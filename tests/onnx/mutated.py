"""Load damaged models in a process with limits: `python -m tests.onnx.mutated SEED COUNT`.

It ends with an error where one is not refused with a typed error, or takes more than its memory.
"""

from __future__ import annotations

import random
import resource
import sys

import rlx.onnx
from rlx.errors import InternalError, RlxError
from tests.onnx.models import flattening, perceptron, recurrent

MEMORY = 1 << 30
"""Bytes that damaged models of a few KB may take, beyond what the imports have."""


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Return a file that is cut, or in which some bytes are changed, missing or added."""
    data = bytearray(content[: rng.randrange(len(content))] if rng.random() < 0.2 else content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.randrange(len(data) or 1)
        kind = rng.randrange(3)
        if kind == 0 and data:
            data[place] = rng.randrange(256)
        elif kind == 1:
            del data[place : place + 1]
        else:
            data.insert(place, rng.randrange(256))
    return bytes(data)


def refused(seed: int, count: int) -> int:
    """Return how many of `count` damaged models are refused; the others mean something."""
    rng = random.Random(seed)
    whole = [made.SerializeToString() for made in (perceptron(), flattening(), recurrent())]
    found = 0
    for _ in range(count):
        try:
            rlx.onnx.load(mutated(rng.choice(whole), rng), dims={"batch": 2, "n": 2})
        except InternalError:
            raise
        except RlxError:
            found += 1
    return found


def limit_memory() -> None:
    """Let the process have `MEMORY` more than it has."""
    with open("/proc/self/statm") as statm:
        taken = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))


if __name__ == "__main__":
    limit_memory()
    print(refused(int(sys.argv[1]), int(sys.argv[2])))
