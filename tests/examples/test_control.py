"""The swing-up of the cart and pole in C: here, and on a Cortex-M4 within its memory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from examples.control import swing_up
from tests.aot.building import needs_compiler


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("core", [None, "cortex-m4", "cortex-m7"])
def test_the_pole_is_swung_up_and_stays_upright(tmp_path: Path, core: str | None) -> None:
    for tool in () if core is None else ("arm-none-eabi-gcc", "qemu-system-arm"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    facts = swing_up.run(tmp_path, core)
    states = swing_up.trajectory(facts)
    assert abs(states[0, 1]) > 3.1
    assert abs(states[100:, 1]).max() < 0.1
    assert abs(states[:, 2]).max() <= swing_up.LIMIT
    assert facts["arena"][0] < 6_500
    if core is not None:
        assert max(facts["instructions"]) < 300_000
        assert max(facts["stack"]) < 512
        assert facts["code"][0] < 10_500
