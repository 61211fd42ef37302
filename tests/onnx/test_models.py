"""Models that ship inside packages: the results are those of ONNX Runtime."""

from __future__ import annotations

import sys
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


@pytest.mark.slow
@pytest.mark.skipif(not is_installed("rapidocr_onnxruntime"), reason="the models ship in it")
def test_one_program_finds_text_in_pictures_of_all_sizes() -> None:
    """Its images shrink and grow: `Resize` over extents that are multiples of 32."""
    path = package_directory("rapidocr_onnxruntime", "rapidocr-onnxruntime") / "models"
    detector = path / "ch_PP-OCRv4_det_infer.onnx"
    height, width = (32 * rlx.Dim(name, min=1, max=6) for name in "hw")
    bounded = InferenceSession(detector, dims={"x": (1, 3, height, width)})
    theirs = peer.InferenceSession(detector, providers=["CPUExecutionProvider"])
    for extents in ((32, 64), (96, 160), (192, 192)):
        x = np.random.default_rng(0).normal(size=(1, 3, *extents)).astype(np.float32)
        (found,), (expected,) = (each.run(None, {"x": x}) for each in (bounded, theirs))
        assert found.shape == (1, 1, *extents)
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


def sound() -> Array:
    """Return two seconds: silence, a buzz that swells and fades as vowels do, and noise."""
    time = np.arange(32000) / 16000
    buzz = sum(np.sin(2 * np.pi * 140 * k * time) / k for k in range(1, 20))
    swell = np.clip(np.sin(2 * np.pi * 3 * time), 0, 1) * (time > 0.5)
    noise = np.random.default_rng(0).normal(size=time.size) * 0.01
    return (0.2 * buzz * swell + noise).astype(np.float32)


@pytest.mark.skipif(
    not (is_installed("silero_vad") and is_installed("torch")), reason="its wrapper takes tensors"
)
def test_the_wrapper_of_the_voice_detector_runs_with_its_import_exchanged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A window after another with the state between them, and windows in one call."""
    silero, torch = pytest.importorskip("silero_vad"), pytest.importorskip("torch")
    given = sound()
    found = []
    for runtime in (peer, rlx.onnx):
        monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
        windows = silero.load_silero_vad(onnx=True).audio_forward(torch.from_numpy(given), 16000)
        block = silero.load_silero_vad(sequence=True).audio_forward(given)
        found.append((windows.numpy().ravel(), np.ravel(block)))
    for theirs, ours in zip(*found, strict=True):
        assert theirs.size == 63
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


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
