"""ONNX's own tests of operators, run on our backend.

    python -m tests.onnx.conformance [--backend llvm] [--only REGEX]

runs all of them, which takes minutes with native code, and compares what fails with
`unsupported.json`: the tests that are expected to fail, by the reason.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import warnings
from pathlib import Path
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


def unsupported() -> dict[str, list[str]]:
    """Return the names of the tests that are expected to fail, by the reason."""
    path = Path(__file__).with_name("unsupported.json")
    found: dict[str, list[str]] = json.loads(path.read_text())
    return found


def expected_failures() -> set[str]:
    return {name for names in unsupported().values() for name in names}


def failures(backend: str, only: str = "") -> dict[str, str]:
    """Run all tests whose names match; return what those that fail raise."""
    failed = {}
    for name, case in node_tests().items():
        if re.search(only, name):
            try:
                with np.errstate(all="ignore"):
                    run_case(case, backend)
            except Exception as error:  # whatever a test raises is its failure
                failed[name] = f"{type(error).__name__}: {error}".strip()
    return failed


def listed() -> str:
    """Return the list of what fails, as the documentation has it."""
    lines = [f"- {len(names)}: {reason}" for reason, names in unsupported().items()]
    return "\n".join(lines) + "\n"


def summary() -> str:
    """Return how many tests pass, as the documentation says it."""
    total = len(node_tests())
    return f"Of {total} tests, {total - len(expected_failures())} pass"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    failed = failures(arguments.backend, arguments.only)
    tested = [name for name in node_tests() if re.search(arguments.only, name)]
    print(f"{len(tested) - len(failed)} of {len(tested)} pass with {arguments.backend}")
    for name in sorted(set(failed) - expected_failures()):
        print(f"unexpected: {name}: {failed[name][:200]}")
    for name in sorted(expected_failures() & set(tested) - set(failed)):
        print(f"passes now: {name}")


if __name__ == "__main__":
    main()
