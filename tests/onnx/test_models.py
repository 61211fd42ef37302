"""Models that ship inside packages: the results are those of ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from examples.packaged import is_installed, package_directory

pytest.importorskip("onnx")
peer = pytest.importorskip("onnxruntime")

from rlx.onnx import InferenceSession  # noqa: E402

Array = np.ndarray[Any, Any]


def agree(path: Any, feed: dict[str, Array]) -> list[Array]:
    """Run both; return our outputs."""
    expected = peer.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feed)
    outputs = InferenceSession(path).run(None, feed)
    for ours, theirs in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=2e-4)
    return outputs


@pytest.mark.skipif(not is_installed("silero_vad"), reason="the models ship in silero-vad")
@pytest.mark.parametrize("name", ["silero_vad", "silero_vad_half", "silero_vad_op18_ifless"])
def test_the_voice_detector(name: str) -> None:
    path = package_directory("silero_vad", "silero-vad") / "data" / f"{name}.onnx"
    time = np.arange(576) / 16000
    tone = (0.3 * np.sin(2 * np.pi * 220 * time)).astype(np.float32)[None]
    feed = {"input": tone, "state": np.zeros((2, 1, 128), np.float32)}
    names = {each.name for each in InferenceSession(path).get_inputs()}
    if "sr" in names:
        feed["sr"] = np.asarray(16000, np.int64)
    _, state = agree(path, feed)
    agree(path, {**feed, "state": state})


@pytest.mark.skipif(not is_installed("magika"), reason="the model ships in magika")
def test_the_file_type_detector() -> None:
    path = package_directory("magika", "magika") / "models" / "standard_v3_3" / "model.onnx"
    text = b"def f(x):\n    return x + 1\n"
    tokens = np.full((1, 2048), 256, np.int32)
    tokens[0, : len(text)] = list(text)
    name = InferenceSession(path).get_inputs()[0].name
    agree(path, {name: tokens})


@pytest.mark.skipif(not is_installed("rapidocr_onnxruntime"), reason="ships in rapidocr")
def test_the_direction_of_text() -> None:
    folder = package_directory("rapidocr_onnxruntime", "rapidocr-onnxruntime") / "models"
    x = np.random.default_rng(0).normal(size=(2, 3, 48, 192)).astype(np.float32)
    agree(folder / "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": x})


SMALL = ("squeezenet",)
LARGE = ("shufflenet", "resnet50", "densenet121", "inception_v1", "inception_v2", "zfnet512",
         "bvlc_alexnet", "vgg19")  # fmt: skip


@pytest.mark.parametrize(
    "name", [*SMALL, *(pytest.param(name, marks=pytest.mark.slow) for name in LARGE)]
)
def test_the_light_models(name: str) -> None:
    path = package_directory("onnx", "onnx") / f"backend/test/data/light/light_{name}.onnx"
    (given,) = InferenceSession(path).get_inputs()
    shape = tuple(int(str(extent)) for extent in given.shape or ())
    x = np.random.default_rng(0).random(shape, np.float32)
    agree(path, {given.name: x})


@pytest.mark.slow
@pytest.mark.skipif(not is_installed("rapidocr_onnxruntime"), reason="the models ship in it")
def test_one_program_reads_text_of_all_widths() -> None:
    path = package_directory("rapidocr_onnxruntime", "rapidocr-onnxruntime") / "models"
    recognizer = path / "ch_PP-OCRv4_rec_infer.onnx"
    bounded = InferenceSession(
        recognizer, dims={"x": (1, 3, 48, rlx.Dim("width", min=32, max=640))}
    )
    theirs = peer.InferenceSession(recognizer, providers=["CPUExecutionProvider"])
    for extent in (32, 101, 320, 640):
        x = np.random.default_rng(extent).normal(size=(1, 3, 48, extent)).astype(np.float32)
        (found,), (expected,) = (each.run(None, {"x": x}) for each in (bounded, theirs))
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    assert len(bounded._stages) == 1


@pytest.mark.skipif(not is_installed("silero_vad"), reason="the models ship in silero-vad")
def test_windows_of_sound_compile_nothing_new() -> None:
    path = package_directory("silero_vad", "silero-vad") / "data" / "silero_vad.onnx"
    session = InferenceSession(path)
    feed = {"state": np.zeros((2, 1, 128), np.float32), "sr": np.asarray(16000, np.int64)}
    for seed in range(3):
        sound = np.random.default_rng(seed).normal(size=(1, 576)).astype(np.float32)
        _, feed["state"] = session.run(None, {"input": sound, **feed})
    assert len(session._stages) == 2


@pytest.mark.skipif(not is_installed("magika"), reason="the model ships in magika")
def test_a_package_runs_with_its_import_of_onnx_runtime_exchanged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    magika = pytest.importorskip("magika", reason="installed without what it depends on")
    texts = [b"#!/usr/bin/env python3\nimport os\n\nprint(os.getcwd())\n" * 5, b"[1, 2, 3]\n" * 9]
    expected = [magika.Magika().identify_bytes(text) for text in texts]
    monkeypatch.setattr("magika.magika.rt", rlx.onnx)
    found = [magika.Magika().identify_bytes(text) for text in texts]
    assert [each.output.label for each in found] == [each.output.label for each in expected]
    np.testing.assert_allclose([r.score for r in found], [r.score for r in expected], rtol=1e-3)
