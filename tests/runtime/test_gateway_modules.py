"""The modules of the fast paths: that they load wherever they compile."""

from __future__ import annotations

from types import ModuleType

import pytest

from rlx.errors import ToolchainError
from rlx.runtime.gateway import _library, _load


@pytest.mark.parametrize("name", ["gateway", "eager_gateway", "tensor_gateway"])
def test_a_module_that_compiles_loads(name: str) -> None:
    try:
        library = _library(name)
    except ToolchainError as error:
        pytest.skip(f"there is no C compiler, or Python's headers are missing: {error}")
    assert isinstance(_load(name, library), ModuleType)
