"""Both ways into compiled code."""

from __future__ import annotations

import pytest

from rlx.runtime import executable
from rlx.runtime.gateway import find_gateway


@pytest.fixture(params=["short", "long"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Calls go through the gateway from the second on, or never do."""
    if request.param == "long":
        monkeypatch.setattr(executable, "find_gateway", lambda: None)
    elif find_gateway(wait=True) is None:
        pytest.skip("there is no C compiler, or Python's headers are missing")
    monkeypatch.setattr(executable, "_CALLS_TO_HEAT", 1)
    return str(request.param)
