"""The models that are measured: what makes each, and its input."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import nn

from tests.torch.models import MODELS, Model, text, vision


def of(make: Callable[[], nn.Module], *shape: int) -> Callable[[], Model]:
    """Return what makes a module and an input of `shape`."""
    return lambda: (make(), {"input": torch.randn(shape)})


def mlp(*widths: int) -> nn.Module:
    """Return linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Encoder(nn.Module):
    """PyTorch's encoder, without dropout."""

    def __init__(self, layers: int, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, heads, hidden, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers(input)
        return found


def convnet() -> nn.Module:
    """Return a small net for images of 32 by 32."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
        nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip


PROGRAMS: dict[str, Callable[[], Model]] = {
    "mlp_small": of(lambda: mlp(64, 128, 10), 16, 64),
    "mlp": of(lambda: mlp(784, 512, 512, 10), 64, 784),
    "convnet": of(convnet, 4, 3, 32, 32),
    "encoder_2x64": of(lambda: Encoder(2, 64, 4, 128), 4, 33, 64),
    "encoder_4x384": of(lambda: Encoder(4, 384, 6, 1536), 1, 128, 384),
    "gpt2_4x128": text("GPT2", n_embd=128, n_layer=4, n_head=4, vocab_size=1000, n_positions=64,
                       use_cache=False, attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0),
    "resnet18": vision("resnet18"),
    "mobilenet_v2": vision("mobilenet_v2"),
    **{f"{name}_tiny": MODELS[name] for name in ("bert", "llama", "t5", "convnext")},
}  # fmt: skip
