"""Digits in eight bits on an emulated Cortex-M: the reference's bits, and what they cost."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import rlx
from examples.digits import load_data
from examples.microcontroller.digits import IMAGES, network, quantized, run

TOOLS = ("arm-none-eabi-gcc", "qemu-system-arm")


@pytest.mark.parametrize("core", [pytest.param("cortex-m3", marks=pytest.mark.slow), "cortex-m4"])
def test_codes_are_equal_and_weights_stay_in_flash(tmp_path: Path, core: str) -> None:
    for tool in TOOLS:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    data, model = load_data(), network()
    done = quantized(model, model.params, data)
    found = run(core, done, data.test_x[:IMAGES], tmp_path)
    reference = rlx.compile(done.graph, params=done.params, backend="reference")
    expected = [reference.run({"x": row[None]})[0][0] for row in data.test_x[:IMAGES]]
    np.testing.assert_array_equal(found.scores, np.array(expected))
    assert found.ram < 640
    assert found.stack < 200
    floats = 4 * sum(array.size for array in model.params.values())
    assert found.constants < floats // 3
