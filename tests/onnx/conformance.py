"""ONNX's own tests of operators, run on our backend."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner, _normalize_tensor

import rlx.onnx.backend


@functools.cache
def node_tests() -> dict[str, Any]:
    """Return the tests of nodes by name; making them takes seconds."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return {case.name: case for case in load_model_tests(kind="node")}


def run_case(case: Any, backend: str) -> None:
    """Run a test; raise what it raises."""
    prepared = rlx.onnx.backend.prepare(case.model, backend=backend)
    for given, expected in case.data_sets:
        outputs = prepared.run([_normalize_tensor(x) for x in given])
        Runner.assert_similar_outputs(
            [_normalize_tensor(x) for x in expected], outputs, case.rtol, case.atol
        )
