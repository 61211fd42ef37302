"""Samples of PyTorch's own operator database, computed by eager mode and by rlx."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from functorch.compile import aot_function
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
    smooth: Callable[[Any], Any]
    """Makes of the results what has a gradient: without the phase of an eigenvector, for one."""


def calls(info: Any, dtype: torch.dtype, most: int | None) -> list[Call]:
    """Return sample inputs of an operator: all, or `most` evenly spaced among them."""
    gradients = info.supports_autograd and dtype.is_floating_point
    torch.manual_seed(0)
    samples = list(info.sample_inputs("cpu", dtype, requires_grad=gradients))
    if most is not None and len(samples) > most:
        samples = [samples[i * len(samples) // most] for i in range(most)]
    return [as_call(info.op, sample) for sample in samples]


def as_call(op: Callable[..., Any], sample: Any) -> Call:
    leaves, tree = tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def function(*tensors: torch.Tensor) -> Any:
        moved = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            moved[place] = tensor
        first, args, kwargs = tree_unflatten(moved, tree)
        return op(first, *args, **kwargs)

    return Call(function, [leaves[i] for i in places], sample.output_process_fn_grad)


def through_rlx(function: Callable[..., Any], options: Options) -> Callable[..., Any]:
    """Return `function` as AOTAutograd and rlx compile it."""

    def compiler(module: Any, example_inputs: Any) -> Any:
        del example_inputs
        return boxed(CompiledGraph(module, options, restride=1 << 30))

    return aot_function(  # type: ignore[no-any-return]
        function, compiler, compiler, inference_compiler=compiler, decompositions=decompositions()
    )


def _tensors(found: Any) -> list[torch.Tensor]:
    return [x for x in tree_flatten(found)[0] if isinstance(x, torch.Tensor)]


def outputs(call: Call, given: Sequence[torch.Tensor]) -> tuple[Any, list[torch.Tensor]]:
    """Return results of a call, and those of them, as `smooth` has them, that have a gradient."""
    found = call.function(*given)
    try:
        smooth = call.smooth(found)
    except (TypeError, ValueError, AttributeError, RuntimeError):
        smooth = found
    return _tensors(found), [x for x in _tensors(smooth) if x.requires_grad]


def run(call: Call, tensors: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]) -> Any:
    """Return results, the gradients of a sum of them with `weights`, and the smooth results."""
    with torch.enable_grad():
        given = [
            x.detach().clone().requires_grad_(old.requires_grad)
            for x, old in zip(tensors, call.tensors, strict=True)
        ]
        results, smooth = outputs(call, given)
        wanted = [x for x in given if x.requires_grad]
        gradients: Sequence[Any] = []
        if wanted and smooth:
            gradients = torch.autograd.grad(smooth, wanted, list(weights), allow_unused=True)
    return [x.detach() for x in results], list(gradients), [x.detach() for x in smooth]


def weights_of(call: Call, seed: int) -> list[torch.Tensor]:
    """Return cotangents, which do not depend on the dtype but for their rounding."""
    draw = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    given = [x.detach().clone().requires_grad_(x.requires_grad) for x in call.tensors]
    return [_weights(x, draw) for x in outputs(call, given)[1]]


def _weights(x: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
    wide = torch.complex128 if x.dtype.is_complex else torch.float64
    return torch.randn(x.shape, dtype=wide, generator=draw).to(x.dtype)


def _largest(x: torch.Tensor) -> float:
    """Return the size of the largest finite element, 1 at least."""
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        return 1.0
    finite = x.abs()[torch.isfinite(x)]
    return max(1.0, float(finite.max())) if finite.numel() else 1.0


def eager(group: Sequence[Call], weights: Sequence[Any], seed: int = 0) -> Any:
    """Return what eager mode computes for the calls of a group, one after the other."""
    torch.manual_seed(seed)
    return [run(call, call.tensors, each) for call, each in zip(group, weights, strict=True)]


def compiled(group: Sequence[Call], weights: Sequence[Any], options: Options, seed: int = 0) -> Any:
    """Return what one program of rlx computes for all calls of a group, with gradients."""
    sizes = [(len(call.tensors), len(each)) for call, each in zip(group, weights, strict=True)]

    def joint(*tensors: torch.Tensor) -> Any:
        given, found = iter(tensors), []
        for call, (count, cotangents) in zip(group, sizes, strict=True):
            own = list(itertools.islice(given, count))
            found.append(run(call, own, list(itertools.islice(given, cotangents))))
        return found

    leaves = [
        x.detach()
        for call, each in zip(group, weights, strict=True)
        for x in (*call.tensors, *each)
    ]
    torch.manual_seed(seed)
    with torch.no_grad():
        return through_rlx(joint, options)(*leaves)


def disagreement(call: Call, weights: Any, expected: Any, found: Any) -> str:
    """Return how rlx and eager mode differ; "" where they agree.

    Rounding may make eager mode the one that is off: results in f32 may as well be those of eager
    mode in f64.
    """
    text = difference(expected, found)
    if not text or all(x.dtype is not torch.float32 for x in call.tensors):
        return text
    tensors = [_in_f64(x).requires_grad_(x.requires_grad) for x in call.tensors]
    wide = Call(call.function, tensors, call.smooth)
    try:
        (exact,) = eager([wide], [[_in_f64(x) for x in weights]])
    except RuntimeError:
        return text
    return "" if _is_as_near(exact, expected, found) else text


def _in_f64(x: torch.Tensor) -> torch.Tensor:
    wide = {torch.float32: torch.float64, torch.complex64: torch.complex128}
    return x.detach().to(wide.get(x.dtype, x.dtype))


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
    for name, left, right in zip(
        ("result", "gradient", "smooth result"), expected, found, strict=True
    ):
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
