"""The modules of the fast paths: that they load wherever they compile."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import numpy as np
import pytest

import rlx.numpy as rnp
from rlx.errors import ToolchainError
from rlx.runtime.gateway import _library, _load, find_gateway


@pytest.mark.parametrize("name", ["gateway", "eager_gateway", "tensor_gateway"])
def test_a_module_that_compiles_loads(name: str) -> None:
    try:
        library = _library(name)
    except ToolchainError as error:
        pytest.skip(f"there is no C compiler, or Python's headers are missing: {error}")
    needs_gil = _is_gil_enabled()
    assert isinstance(_load(name, library), ModuleType)
    assert _is_gil_enabled() == needs_gil


def _is_gil_enabled() -> bool:
    """False in a free-threaded Python, until a module is imported that needs the GIL."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def test_eager_calls_of_several_threads_do_not_mix() -> None:
    """Their replays displace each other's from the table of one function."""
    find_gateway("eager_gateway", wait=True)

    def double(thread: int) -> bool:
        arrays = [np.full(size, thread, np.float32) for size in range(1, 60)]
        return all(
            np.array_equal(np.asarray(rnp.add(x, x)), x + x) for _ in range(5) for x in arrays
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(double, range(4)))
