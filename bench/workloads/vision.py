"""Whole convolutional networks: ResNet-50, SqueezeNet, DenseNet-121 and MobileNet-v2.

Batch norms of the first two and the last are folded into the weights already, as every runtime does
with them; those of DenseNet come before their convolutions, and stay a scale and a shift. All
activations are ReLU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from bench.workload import Workload
from rlx.codegen.cost import graph_flops
from rlx.ir.graph import Graph, Value

_CLASSES = 1000
_RESNET = ((64, 256, 3, 1), (128, 512, 4, 2), (256, 1024, 6, 2), (512, 2048, 3, 2))
"""Channels inside of a block, outside, blocks, stride of the first."""

_MOBILENET = (
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)
"""Expansion, channels, blocks, stride of the first."""

_DENSENET, _GROWTH = (6, 12, 24, 16), 32


@dataclass(frozen=True, slots=True)
class _Network:
    """A network under construction; params are numbered."""

    graph: Graph

    def weight(self, *shape: int) -> Value:
        return self.graph.param(f"p{len(self.graph.params)}", shape)

    def conv(self, x: Value, channels: int, taps: int, stride: int = 1, groups: int = 1) -> Value:
        """Return a convolution with bias that keeps the extents, but for the stride."""
        g, pad = self.graph, taps // 2
        w = self.weight(channels, _channels(x) // groups, taps, taps)
        y = g.conv(
            x, w, stride=(stride, stride), padding=((pad, pad), (pad, pad)), dilation=(1, 1),
            groups=groups,
        )  # fmt: skip
        return y + self.weight(1, channels, 1, 1)

    def pool(self, x: Value, pad: int = 0) -> Value:
        """Return the maximum of windows of three by three, two apart."""
        pads = ((pad, pad), (pad, pad))
        return self.graph.max_pool(x, kernel_size=(3, 3), stride=(2, 2), padding=pads)

    def classified(self, x: Value) -> Value:
        """Return the scores of the classes, from the mean of the image."""
        mean = self.graph.reduce_mean(x, axes=(2, 3), keepdims=False)
        return self.graph.matmul(mean, self.weight(_channels(x), _CLASSES)) + self.weight(_CLASSES)


def _channels(x: Value) -> int:
    return x.type.static_shape[1]


def _resnet(n: _Network, x: Value) -> Value:
    relu = n.graph.relu
    x = n.pool(relu(n.conv(x, 64, 7, 2)), pad=1)
    for inside, outside, blocks, first in _RESNET:
        for block in range(blocks):
            stride = first if block == 0 else 1
            y = relu(n.conv(relu(n.conv(x, inside, 1)), inside, 3, stride))
            around = n.conv(x, outside, 1, stride) if block == 0 else x
            x = relu(n.conv(y, outside, 1) + around)
    return n.classified(x)


def _squeezenet(n: _Network, x: Value) -> Value:
    relu = n.graph.relu
    x = n.pool(relu(n.conv(x, 64, 3, 2)))
    for number, squeezed in enumerate((16, 16, 32, 32, 48, 48, 64, 64)):
        if number in (2, 4):
            x = n.pool(x)
        small = relu(n.conv(x, squeezed, 1))
        sides = relu(n.conv(small, 4 * squeezed, 1)), relu(n.conv(small, 4 * squeezed, 3))
        x = n.graph.concat(*sides, axis=1)
    return n.graph.reduce_mean(relu(n.conv(x, _CLASSES, 1)), axes=(2, 3), keepdims=False)


def _densenet(n: _Network, x: Value) -> Value:
    g = n.graph

    def normalized(y: Value) -> Value:
        channels = _channels(y)
        return g.relu(y * n.weight(1, channels, 1, 1) + n.weight(1, channels, 1, 1))

    x = n.pool(g.relu(n.conv(x, 64, 7, 2)), pad=1)
    for number, layers in enumerate(_DENSENET):
        for _ in range(layers):
            y = n.conv(normalized(x), 4 * _GROWTH, 1)
            x = g.concat(x, n.conv(g.relu(y), _GROWTH, 3), axis=1)
        x = normalized(x)
        if number < len(_DENSENET) - 1:
            x = n.conv(x, _channels(x) // 2, 1)
            x = g.max_pool(x, kernel_size=(2, 2), stride=(2, 2), padding=((0, 0), (0, 0)))
    return n.classified(x)


def _mobilenet(n: _Network, x: Value) -> Value:
    relu = n.graph.relu
    x = relu(n.conv(x, 32, 3, 2))
    for expansion, channels, blocks, first in _MOBILENET:
        for block in range(blocks):
            wide, stride = _channels(x) * expansion, first if block == 0 else 1
            y = relu(n.conv(x, wide, 1)) if expansion > 1 else x
            y = n.conv(relu(n.conv(y, wide, 3, stride, wide)), channels, 1)
            x = x + y if _channels(x) == channels and stride == 1 else y
    return n.classified(relu(n.conv(x, 1280, 1)))


def _network(name: str, build: Callable[[_Network, Value], Value]) -> Workload:
    def graph() -> Graph:
        g = Graph(name)
        g.set_outputs([build(_Network(g), g.input("x", (1, 3, 224, 224)))])
        return g

    built = graph()
    weights = sum(math.prod(param.type.static_shape) for param in built.params)
    flops = graph_flops(built, {})
    return Workload(name, graph, flops=flops, bytes=4.0 * weights, tolerance=1e-3, aim="< 0.9x")


VISION = (
    _network("resnet50", _resnet),
    _network("squeezenet", _squeezenet),
    _network("densenet121", _densenet),
    _network("mobilenet_v2", _mobilenet),
)
