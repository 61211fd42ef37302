"""Text is read from a picture, and the scores are those of ONNX Runtime."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from examples.packaged import is_installed

if not (is_installed("rapidocr_onnxruntime") and is_installed("onnx") and is_installed("PIL")):
    pytest.skip("the models ship in rapidocr-onnxruntime", allow_module_level=True)

from examples.read_text import (
    SAMPLE,
    SHORT_LINE,
    Box,
    characters_of,
    components,
    cut,
    drawn_sample,
    grown,
    line_pixels,
    model_path,
    normalized,
    read_text,
    spelled,
)
from examples.read_text_in_c.export import export
from rlx.onnx import InferenceSession
from tests.aot.building import needs_compiler

LINE_OF_TEXT = Box(20, 70, 240, 125)


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
def test_a_picture_on_its_head_is_read() -> None:
    lines = [text for _, text in read_text(drawn_sample().rotate(180))]
    assert lines == list(reversed(SAMPLE))


@pytest.mark.slow
@pytest.mark.parametrize("part", ["detector", "classifier", "recognizer"])
def test_scores_are_those_of_the_peer(part: str) -> None:
    peer = pytest.importorskip("onnxruntime")
    picture = drawn_sample()
    line = cut(picture, LINE_OF_TEXT)
    x = {
        "detector": normalized(picture),
        "classifier": line_pixels(line.rotate(180), SHORT_LINE),
        "recognizer": line_pixels(line),
    }[part]
    session = peer.InferenceSession(model_path(part), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})
    (scores,) = InferenceSession(model_path(part)).run(None, {"x": x})
    np.testing.assert_allclose(scores, expected, atol=2e-4)


@pytest.mark.slow
@needs_compiler
def test_the_program_in_c_reads_what_the_peer_reads(tmp_path: Path) -> None:
    peer = pytest.importorskip("onnxruntime")
    export(tmp_path, target="native", emit_only=True)
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    command = ["cc", "-std=c11", "-O1", "-march=native", *warnings, "read_text.c", "recognizer.c"]
    subprocess.run([*command, "-lm", "-o", "read_text"], cwd=tmp_path, check=True, timeout=600)
    session = peer.InferenceSession(model_path("recognizer"), providers=["CPUExecutionProvider"])
    characters = characters_of(InferenceSession(model_path("recognizer")))
    for scale in (0.9, 2.5):
        picture = cut(drawn_sample(), LINE_OF_TEXT).convert("L")
        picture = picture.resize((round(220 * scale), round(55 * scale)))
        picture.save(tmp_path / "line.pgm")
        (scores,) = session.run(None, {"x": line_pixels(picture)})
        read = subprocess.run(
            ["./read_text", "line.pgm"],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert read.stdout == spelled(scores[0], characters) + "\n"
        assert read.stdout.strip() == SAMPLE[1]
    (tmp_path / "line.pgm").write_bytes(b"P5 4000 4000 255 short")
    refused = subprocess.run(
        ["./read_text", "line.pgm"], cwd=tmp_path, capture_output=True, timeout=600
    )
    assert refused.returncode == 1
    assert b"damaged" in refused.stderr
