"""Eight bits after training: calibrate on inputs, quantize products, measure what is lost.

quantized = rlx.quantization.quantize(graph, batches, params=params)
print(quantized.report)
run = rlx.compile(quantized.graph, params=quantized.params)
"""

from __future__ import annotations

from rlx.quantization.histogram import Histogram
from rlx.quantization.quantize import Quantized, quantize
from rlx.quantization.report import Layer, Report

__all__ = ["Histogram", "Layer", "Quantized", "Report", "quantize"]
