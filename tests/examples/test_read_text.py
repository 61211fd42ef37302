"""Text is read from a picture, and the scores are those of ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from examples.packaged import is_installed, package_directory

if not (is_installed("rapidocr_onnxruntime") and is_installed("onnx") and is_installed("PIL")):
    pytest.skip("the models ship in rapidocr-onnxruntime", allow_module_level=True)

from examples.read_text import (
    SAMPLE,
    Box,
    components,
    drawn_sample,
    grown,
    line_pixels,
    normalized,
    read_text,
    spelled,
)
from rlx.onnx import InferenceSession


def test_boxes_surround_connected_regions() -> None:
    mask = np.zeros((12, 20), bool)
    mask[1:5, 1:9] = True
    mask[7:11, 10:18] = True
    assert components(mask) == [Box(1, 1, 9, 5), Box(10, 7, 18, 11)]
    assert grown(Box(1, 1, 9, 5), (20, 12)) == Box(0, 0, 11, 7)


def test_repeats_are_one_character_and_gaps_part_them() -> None:
    scores = np.eye(3)[[0, 1, 1, 0, 1, 2, 2]]
    assert spelled(scores, ["a", "b"]) == "aab"


@pytest.mark.slow
def test_the_sample_is_read() -> None:
    assert [text for _, text in read_text(drawn_sample())] == list(SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ch_PP-OCRv4_det_infer", "ch_PP-OCRv4_rec_infer"])
def test_scores_are_those_of_the_peer(name: str) -> None:
    peer = pytest.importorskip("onnxruntime")
    folder = package_directory("rapidocr_onnxruntime", "rapidocr-onnxruntime") / "models"
    picture = drawn_sample()
    x = normalized(picture) if "det" in name else line_pixels(picture, Box(20, 70, 240, 125))
    session = peer.InferenceSession(folder / f"{name}.onnx", providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})
    (scores,) = InferenceSession(folder / f"{name}.onnx").run(None, {"x": x})
    np.testing.assert_allclose(scores, expected, atol=2e-4)
