"""ONNX Runtime, CPU provider, all graph optimizations."""

from __future__ import annotations

import time

import onnxruntime

from bench.peers.onnx_graph import onnx_model
from bench.peers.session import Session
from bench.workload import Workload


def prepare(workload: Workload, threads: int) -> Session:
    model = onnx_model(workload).SerializeToString()
    feeds = workload.feeds(workload.build())
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    started = time.perf_counter()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    session.run(None, feeds)
    return Session(
        lambda: session.run(None, feeds),
        list,
        cold_seconds=time.perf_counter() - started,
    )
