"""What an optional package is needed for is a typed error, and no attribute, without it."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys

sys.modules["onnx"] = None
import rlx

assert not hasattr(rlx, "onnx")
try:
    rlx.onnx.load("model.onnx")
except rlx.errors.ToolchainError as error:
    assert "pip install 'rlx[onnx]'" in str(error)
else:
    raise SystemExit("onnx was there")
"""


def test_a_missing_package_is_no_attribute_and_an_error_with_a_remedy() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)
