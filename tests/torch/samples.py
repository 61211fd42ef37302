"""Samples of PyTorch's own operator database, computed by eager mode and by rlx."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from functorch.compile import aot_function
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.testing._internal import common_methods_invocations
from torch.utils._pytree import tree_flatten, tree_unflatten

from rlx.torch.backend import boxed
from rlx.torch.decompositions import decompositions
from rlx.torch.program import CompiledGraph, Options

TOLERANCES = {
    torch.float16: (1e-2, 1e-2), torch.bfloat16: (5e-2, 5e-2), torch.float32: (2e-4, 2e-5),
    torch.float64: (1e-7, 1e-7), torch.complex64: (2e-4, 2e-5), torch.complex128: (1e-7, 1e-7),
}  # fmt: skip


def _unseeded(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return op(*args, **kwargs)


# Operators that set the seed themselves would do so while they are traced, and not when they run.
common_methods_invocations.wrapper_set_seed = _unseeded


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
        return boxed(CompiledGraph(module, options, restride=1 << 30))

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
        weights = [_weights(x, draw) for x in smooth]
        gradients = torch.autograd.grad(smooth, wanted, weights, allow_unused=True)
    return [x.detach() for x in results], gradients


def _weights(x: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
    """Return cotangents that do not depend on the dtype but for their rounding."""
    wide = torch.complex128 if x.dtype.is_complex else torch.float64
    return torch.randn(x.shape, dtype=wide, generator=draw).to(x.dtype)


def _largest(x: torch.Tensor) -> float:
    """Return the size of the largest finite element, 1 at least."""
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        return 1.0
    finite = x.abs()[torch.isfinite(x)]
    return max(1.0, float(finite.max())) if finite.numel() else 1.0


def eager(call: Call, seed: int) -> Any:
    """Return what eager mode computes; None where it refuses the sample."""
    try:
        return run(call.function, call.tensors, seed)
    except (RuntimeError, AssertionError, IndexError, ValueError):
        return None


def compiled(call: Call, options: Options, seed: int) -> Any:
    """Return what rlx computes; None where values decide the size of a result.

    PyTorch cannot trace such a call; Dynamo leaves it to Python.
    """
    try:
        return run(through_rlx(call.function, options), call.tensors, seed)
    except (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode):
        return None


def disagreement(call: Call, expected: Any, found: Any, seed: int) -> str:
    """Return how rlx and eager mode differ; "" where they agree.

    Rounding may make eager mode the one that is off: results in f32 may as well be those of eager
    mode in f64.
    """
    text = difference(expected, found)
    if not text or all(x.dtype is not torch.float32 for x in call.tensors):
        return text
    tensors = [
        x.detach().double().requires_grad_(x.requires_grad) if x.dtype is torch.float32 else x
        for x in call.tensors
    ]
    exact = eager(Call(call.function, tensors), seed)
    return text if exact is None or not _is_as_near(exact, expected, found) else ""


def _is_as_near(exact: Any, expected: Any, found: Any) -> bool:
    """True if rlx is off by at most four times what eager mode is off by, and the tolerance."""
    for wide, eagers, ours in zip(exact, expected, found, strict=True):
        for x, e, y in zip(wide, eagers, ours, strict=True):
            if x is None or e is None or y is None:
                if _difference(e, y):
                    return False
            elif not x.dtype.is_floating_point:
                if not torch.equal(e, y):
                    return False
            else:
                off, allowed = (y - x).abs(), 4 * (e - x).abs().max() + 2e-5 * _largest(x)
                same = (y == x) | (torch.isnan(y) & torch.isnan(x))
                if x.shape != y.shape or not bool(torch.all(same | (off <= allowed))):
                    return False
    return True


def difference(expected: Any, found: Any) -> str:
    """Return how results or gradients differ; "" where they agree."""
    for name, left, right in zip(("result", "gradient"), expected, found, strict=True):
        if len(left) != len(right):
            return f"{name}: {len(left)} and {len(right)}"
        for place, (x, y) in enumerate(zip(left, right, strict=True)):
            text = _difference(x, y)
            if text:
                return f"{name} {place}: {text}"
    return ""


def _difference(x: Any, y: Any) -> str:
    if x is None or y is None:
        given = y if x is None else x
        return "" if given is None or not given.any() else "one is none"
    rtol, atol = TOLERANCES.get(y.dtype, (0.0, 0.0))
    atol *= _largest(x)
    try:
        torch.testing.assert_close(y, x, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        return " ".join(str(error).split())
    return ""


def agrees_in_values(expected: Any, found: Any) -> bool:
    """True if first results and gradients agree; further results are places of equal elements."""
    return not difference((expected[0][:1], expected[1]), (found[0][:1], found[1]))
