"""Report of quantization by layer."""

from __future__ import annotations

from rlx.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Layer:
    """One product or convolution."""

    name: str
    """The name of its weights."""
    kind: str
    scale: float
    """Of its input."""
    error: float
    """Distance of its result from the float one, relative to that one's norm."""
    float_bytes: int
    is_quantized: bool
    reason: str = ""
    """Why it stays in floats."""


@dataclass(frozen=True, slots=True)
class Report:
    """All products and convolutions; `str(report)` is a table."""

    layers: tuple[Layer, ...]

    @property
    def float_bytes(self) -> int:
        """Bytes of the weights before."""
        return sum(layer.float_bytes for layer in self.layers)

    @property
    def quantized_bytes(self) -> int:
        """Bytes of the weights after."""
        return sum(
            layer.float_bytes // 4 if layer.is_quantized else layer.float_bytes
            for layer in self.layers
        )

    def __str__(self) -> str:
        width = max([20, *(len(layer.name) for layer in self.layers)]) + 2
        lines = [f"{'layer':<{width}}{'op':<10}{'input scale':>12}{'error':>10}  "]
        for layer in self.layers:
            state = "int8" if layer.is_quantized else f"float: {layer.reason}"
            numbers = f"{layer.scale:>12.3g}{layer.error:>10.2%}"
            lines.append(f"{layer.name:<{width}}{layer.kind:<10}{numbers}  {state}")
        lines.append(f"weights: {self.float_bytes} -> {self.quantized_bytes} bytes")
        return "\n".join(lines)
