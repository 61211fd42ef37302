"""Real ONNX models next to ONNX Runtime and OpenVINO: `python -m bench.onnx_models`.

    python -m bench.onnx_models [model ...] [--threads 1 2] [--rounds N] [--write FILE]

Every peer runs in a process of its own, in turns; times are the best of all rounds. Cold is the
time from the file to the first result with an empty cache; memory is what the process grew by at
its peak. The models ship in packages (see `examples/read_text.py`).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.machine import measure_peak
from examples.packaged import package_directory
from examples.read_text import model_path

Feed = Mapping[str, NDArray[Any]]
PEERS = ("rlx", "onnxruntime", "openvino")
SECONDS = 0.15
"""Of calls, per peer and round."""


@dataclass(frozen=True)
class Case:
    """A model with inputs of a real size."""

    path: Callable[[], Path]
    feed: Callable[[], Feed]


def _picture(height: int, width: int) -> Feed:
    pixels = np.random.default_rng(0).normal(size=(1, 3, height, width))
    return {"x": pixels.astype(np.float32)}


def _window() -> Feed:
    sound = 0.1 * np.random.default_rng(0).normal(size=(1, 576))
    state = np.zeros((2, 1, 128), np.float32)
    return {"input": sound.astype(np.float32), "state": state, "sr": np.asarray(16000, np.int64)}


def _bytes() -> Feed:
    return {"bytes": np.random.default_rng(0).integers(0, 256, (1, 2048)).astype(np.int32)}


def _silero() -> Path:
    return package_directory("silero_vad", "silero-vad") / "data" / "silero_vad.onnx"


def _magika() -> Path:
    return package_directory("magika", "magika") / "models" / "standard_v3_3" / "model.onnx"


CASES = {
    "ocr.detector_640x640": Case(lambda: model_path("detector"), lambda: _picture(640, 640)),
    "ocr.classifier_48x192": Case(lambda: model_path("classifier"), lambda: _picture(48, 192)),
    "ocr.recognizer_48x320": Case(lambda: model_path("recognizer"), lambda: _picture(48, 320)),
    "silero.window_32ms": Case(_silero, _window),
    "magika.2048_bytes": Case(_magika, _bytes),
}


def _rlx(path: Path, feed: Feed, threads: int) -> Callable[[], Any]:
    from rlx.onnx import InferenceSession

    session = InferenceSession(path, threads=threads)
    return lambda: session.run(None, feed)


def _onnxruntime(path: Path, feed: Feed, threads: int) -> Callable[[], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feed)


def _openvino(path: Path, feed: Feed, threads: int) -> Callable[[], Any]:
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    model = openvino.Core().read_model(path)
    model.reshape({name: array.shape for name, array in feed.items()})
    request = openvino.compile_model(model, "CPU", settings).create_infer_request()
    return lambda: list(request.infer(feed, share_inputs=True, share_outputs=False).values())


_PREPARE = {"rlx": _rlx, "onnxruntime": _onnxruntime, "openvino": _openvino}


def _serve(pipe: Connection, peer: str, name: str, threads: int) -> None:
    """Prepare a model; then give the best seconds of a call whenever asked."""
    os.environ["RLX_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(threads)
    case = CASES[name]
    path, feed = case.path(), case.feed()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["RLX_CACHE_DIR"] = cache
        __import__({"rlx": "rlx.onnx"}.get(peer, peer))
        before, started, used = _peak_bytes(), time.perf_counter(), time.process_time()
        try:
            call = _PREPARE[peer](path, feed, threads)
        except RuntimeError as error:  # a model that a peer cannot read is a gap in its column
            pipe.send(str(error))
            return
        outputs = [np.asarray(y) for y in call()]
        cold = time.perf_counter() - started, time.process_time() - used
        pipe.send((outputs, *cold, _peak_bytes() - before))
        while pipe.recv():
            pipe.send(_best(call))


def _best(call: Callable[[], Any]) -> float:
    best, until = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < until:
        started = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - started)
    return best


def _peak_bytes() -> int:
    """Return the most memory that this process has had; `getrusage` counts its parent's, too."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def measure(name: str, threads: int, rounds: int) -> list[str]:
    """Return the row of a model: per peer microseconds, then cold seconds and megabytes."""
    pipes: dict[str, Connection] = {}
    made: dict[str, Any] = {}
    for peer in PEERS:
        ours, theirs = get_context("spawn").Pipe()
        arguments = (theirs, peer, name, threads)
        get_context("spawn").Process(target=_serve, args=arguments, daemon=True).start()
        found = ours.recv()
        if not isinstance(found, str):
            pipes[peer], made[peer] = ours, found
    for found, expected in zip(made["rlx"][0], made["onnxruntime"][0], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    best = dict.fromkeys(pipes, float("inf"))
    for _ in range(rounds):
        for peer, pipe in pipes.items():
            pipe.send(True)
            best[peer] = min(best[peer], pipe.recv())
    for pipe in pipes.values():
        pipe.send(False)

    def cells(write: Callable[[str], str], peers: Sequence[str] = PEERS) -> list[str]:
        return [write(peer) if peer in pipes else "" for peer in peers]

    return [
        name, str(threads),
        *cells(lambda peer: f"{best[peer] * 1e6:.0f}"),
        *cells(lambda peer: f"{best['rlx'] / best[peer]:.2f}", PEERS[1:]),
        *cells(lambda peer: f"{made[peer][1]:.1f} ({made[peer][2]:.1f})"),
        *cells(lambda peer: f"{made[peer][3] / 1e6:.0f}"),
    ]  # fmt: skip


COLUMNS = ["model", "threads", *PEERS, "rlx / ort", "rlx / ov", *(f"cold {p}" for p in PEERS),
           *(f"MB {p}" for p in PEERS)]  # fmt: skip


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="measure real ONNX models next to peers")
    parser.add_argument("models", nargs="*", default=list(CASES))
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--write", type=Path, help="append the table to this file")
    options = parser.parse_args()
    peak = measure_peak(1)
    lines = [f"Peak {peak.gflops:.0f} GFLOP/s f32 on one thread. Microseconds per call, best of "
             f"{options.rounds} rounds in turns; cold in seconds of wall clock (of processor).",
             "", _line(COLUMNS), _line(["---"] * len(COLUMNS))]  # fmt: skip
    print("\n".join(lines), flush=True)
    for name in options.models:
        for threads in options.threads:
            lines.append(_line(measure(name, threads, options.rounds)))
            print(lines[-1], flush=True)
    if options.write:
        with options.write.open("a") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
