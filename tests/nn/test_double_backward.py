"""Second derivatives of the layers of convolutional networks against PyTorch's double backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.nn as nn

Array = Any
X = np.random.default_rng(0).standard_normal((2, 4, 6, 5))
KERNEL, TURNED = np.random.default_rng(1).standard_normal((2, 4, 2, 3, 3))
GAMMA, BETA = np.random.default_rng(2).standard_normal((2, 4))
SIZE = (9, 3)

LAYERS: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[Array]]] = {
    "conv": (
        lambda x, w: nn.conv(x, w, 2, 1, groups=2),
        lambda f, x, w: f.conv2d(x, w, None, 2, 1, 1, 2),
        [X, KERNEL],
    ),
    "dilated conv": (
        lambda x, w: nn.conv(x, w, 1, 2, dilation=2, groups=2),
        lambda f, x, w: f.conv2d(x, w, None, 1, 2, 2, 2),
        [X, KERNEL],
    ),
    "conv_transpose": (
        lambda x, w: nn.conv_transpose(x, w, 2, 1, groups=2, output_padding=1),
        lambda f, x, w: f.conv_transpose2d(x, w, None, 2, 1, 1, 2),
        [X, TURNED],
    ),
    "max_pool": (lambda x: nn.max_pool(x, 3, 2, 1), lambda f, x: f.max_pool2d(x, 3, 2, 1), [X]),
    "avg_pool": (
        lambda x: nn.avg_pool(x, 3, 2, 1, count_include_pad=False),
        lambda f, x: f.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        [X],
    ),
    "batch_norm": (
        lambda x, g, b: nn.batch_norm(x, g, b, np.zeros(4), np.ones(4), training=True)[0],
        lambda f, x, g, b: f.batch_norm(x, None, None, g, b, training=True),
        [X, GAMMA, BETA],
    ),
    "group_norm": (
        lambda x, g, b: nn.group_norm(x, g, b, 2),
        lambda f, x, g, b: f.group_norm(x, 2, g, b),
        [X, GAMMA, BETA],
    ),
    "resize": (
        lambda x: nn.resize(x, SIZE, "linear"),
        lambda f, x: f.interpolate(x, SIZE, mode="bilinear"),
        [X],
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_the_gradient_of_a_gradient_is_that_of_pytorch(name: str) -> None:
    """The sum of squared gradients of a sum of cubes, differentiated by every operand."""
    torch = pytest.importorskip("torch")
    ours, theirs, arrays = LAYERS[name]
    wrt = tuple(range(len(arrays)))

    def penalty(*operands: Array) -> Any:
        first = rlx.grad(lambda *a: (ours(*a) ** 3).sum(), argnums=wrt)(*operands)
        return sum((each**2).sum() for each in first)

    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    loss = (theirs(torch.nn.functional, *tensors) ** 3).sum()
    first = torch.autograd.grad(loss, tensors, create_graph=True)
    sum((each**2).sum() for each in first).backward()
    found = rlx.jit(rlx.grad(penalty, argnums=wrt))(*arrays)
    for given, tensor in zip(found, tensors, strict=True):
        expected = tensor.grad.numpy()
        scale = np.abs(expected).max()
        np.testing.assert_allclose(given / scale, expected / scale, atol=1e-9)


def test_kernels_of_a_batch_are_groups_of_one_convolution() -> None:
    images, kernels = np.ones((3, 2, 4, 6, 6), "f4"), np.ones((3, 5, 4, 3, 3), "f4")
    kernels *= np.arange(3, dtype="f4").reshape(3, 1, 1, 1, 1)
    program = rlx.jit(rlx.vmap(lambda x, w: nn.conv(x, w, 1, "VALID")))
    np.testing.assert_array_equal(program(images, kernels)[:, 0, 0, 0, 0], [0, 36, 72])
    graph = program.graph(images, kernels)
    (conv,) = [node for node in graph.nodes if node.op.name == "conv"]
    assert conv.attribute("groups") == 3
