"""Eight bits after training: calibrate on inputs, quantize products, measure what is lost.

quantized = rlx.quantization.quantize(graph, batches, params=params)
print(quantized.report)
run = rlx.compile(quantized.graph, params=quantized.params)
"""

from __future__ import annotations

from rlx.quantization.calibration import Activation, calibrate
from rlx.quantization.histogram import Histogram
from rlx.quantization.insert import CalibrationEntry, insert_q_dq, scales_of
from rlx.quantization.integers import integer_graph
from rlx.quantization.propagate import cancel_pairs, freeze_fake_quant, quant_propagate
from rlx.quantization.quantize import Quantized, quantize
from rlx.quantization.report import Layer, Report

__all__ = [
    "Activation",
    "CalibrationEntry",
    "Histogram",
    "Layer",
    "Quantized",
    "Report",
    "calibrate",
    "cancel_pairs",
    "freeze_fake_quant",
    "insert_q_dq",
    "integer_graph",
    "quant_propagate",
    "quantize",
    "scales_of",
]
