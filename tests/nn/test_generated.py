"""Random layers over images, their first and second derivatives and batches against PyTorch.

`RLX_LAYER_ROUNDS` asks for more rounds than the suite has.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.nn as nn
from tests.nn.generated import GENERATORS, LayerCase, random_case

Array = Any
torch = pytest.importorskip("torch")

ROUNDS = int(os.environ.get("RLX_LAYER_ROUNDS", "8"))
LAYERS = [name for name in GENERATORS if name != "dilated conv"]
LAYOUTS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def cases(name: str) -> list[tuple[LayerCase, np.random.Generator]]:
    rng = np.random.default_rng(sum(map(ord, name)) + ROUNDS)
    return [(random_case(name, rng), rng) for _ in range(ROUNDS)]


def numbers(case: LayerCase, rng: np.random.Generator) -> list[Array]:
    """Return operands that bfloat16 holds exactly, so that every dtype is given the same."""
    return [rng.integers(-8, 9, shape) / 8 for shape in case.shapes]


def theirs(name: str, case: LayerCase) -> Callable[..., Any]:
    """Return PyTorch's function of the operands alone; uneven padding is a step of its own."""
    options, functional = dict(case.options), torch.nn.functional
    kind = name.split()[-1]
    function = getattr(functional, f"{kind}{case.axes}d")
    padding = options.pop("padding")
    sides = [side for pair in reversed(padding) for side in pair]
    if kind == "conv":
        options["stride"] = options.pop("strides")
        return lambda x, w: function(functional.pad(x, sides), w, **options)
    options["padding"] = tuple(low for low, _ in padding)
    options["stride"] = options.pop("strides")
    if kind == "conv_transpose":
        return lambda x, w: function(x, w, **options)
    options["kernel_size"] = options.pop("window_shape")
    if kind == "avg_pool":
        del options["dilation"]
    return lambda x: function(x, **options)


def ours(name: str, case: LayerCase, *, last: bool = False) -> Callable[..., Any]:
    """Return our function of operands with channels in front, computed in either layout."""
    kind = name.split()[-1]
    function, layout = getattr(nn, kind), LAYOUTS[case.axes][last]
    if not last:
        return lambda *operands: function(*operands, layout=layout, **case.options)

    def turned(x: Any, *weights: Any) -> Any:
        order = (0, 1) if kind == "conv_transpose" else (1, 0)
        moved = [rlx.numpy.moveaxis(w, order, (-2, -1)) for w in weights]
        y = function(rlx.numpy.moveaxis(x, 1, -1), *moved, layout=layout, **case.options)
        return rlx.numpy.moveaxis(y, -1, 1)

    return turned


def magnitude(name: str, case: LayerCase, operands: list[Array]) -> float:
    """Return the largest sum of magnitudes that an element is made of."""
    if "pool" in name:
        return 1.0
    whole = theirs(name, case)(*(torch.tensor(abs(each)) for each in operands))
    return float(whole.max()) if whole.numel() else 1.0


def close(found: Any, expected: Any, within: float, case: LayerCase) -> None:
    wanted = expected.detach().numpy()
    assert found.shape == wanted.shape, case
    np.testing.assert_allclose(
        np.asarray(found, np.float64), wanted, rtol=0, atol=within, err_msg=str(case)
    )


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_random_layers_are_those_of_pytorch(name: str, backend: Any) -> None:
    """In f32, against f64: a few roundings of the largest sum, Winograd's transforms included."""
    for place, (case, rng) in enumerate(cases(name)):
        if backend == "c" and place >= max(ROUNDS // 4, 2):
            break
        operands = numbers(case, rng)
        expected = theirs(name, case)(*map(torch.tensor, operands))
        within = 3e-6 * magnitude(name, case, operands)
        for last in (False, True):
            function = rlx.jit(ours(name, case, last=last), backend=backend)
            found = function(*(each.astype(np.float32) for each in operands))
            assert found.dtype == np.float32
            close(found, expected, within, case)


@pytest.mark.parametrize("last", [False, True])
def test_dilated_layers_of_known_weights_are_transformed_and_right(last: bool) -> None:
    """Winograd's tiles, interleaved where taps are apart, against direct sums in f64."""
    transformed = 0
    for case, rng in cases("dilated conv"):
        x, w = numbers(case, rng)
        image, weights = x.astype(np.float32), w.astype(np.float32)
        layer = ours("dilated conv", case, last=last)
        function = rlx.jit(lambda x, layer=layer, w=weights: layer(x, w))
        transformed += "winograd" in str(function.executable(image).schedule)
        expected = theirs("dilated conv", case)(torch.tensor(x), torch.tensor(w))
        close(function(image), expected, 3e-6 * magnitude("dilated conv", case, [x, w]), case)
    assert transformed


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_rounded_once(name: str, dtype: str) -> None:
    """Operands are exact, sums are of f32: what is left is the rounding of the result."""
    half = rlx.numpy.float16 if dtype == "float16" else rlx.numpy.bfloat16
    for case, rng in cases(name)[: max(ROUNDS // 4, 2)]:
        operands = numbers(case, rng)
        expected = theirs(name, case)(*map(torch.tensor, operands))
        function = rlx.jit(ours(name, case))
        found = function(*(rlx.numpy.asarray(each, half) for each in operands))
        largest = float(abs(expected).max()) if expected.numel() else 0.0
        rounding = (2.0**-11 if dtype == "float16" else 2.0**-8) * largest
        within = rounding + 3e-6 * magnitude(name, case, operands) + 2.0**-24
        close(np.asarray(found).astype(np.float32), expected, within, case)


@pytest.mark.parametrize("name", LAYERS)
def test_random_gradients_are_those_of_pytorch(name: str) -> None:
    """In f64, first and second: of the gradients' sum of squares."""
    for case, rng in cases(name):
        operands = numbers(case, rng)
        if "pool" in name:  # no ties: PyTorch and rlx both take the first, but not next to padding
            operands = [each + rng.random(each.shape) / 32 for each in operands]
        tensors = [torch.tensor(each, requires_grad=True) for each in operands]
        loss = (torch.sin(theirs(name, case)(*tensors))).sum()
        first = torch.autograd.grad(loss, tensors, create_graph=True)
        second = torch.autograd.grad(
            sum((torch.cos(each) * each).sum() for each in first), tensors, allow_unused=True
        )
        layer = ours(name, case, last=bool(rng.integers(2)))
        places = tuple(range(len(operands)))

        def gradients(*given: Any, layer: Any = layer, places: Any = places) -> Any:
            return rlx.grad(lambda *x: rlx.numpy.sin(layer(*x)).sum(), argnums=places)(*given)

        def curved(*given: Any, gradients: Any = gradients) -> Any:
            return sum((rlx.numpy.cos(each) * each).sum() for each in gradients(*given))

        found = rlx.jit(gradients)(*operands)
        again = rlx.jit(rlx.grad(curved, argnums=places))(*operands)
        for a, b in zip((*found, *again), (*first, *second), strict=True):
            wanted = torch.zeros(a.shape) if b is None else b.detach()
            scale = 1.0 + (float(abs(wanted).max()) if wanted.numel() else 0.0)
            close(a, wanted, 1e-11 * scale, case)


@pytest.mark.parametrize("name", [name for name in LAYERS if "conv" in name])
def test_batches_of_kernels_are_loops_over_them(name: str) -> None:
    for case, rng in cases(name)[: max(ROUNDS // 4, 2)]:
        x, w = numbers(case, rng)
        kernels = rng.integers(-8, 9, (3, *w.shape)) / 8
        images = rng.integers(-8, 9, (3, *x.shape)) / 8
        layer, peer = ours(name, case), theirs(name, case)
        for axes, given in (
            ((None, 0), (x, kernels)),
            ((0, None), (images, w)),
            ((0, 0), (images, kernels)),
        ):
            found = rlx.jit(rlx.vmap(layer, in_axes=axes))(*given)
            expected = torch.stack(
                [
                    peer(
                        *(
                            torch.tensor(g if a is None else g[i])
                            for g, a in zip(given, axes, strict=True)
                        )
                    )
                    for i in range(3)
                ]
            )
            close(found, expected, 1e-11 * (1 + magnitude(name, case, [abs(x), abs(w)])), case)
