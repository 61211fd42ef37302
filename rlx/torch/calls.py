"""Direct calls of compiled graphs, where AOTAutograd's wrappers have no effect.

The wrappers write changed inputs back, make views of inputs again and unwrap subclasses; they cost
3 microseconds in inference and 70 in a step. A program of plain tensors of fixed shapes that
returns no views is called directly: in training by one `autograd.Function`. Buffers that it
changes, as batch normalization does, are written by one call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._dynamo import compiled_autograd
from torch._functorch._aot_autograd.schemas import PlainTensorMeta
from torch.autograd import forward_ad
from torch.autograd.function import FunctionCtx

from rlx.dataclass import dataclass
from rlx.errors import UnsupportedError
from rlx.torch.program import CompiledGraph
from rlx.torch.types import resolved

_WRAPPERS_WORK = (
    "num_mutated_graph_handled_indices", "num_outputs_aliased", "num_intermediate_bases",
    "dynamic_outputs", "tokens", "num_backward_tokens",
    "is_rng_op_functionalized", "num_graphsafe_rng_states", "num_symints_saved_for_bw",
    "num_opaque_objects_saved_for_bw",
    "indices_of_inputs_that_requires_grad_with_mutations_in_bw",
)  # fmt: skip
"""Fields of AOTAutograd's metadata that are 0 or empty where its wrappers have nothing to do."""


def direct_call(
    graphs: Mapping[str, CompiledGraph],
    meta: Any,
    given: Sequence[Any],
    wrapped: Callable[..., Any],
) -> Callable[..., Any]:
    """Return a function of the arguments of Dynamo's graph; `wrapped` itself where it is needed.

    `graphs` are those that AOTAutograd has compiled, by "inference" or by "forward" and "backward";
    the last one is compiled by the first call of the gradient, through `wrapped`.
    """
    first = graphs.get("inference") or graphs.get("forward")
    if first is None or not _is_plain(first, meta, given):
        return wrapped
    if "inference" in graphs:
        return _inference(first, meta.mutated_inp_runtime_indices)
    return _training(first, graphs, meta, wrapped)


def _is_plain(graph: CompiledGraph, meta: Any, given: Sequence[Any]) -> bool:
    return (
        meta is not None
        and not graph.symbols
        and len(graph.inputs) == len(given)
        and all(isinstance(each, torch.Tensor) for each in graph.metas)
        and meta.grad_enabled_mutation is None
        and not any(getattr(meta, name, True) for name in _WRAPPERS_WORK)
        and not any(meta.mutated_inp_stream_indices or ())
        and all(map(_is_written_by_copy, meta.input_info))
        and all(isinstance(each, PlainTensorMeta) for each in meta.subclass_inp_meta)
        and torch._C._autograd._top_saved_tensors_default_hooks(True) is None
    )


def _is_written_by_copy(info: Any) -> bool:
    """True for an input whose change, if there is one, is in its elements alone."""
    return not (
        info.mutates_metadata
        or info.mutates_storage_metadata
        or info.mutation_inductor_storage_resize
        or (info.mutates_data and (info.mutations_hidden_from_autograd or info.requires_grad))
    )


def _inference(graph: CompiledGraph, changed: Sequence[int]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        refuse_tangents(args)
        found = graph.fast(*args)
        return graph.slow(list(args)) if found is None else found

    if not changed:
        return call

    def call_and_write(*args: Any) -> Any:
        found = call(*args)
        _write(args, changed, found)
        return found[len(changed) :]

    return call_and_write


def _write(args: Sequence[Any], changed: Sequence[int], found: Sequence[Any]) -> None:
    """Write the first results to the arguments that the program changes."""
    torch._foreach_copy_([args[place] for place in changed], found[: len(changed)])


def refuse_tangents(args: Sequence[Any]) -> None:
    """Raise UnsupportedError for tensors with tangents: results would have none, and no error."""
    if forward_ad._current_level < 0:
        return
    for each in args:
        if isinstance(each, torch.Tensor) and forward_ad.unpack_dual(each).tangent is not None:
            raise UnsupportedError(
                "forward-mode derivatives of a function that torch.compile compiled",
                remedy="call it without torch.compile, by torch.func.jvp, or as rlx.from_torch",
            )


def is_batch(tensor: torch.Tensor) -> bool:
    """True for a cotangent of `torch.autograd.grad` with `is_grads_batched`."""
    found: bool = torch._C._functorch.is_legacy_batchedtensor(tensor)
    return found


def by_operators(graph: CompiledGraph, args: Sequence[Any]) -> Sequence[Any]:
    """Run a graph by PyTorch's operators, which have rules for batches of cotangents."""
    found: Sequence[Any] = torch.fx.Interpreter(graph.module).run(*args)
    return found


# Training


@dataclass(frozen=True, slots=True)
class _Step:
    """The graphs of a training step, and what autograd needs to be given of them."""

    forward: CompiledGraph
    backward: CompiledGraph
    changed: Sequence[int]
    """Arguments that the first results of `forward` are written to."""
    returned: int
    """Where the results that are returned end; the others are saved."""
    unchecked: int
    """From which result on what is saved is not seen by the user, whose changes PyTorch counts."""
    constant: Sequence[int]
    """Results without a gradient."""
    cotangents: Sequence[int] | None
    """Results whose gradients `backward` reads; None for all."""
    slow: Callable[[list[Any]], Any]
    """`backward`, where Dynamo traces nothing: its first call compiles."""


def _step(forward: CompiledGraph, backward: CompiledGraph, meta: Any) -> _Step | None:
    infos = meta.output_info
    cotangents = [
        place
        for place, info in enumerate(infos)
        if issubclass(info.raw_type, torch.Tensor)
        and getattr(info, "requires_grad_for_backward", info.requires_grad)
    ]
    changed = meta.mutated_inp_runtime_indices
    returned = len(changed) + len(infos)
    saved = forward.results[returned:]
    gives_all = all(
        gradient is not None or not info.requires_grad
        for gradient, info in zip(backward.results, meta.input_info, strict=False)
    )
    if (
        len(backward.inputs) != len(saved) + len(cotangents)
        or len(backward.results) != len(forward.inputs)
        or any(forward.inputs[place] in saved for place in changed)
        or not gives_all  # AOTAutograd detaches inputs that get none
    ):
        return None
    unchecked = getattr(meta, "num_tensors_saved_with_no_vc_check", None) or 0
    return _Step(
        forward=forward, backward=backward, changed=changed, returned=returned,
        unchecked=len(forward.results) - unchecked,
        constant=[
            place
            for place, info in enumerate(infos)
            if issubclass(info.raw_type, torch.Tensor) and not info.requires_grad
        ],
        cotangents=None if cotangents == list(range(len(infos))) else cotangents,
        slow=torch._dynamo.disable(backward.slow),
    )  # fmt: skip


def _training(
    forward: CompiledGraph, graphs: Mapping[str, CompiledGraph], meta: Any, wrapped: Any
) -> Callable[..., Any]:
    apply = _Compiled.apply
    step: _Step | None = None
    looked = False

    def call(*args: Any) -> Any:
        nonlocal step, looked
        if not looked and (backward := graphs.get("backward")) is not None:
            looked, step = True, _step(forward, backward, meta)
        if step is None or compiled_autograd.compiled_autograd_enabled:
            return wrapped(*args)
        return apply(step, *args)

    return call


class _Compiled(torch.autograd.Function):  # type: ignore[misc]
    """A compiled forward graph, whose gradient is the compiled backward graph."""

    @staticmethod
    def forward(ctx: Any, step: _Step, *args: Any) -> Any:
        found = step.forward.fast(*args)
        if found is None:
            found = step.forward.slow(list(args))
        if step.changed:
            _write(args, step.changed, found)
        # A view keeps its base alive, and with it what autograd has saved there.
        checked = found[step.returned : step.unchecked]
        ctx.save_for_backward(*[x.detach() if x._is_view() else x for x in checked])
        ctx.unchecked = found[step.unchecked :]
        ctx.step = step
        results = tuple(found[len(step.changed) : step.returned])
        if step.constant:
            ctx.mark_non_differentiable(*[results[place] for place in step.constant])
            ctx._materialize_non_diff_grads = False
        return results

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        step = ctx.step
        args = [*ctx.saved_tensors, *ctx.unchecked]
        if step.cotangents is not None:
            cotangents = tuple(cotangents[place] for place in step.cotangents)
        if any(map(is_batch, cotangents)):
            return None, *by_operators(step.backward, [*args, *cotangents])
        args += map(resolved, cotangents)
        del cotangents
        if torch.is_grad_enabled():
            return _Gradient.apply(step, torch.empty(0, requires_grad=True), *args)
        ctx.maybe_clear_saved_tensors()
        found = step.backward.fast(*args)
        if found is None:
            found = step.slow(args)
        return None, *found


torch._dynamo.trace_rules.add("rlx")
# `backward` is called from frames that Dynamo has broken: it traces none of rlx's files.
vars(_Compiled.backward).update(
    _torchdynamo_disable=True,
    _torchdynamo_disable_msg="compiled autograd sees into the backward pass of forward calls that "
    "it is enabled for: enable it before the forward call, or pass fullgraph=False",
)


class _Gradient(torch.autograd.Function):  # type: ignore[misc]
    """The gradient with `create_graph=True`: its own gradient is an error, not zero."""

    @staticmethod
    def forward(ctx: FunctionCtx, step: _Step, connected: Any, *args: Any) -> Any:
        del ctx, connected  # an operand that has a gradient, so that results have one
        return None, *step.slow(list(args))

    @staticmethod
    def backward(*_: Any) -> Any:
        raise UnsupportedError(
            "second derivatives of a function that torch.compile compiled",
            remedy="call it without torch.compile, or as rlx.from_torch",
        )
