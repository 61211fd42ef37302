"""Eight bits after training: calibrate on inputs, quantize products, measure what is lost.

quantized = rlx.quantize(function, batches, params=params)
print(quantized.report)
quantized(x)
"""

from __future__ import annotations

from rlx.public_names import names_of as _names_of
from rlx.quantization.after_training import Quantized, QuantizedFunction, quantize
from rlx.quantization.calibration import Activation, calibrate
from rlx.quantization.histogram import Histogram
from rlx.quantization.insert import CalibrationEntry, insert_q_dq, scales_of
from rlx.quantization.integers import integer_graph
from rlx.quantization.propagate import cancel_pairs, freeze_fake_quant, quant_propagate
from rlx.quantization.report import Layer, Report

__all__ = [
    "Activation",
    "CalibrationEntry",
    "Histogram",
    "Layer",
    "Quantized",
    "QuantizedFunction",
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

__dir__ = _names_of(__name__)
