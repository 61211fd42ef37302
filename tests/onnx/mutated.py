"""Load and run damaged models in a process with limits: `python -m tests.onnx.mutated SEED COUNT`.

It ends with an error where one is neither refused with a typed error nor has results, or takes
more than its memory or its time. Those that load are run by the interpreter, some by LLVM too.
"""

from __future__ import annotations

import random
import resource
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import rlx.onnx
from rlx.errors import InternalError, RlxError
from rlx.onnx.inputs import declared_inputs
from rlx.onnx.model import read_model
from rlx.onnx.types import numpy_dtype
from tests.fuzz.check import time_limit
from tests.onnx.models import NODES, flattening, indexing, of_one_node, perceptron, recurrent
from tests.onnx.restructured import restructured
from tests.onnx.test_contrib import CASES, built

MEMORY = 1 << 30
"""Bytes that damaged models of a few KB may take, beyond what the imports have."""
SECONDS = 20
"""Of work that a damaged model may cause."""
COMPILED = 25
"""One of so many is compiled by LLVM."""
_LARGEST = 1 << 16
"""Elements of inputs that are made for a run."""


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


def damaged(model: Any, rng: random.Random) -> bytes:
    """Return a file with bytes changed, which seldom parses, or with parts changed, which does."""
    if rng.random() < 0.3:
        return mutated(model.SerializeToString(), rng)
    return restructured(model, rng)


def refused(seed: int, count: int) -> tuple[int, int]:
    """Return how many of `count` damaged models are refused, and how many have results."""
    rng = random.Random(seed)
    whole = [perceptron(), flattening(), recurrent(), indexing(), *(of_one_node(*n) for n in NODES)]
    whole += [built(op, draw(np.random.default_rng(seed)))[0] for op, draw in CASES.items()]
    found, run = 0, 0
    for number in range(count):
        content = damaged(rng.choice(whole), rng)
        backend = "reference" if number % COMPILED else "llvm"
        try:
            with time_limit(SECONDS):
                rlx.onnx.load(content, dims=open_extents(content))
                run += runs(content, backend)
        except InternalError:
            raise
        except RlxError:
            found += 1
    return found, run


def open_extents(source: bytes | Path, limits: rlx.LoadLimits | None = None) -> dict[str, int]:
    """Return an extent for each dimension that a model leaves open by name."""
    values = declared_inputs(read_model(source, limits))
    types = (value.type.tensor_type for value in values)
    return {dim.dim_param: 2 for type in types for dim in type.shape.dim if dim.dim_param}


def runs(content: bytes, backend: str) -> bool:
    """Run a model on ones; False where the inputs that it declares are large."""
    given: dict[str, Any] = {}
    for value in declared_inputs(read_model(content)):
        declared = value.type.tensor_type
        shape = [d.dim_value if d.dim_value > 0 else 2 for d in declared.shape.dim]
        if np.prod(shape, dtype=float) > _LARGEST:
            return False
        given[value.name] = np.ones(shape, numpy_dtype(declared.elem_type))
    results = rlx.onnx.InferenceSession(content, backend=backend).run(None, given)
    assert all(isinstance(result, (np.ndarray, list)) for result in results)
    return True


def limit_memory() -> None:
    """Let the process have `MEMORY` more than it has."""
    with open("/proc/self/statm") as statm:
        taken = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))


if __name__ == "__main__":
    limit_memory()
    warnings.simplefilter("ignore")  # of numbers that overflow, which damaged weights make
    print(*refused(int(sys.argv[1]), int(sys.argv[2])))
