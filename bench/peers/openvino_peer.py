"""OpenVINO, CPU plugin, in full f32 precision, inputs and outputs shared and not copied."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import openvino

from bench.peers.onnx_graph import onnx_model
from bench.peers.session import Session
from bench.workload import Array, Workload


def prepare(workload: Workload, threads: int) -> Session:
    feeds = workload.feeds(workload.build())
    core = openvino.Core()
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    model = core.read_model(onnx_model(workload).SerializeToString())
    started = time.perf_counter()
    request: Any = core.compile_model(model, "CPU", settings).create_infer_request()
    call = lambda: request.infer(feeds, share_inputs=True, share_outputs=True)  # noqa: E731
    call()

    def outputs(results: Any) -> list[Array]:
        return [np.array(results[i]) for i in range(len(results))]

    return Session(call, outputs, cold_seconds=time.perf_counter() - started)
