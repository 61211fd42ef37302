"""Single convolutions with bias and relu, of the shapes of ResNet-50 and MobileNet."""

from __future__ import annotations

import functools
import math

from bench.workload import TENSOR_LIBRARIES, Training, Workload
from rlx.ir.graph import Graph

_Geometry = tuple[int, int, int] | tuple[int, int, int, int]
"""Stride, padding on every side, groups, and dilation."""


def convolution(image: tuple[int, ...], weights: tuple[int, ...], geometry: _Geometry) -> Graph:
    stride, pad, groups, *rest = geometry
    apart = rest[0] if rest else 1
    g = Graph("convolution")
    x, w = g.input("x", image), g.param("w", weights)
    y = g.conv(
        x, w, stride=(stride, stride), padding=((pad, pad), (pad, pad)), groups=groups,
        dilation=(apart, apart),
    )  # fmt: skip
    g.set_outputs([g.relu(y + g.param("bias", (1, weights[0], 1, 1)))])
    return g


def _workload(
    name: str, images: int, image: tuple[int, ...], weights: tuple[int, ...], geometry: _Geometry
) -> Workload:
    build = functools.partial(convolution, (images, *image), weights, geometry)
    shape = build().outputs[0].type.static_shape
    elements = images * math.prod(image) + math.prod(weights) + math.prod(shape)
    return Workload(
        f"conv_{name}_batch{images}",
        build,
        flops=2.0 * math.prod(shape) * math.prod(weights[1:]),
        bytes=4.0 * elements,
        aim="< 0.9x",
    )


_LAYERS: dict[str, tuple[tuple[int, ...], tuple[int, ...], _Geometry]] = {
    "7x7_s2_224": ((3, 224, 224), (64, 3, 7, 7), (2, 3, 1)),
    "3x3_56_64": ((64, 56, 56), (64, 64, 3, 3), (1, 1, 1)),
    "3x3_28_128": ((128, 28, 28), (128, 128, 3, 3), (1, 1, 1)),
    "3x3_14_256": ((256, 14, 14), (256, 256, 3, 3), (1, 1, 1)),
    "3x3_7_512": ((512, 7, 7), (512, 512, 3, 3), (1, 1, 1)),
    "3x3_s2_56_128": ((128, 56, 56), (128, 128, 3, 3), (2, 1, 1)),
    "1x1_56_64_256": ((64, 56, 56), (256, 64, 1, 1), (1, 0, 1)),
    "1x1_56_256_64": ((256, 56, 56), (64, 256, 1, 1), (1, 0, 1)),
    "1x1_14_1024_256": ((1024, 14, 14), (256, 1024, 1, 1), (1, 0, 1)),
    "1x1_7_2048_512": ((2048, 7, 7), (512, 2048, 1, 1), (1, 0, 1)),
    "1x1_s2_28_512_1024": ((512, 28, 28), (1024, 512, 1, 1), (2, 0, 1)),
    "dilated_3x3_28_256": ((256, 28, 28), (256, 256, 3, 3), (1, 2, 1, 2)),
    "grouped_3x3_28_32x4": ((128, 28, 28), (128, 4, 3, 3), (1, 1, 32)),
    "depthwise_3x3_112_32": ((32, 112, 112), (32, 1, 3, 3), (1, 1, 32)),
    "depthwise_3x3_s2_112_96": ((96, 112, 112), (96, 1, 3, 3), (2, 1, 96)),
    "depthwise_3x3_14_576": ((576, 14, 14), (576, 1, 3, 3), (1, 1, 576)),
    "depthwise_3x3_7_960": ((960, 7, 7), (960, 1, 3, 3), (1, 1, 960)),
}


def transposed(images: int) -> Graph:
    """Return twice as many rows and columns, as decoders of images make them."""
    g = Graph("transposed")
    x, w = g.input("x", (images, 128, 28, 28)), g.param("w", (128, 64, 4, 4))
    g.set_outputs([g.conv_transpose(x, w, stride=(2, 2), padding=((1, 1), (1, 1)))])
    return g


def pooled(images: int) -> Graph:
    g = Graph("pooled")
    x, pads = g.input("x", (images, 64, 112, 112)), ((1, 1), (1, 1))
    g.set_outputs([g.max_pool(x, kernel_size=(3, 3), stride=(2, 2), padding=pads)])
    return g


def classifier_loss() -> Graph:
    """Three convolutions and two pools over 32 pictures of 28 by 28: mean cross entropy."""
    g = Graph("convolutional_classifier")
    x, labels = g.input("x", (32, 1, 28, 28)), g.input("labels", (32,), "i32")
    pads = ((1, 1), (1, 1))
    for layer, (inner, outer) in enumerate(((1, 16), (16, 32), (32, 64))):
        x = g.conv(x, g.param(f"w{layer}", (outer, inner, 3, 3)), stride=(1, 1), padding=pads)
        x = g.relu(x + g.param(f"b{layer}", (1, outer, 1, 1)))
        if layer < 2:
            x = g.max_pool(x, kernel_size=(2, 2), stride=(2, 2), padding=((0, 0), (0, 0)))
    mean = g.reduce_mean(x, axes=(2, 3), keepdims=False)
    logits = g.matmul(mean, g.param("w3", (64, 10))) + g.param("b3", (10,))
    loss = g.softmax_cross_entropy_with_logits(logits, labels)
    g.set_outputs([g.reduce_mean(loss, axes=(0,))])
    return g


_TRAINED = 32 * 2 * 9 * (28 * 28 * 16 + 14 * 14 * 16 * 32 + 7 * 7 * 32 * 64)

CONVOLUTIONS = (
    *(_workload(name, images, *layer) for images in (1, 16) for name, layer in _LAYERS.items()),
    *(
        Workload(
            f"conv_transposed_4x4_s2_28_128_batch{images}",
            functools.partial(transposed, images),
            flops=2.0 * images * 28 * 28 * 128 * 64 * 16,
            bytes=4.0 * (images * (28 * 28 * 128 + 56 * 56 * 64) + 128 * 64 * 16),
            aim="< 0.9x",
        )
        for images in (1, 16)
    ),
    Workload(
        "max_pool_3x3_s2_112_64",
        functools.partial(pooled, 1),
        bytes=4.0 * 64 * (112 * 112 + 56 * 56),
        aim="< 0.9x",
    ),
    Workload(
        "train_conv_batch32",
        classifier_loss,
        peers=TENSOR_LIBRARIES,
        flops=3.0 * _TRAINED,
        training=Training("sgd", 0.1),
        ranges=(("labels", 10),),
        aim="< 0.9x",
    ),
)
