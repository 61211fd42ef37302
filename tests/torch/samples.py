"""Samples of PyTorch's own operator database, computed by eager mode and by rlx."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from functorch.compile import aot_function, make_boxed_func
from torch.utils._pytree import tree_flatten, tree_unflatten

from rlx.torch.backend import graph_call
from rlx.torch.decompositions import decompositions
from rlx.torch.program import CompiledGraph, Options

TOLERANCES = {
    torch.float16: (1e-2, 1e-2), torch.bfloat16: (5e-2, 5e-2), torch.float32: (2e-4, 2e-5),
    torch.float64: (1e-7, 1e-7), torch.complex64: (2e-4, 2e-5), torch.complex128: (1e-7, 1e-7),
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """A call of an operator: a function of its tensors."""

    function: Callable[..., list[torch.Tensor]]
    tensors: list[torch.Tensor]


def calls(info: Any, dtype: torch.dtype, most: int) -> Iterator[Call]:
    """Yield the sample inputs of an operator, `most` at most."""
    gradients = info.supports_autograd and dtype.is_floating_point
    torch.manual_seed(0)
    samples = info.sample_inputs("cpu", dtype, requires_grad=gradients)
    for sample in itertools.islice(samples, most):
        yield as_call(info.op, (sample.input, sample.args, sample.kwargs))


def as_call(op: Callable[..., Any], given: Any) -> Call:
    leaves, tree = tree_flatten(given)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def function(*tensors: torch.Tensor) -> list[torch.Tensor]:
        moved = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            moved[place] = tensor
        first, args, kwargs = tree_unflatten(moved, tree)
        found, _ = tree_flatten(op(first, *args, **kwargs))
        return [x for x in found if isinstance(x, torch.Tensor)]

    return Call(function, [leaves[i] for i in places])


def through_rlx(function: Callable[..., Any], options: Options) -> Callable[..., Any]:
    """Return `function` as AOTAutograd and rlx compile it."""

    def compiler(module: Any, example_inputs: Any) -> Any:
        del example_inputs
        return make_boxed_func(graph_call(CompiledGraph(module, options, restride=1 << 30)))

    return aot_function(  # type: ignore[no-any-return]
        function, compiler, compiler, inference_compiler=compiler, decompositions=decompositions()
    )


def run(function: Callable[..., Any], tensors: Sequence[torch.Tensor], seed: int) -> Any:
    """Return results, and the gradients of a weighted sum of them."""
    given = [x.detach().clone().requires_grad_(x.requires_grad) for x in tensors]
    torch.manual_seed(seed)
    results = function(*given)
    wanted = [x for x in given if x.requires_grad]
    smooth = [x for x in results if x.requires_grad]
    gradients: Sequence[Any] = []
    if wanted and smooth:
        draw = torch.Generator().manual_seed(seed)
        weights = [torch.randn(x.shape, dtype=x.dtype, generator=draw) for x in smooth]
        gradients = torch.autograd.grad(smooth, wanted, weights, allow_unused=True)
    return [x.detach() for x in results], gradients


def difference(expected: Any, found: Any) -> str:
    """Return how results or gradients differ; "" where they agree."""
    for name, left, right in zip(("result", "gradient"), expected, found, strict=True):
        if len(left) != len(right):
            return f"{name}: {len(left)} and {len(right)}"
        for i, (x, y) in enumerate(zip(left, right, strict=True)):
            if x is None or y is None:
                if x is not y and (x if y is None else y).abs().sum() != 0:
                    return f"{name} {i}: one is none"
                continue
            rtol, atol = TOLERANCES.get(x.dtype, (0.0, 0.0))
            try:
                torch.testing.assert_close(y, x, rtol=rtol, atol=atol, equal_nan=True)
            except AssertionError as error:
                return (
                    f"{name} {i}: {str(error).splitlines()[0]} {' '.join(str(error).split())[:300]}"
                )
    return ""
