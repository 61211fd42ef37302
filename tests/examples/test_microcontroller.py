"""The example for microcontrollers, run in an emulator, and what it may cost."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from examples.microcontroller.run import X, classify, run, weights

TOOLS = ("arm-none-eabi-gcc", "qemu-system-arm")


@pytest.mark.parametrize(
    ("core", "instructions", "stack"), [("cortex-m3", 130_000, 128), ("cortex-m4", 13_000, 64)]
)
def test_a_network_fits_a_microcontroller(
    tmp_path: Path, core: str, instructions: int, stack: int
) -> None:
    """Hand-written C takes 115204 and 13588 instructions, 276 and 236 bytes of code there."""
    for tool in TOOLS:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    facts = run(core, tmp_path)
    scores = np.array(facts["y"]) / 1e6 - 2e3
    np.testing.assert_allclose(scores, np.asarray(classify(weights(), X))[0], atol=3e-4)
    assert facts["instructions"][0] < instructions
    assert facts["stack"][0] < stack
    assert facts["arena"] == [384]
    assert facts["code"][0] <= {"cortex-m3": 520, "cortex-m4": 450}[core]
    assert facts["constants"] == [4 * sum(array.size for array in weights().values())]
