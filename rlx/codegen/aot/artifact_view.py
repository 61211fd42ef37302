"""What the templates of an artifact read: its name, memory, tensors, arguments and sample."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rlx.codegen.aot.layout import (
    WEIGHTS_HEADER_BYTES,
    ArtifactLayout,
    Keep,
    Space,
    Tensor,
)
from rlx.codegen.aot.linking import MPI_LIBRARY, link_words
from rlx.codegen.aot.options import Options
from rlx.codegen.aot.phases import PhaseKernel
from rlx.codegen.aot.ranks import rank_count
from rlx.codegen.aot.stack import stack_bytes
from rlx.codegen.aot.status import statuses_of
from rlx.codegen.aot.view import (
    ABI_VERSION,
    BLOCKS,
    SymbolView,
    TensorView,
    constant_view,
    doubtful_extents,
    filled,
    keeps,
    literals,
    status_views,
    step_views,
    symbol_view,
    tensor_view,
)
from rlx.codegen.aot.weights import MAGIC, MULTIPLIER, VERSION, layout_hash
from rlx.codegen.c.prototypes import external_symbols
from rlx.codegen.c.sources import sources_of
from rlx.codegen.entry import can_fail, describe_fault
from rlx.codegen.lower import Program
from rlx.codegen.lower.graph import all_thunks
from rlx.codegen.schedule import number_of
from rlx.codegen.text import identifier, verbatim
from rlx.dataclass import dataclass
from rlx.ir.literal import Literal
from rlx.passes.memory.planner import HEADER_BYTES

_VERSION = "0.1.0"
_COMMENT_WIDTH = 97
_INFO_PLACES = {"arena": "IN_ARENA", "weights": "IN_WEIGHTS", "constants": "IN_CODE"}
_LARGEST_EXAMPLE_BYTES = 1 << 16
"""Of all examples that the sample program holds; beyond that its inputs count up."""
_LARGEST_STATIC_BYTES = 1 << 30
"""The sample program allocates more than this: linkers place at most 2 GiB of static data."""


def artifact_view(
    program: Program,
    layout: ArtifactLayout,
    options: Options,
    setup: tuple[PhaseKernel, ...],
    run: tuple[PhaseKernel, ...],
) -> dict[str, Any]:
    """Return all that the templates of an artifact read of it, by name."""
    tensors = _tensors_of(layout, options)
    extents = layout.extents
    symbols = [symbol_view(symbol, extents[symbol.name]) for symbol in program.graph.symbols]
    statuses = statuses_of(
        program.kernels.values(), has_weights=layout.weights_bytes > 0, has_symbols=bool(symbols)
    )
    kernels = tuple(step.kernel for step in (*setup, *run))
    return {
        **_about(program, options),
        **_memory(layout),
        **_linking(layout, options),
        **_arguments(layout, symbols, tensors, options.name.upper()),
        "doubtful_extents": doubtful_extents(program.graph, extents),
        "statuses": status_views(statuses, layout.alignment),
        "stack_bytes": stack_bytes(kernels, options.machine),
        "faults": list(_faults(program)),
        "setup_steps": step_views(setup, ()),
        "run_steps": step_views(run, extents.values()),
        **_state(layout, tensors, options.name.upper()),
        **_sample(layout, tensors, options),
    }


@dataclass(frozen=True, slots=True)
class _Tensors:
    """The tensors of an artifact; of inputs and outputs also those that are no state."""

    inputs: list[TensorView]
    outputs: list[TensorView]
    params: list[TensorView]
    plain_inputs: list[TensorView]
    plain_outputs: list[TensorView]


def _tensors_of(layout: ArtifactLayout, options: Options) -> _Tensors:
    prefix, extents = options.name.upper(), layout.extents
    inputs = [tensor_view(t, prefix, "INPUT", extents) for t in layout.inputs]
    outputs = [tensor_view(t, prefix, "OUTPUT", extents) for t in layout.outputs]
    return _Tensors(
        inputs,
        outputs,
        [tensor_view(t, prefix, "PARAM", extents) for t in layout.params],
        _plain(inputs, [t.donated for t in layout.inputs]),
        _plain(outputs, [t.donated for t in layout.outputs]),
    )


def _about(program: Program, options: Options) -> dict[str, Any]:
    """Say what the artifact is and how its C is written."""
    return {
        "name": identifier(options.name),
        "prefix": identifier(options.name.upper()),
        "version": verbatim(_VERSION),
        "version_number": _version_number(),
        "sources": verbatim(sources_of(external_functions(program))),
        "abi_version": ABI_VERSION,
        "freestanding": options.without_libm,
        "is_plain": options.is_plain,
        "is_msvc": options.is_msvc,
        "threads": options.threads,
    }


def _memory(layout: ArtifactLayout) -> dict[str, Any]:
    """Say how large arena, weights and constants are, and how a file of weights begins."""
    return {
        "alignment": layout.alignment,
        "header_bytes": HEADER_BYTES,
        "arena_bytes": layout.arena_bytes,
        "is_large": layout.arena_bytes + layout.weights_bytes > _LARGEST_STATIC_BYTES,
        "has_weights": layout.weights_bytes > 0,
        "weights_bytes": layout.weights_bytes,
        "constants_bytes": layout.constants_bytes,
        "weights_magic": MAGIC,
        "weights_version": VERSION,
        "weights_multiplier": verbatim(f"0x{MULTIPLIER:016x}"),
        "weights_layout": verbatim(f"0x{layout_hash(layout.weights):016x}"),
        "weights_header_bytes": WEIGHTS_HEADER_BYTES,
        "constants": [constant_view(t) for t in layout.constants],
        "info_places": {space: identifier(place) for space, place in _INFO_PLACES.items()},
    }


def _linking(layout: ArtifactLayout, options: Options) -> dict[str, Any]:
    """Say what the C is compiled and linked with."""
    plain = [name for name in options.libraries if name != MPI_LIBRARY]
    return {
        "flags": options.flags,
        "libraries": options.libraries,
        "link_words": link_words(plain),
        "plain_libraries": plain,
        "library_lines": _library_lines(options),
        "has_mpi": MPI_LIBRARY in options.libraries,
        "ranks": rank_count(t.ranks for t in layout.inputs if t.ranks is not None),
    }


def _library_lines(options: Options) -> list[str]:
    """List the called functions of external libraries, which the header's guarantees exclude."""
    if not options.library_calls:
        return []
    library = next(name for name in options.libraries if name not in (MPI_LIBRARY, "m"))
    text = (
        f"Calls {', '.join(options.library_calls)} of {library}: link with it. Memory, threads and "
        "stack that these take are their own."
    )
    return textwrap.wrap(text, _COMMENT_WIDTH, break_long_words=False, break_on_hyphens=False)


def _arguments(
    layout: ArtifactLayout, symbols: Sequence[SymbolView], tensors: _Tensors, prefix: str
) -> dict[str, Any]:
    """Spell the parameters of the artifact's functions, and what they pass on."""
    blocks = [identifier(s.value) for s in (Space.WEIGHTS, Space.CONSTANTS) if layout.reads(s)]
    names = [symbol.c_name for symbol in symbols]
    arena, extents = identifier("arena"), [verbatim(f"int64_t {name}") for name in names]
    called = (*tensors.plain_inputs, *tensors.plain_outputs)
    arrays = [verbatim(f"const {t.c_type} *{t.c_name}") for t in tensors.plain_inputs]
    arrays += [verbatim(f"{t.c_type} *{t.c_name}") for t in tensors.plain_outputs]
    return {
        "symbols": symbols,
        "extra_blocks": blocks,
        "frame_fields": [arena, *(BLOCKS[block] for block in blocks), *names],
        "check_params": [verbatim("const void *arena"), *extents],
        "run_params": [verbatim("void *arena"), *extents],
        "run_names": [arena, *names],
        "run_at_args": [arena, *(verbatim(f"extents[{i}]") for i in range(len(symbols)))],
        "sample_args": [arena, *(identifier(f"{prefix}_MAX_{s.constant}") for s in symbols)],
        "call_params": [verbatim("void *arena"), *extents, *arrays],
        "call_names": [arena, *names, *(t.c_name for t in called)],
    }


def _state(layout: ArtifactLayout, tensors: _Tensors, prefix: str) -> dict[str, Any]:
    """List the tensors: as the header groups them, and by where params come from."""
    params = tensors.params
    return {
        "inputs": tensors.plain_inputs,
        "outputs": tensors.plain_outputs,
        "params": params,
        "tensors": [*tensors.inputs, *tensors.outputs, *params],
        "groups": _groups(tensors.inputs, tensors.plain_outputs, params),
        "arguments": [
            tensor_view(t, prefix, "PARAM", layout.extents) for t in keeps(layout, Keep.ARGUMENT)
        ],
        "embedded_state": [t for t in params if t.initial == "constants"],
        "loaded_state": [t for t in params if t.initial == "weights"],
    }


def _sample(layout: ArtifactLayout, tensors: _Tensors, options: Options) -> dict[str, Any]:
    """Say what the sample program runs on."""
    views, leaves = (*tensors.inputs, *tensors.params), (*layout.inputs, *layout.params)
    given = [
        _with_example(view, tensor, options.examples)
        for view, tensor in zip(views, leaves, strict=True)
        if _is_filled(tensor.keep, view)
    ]
    prints_bf16 = any(t.dtype == "bf16" for t in tensors.plain_outputs)
    return {
        "filled": given,
        "sample_inputs": _sample_inputs(given),
        "sample_copies": prints_bf16 or any(t.example for t in given),
        "sample_has_nonfinite": any(
            "INFINITY" in e or "NAN" in e for t in given for e in t.example
        ),
    }


def external_functions(program: Program) -> list[str]:
    """Return the external C functions that the program's kernels call, sorted."""
    return external_symbols(tuple(program.kernels.values()))


def _version_number() -> int:
    """Return the version as one number, as the preprocessor compares it."""
    major, minor, patch = map(int, _VERSION.split("."))
    return (major * 100 + minor) * 100 + patch


def _plain(tensors: list[TensorView], donated: list[bool]) -> list[TensorView]:
    """Return the tensors that a call copies: all but donated ones."""
    return [t for t, is_state in zip(tensors, donated, strict=True) if not is_state]


def _is_filled(keep: Keep | None, tensor: TensorView) -> bool:
    """True for what the sample program must give a value: inputs and argument params."""
    return tensor.elements > 0 and keep in (None, Keep.ARGUMENT)


def _with_example(view: TensorView, tensor: Tensor, examples: Mapping[str, Literal]) -> TensorView:
    """Return the view of a tensor with the content that the sample program gives it."""
    data = examples.get(tensor.name)
    total = sum(each.array.nbytes for each in examples.values())
    if data is None or total > _LARGEST_EXAMPLE_BYTES or data.array.size != tensor.type.elements:
        return view
    return replace(view, example=tuple(filled(literals(data))))


def _sample_inputs(views: Sequence[TensorView]) -> str:
    """Say what the sample program runs on."""
    if any(view.example for view in views):
        return "the example inputs of its export"
    return "inputs that count up" if views else "what it holds"


@dataclass(frozen=True, slots=True)
class _Group:
    """A section of the header."""

    title: str
    tensors: list[TensorView]


def _groups(
    inputs: list[TensorView], outputs: list[TensorView], params: list[TensorView]
) -> list[_Group]:
    named = (("Inputs.", inputs), ("Outputs.", outputs), ("Params.", params))
    return [_Group(title, tensors) for title, tensors in named if tensors]


def _faults(program: Program) -> Iterator[tuple[int, str]]:
    """Yield the number and description of every node whose kernel can fail."""
    seen: set[int] = set()
    for thunk in all_thunks(program.schedule.thunks):
        number = number_of(thunk)
        if can_fail(program.kernels[thunk.kernel_key]) and number not in seen:
            seen.add(number)
            yield number, describe_fault(thunk.node, number)
