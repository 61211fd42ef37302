"""A program as the files of an artifact: C source, header, sample, build files, manifest.

    artifact = emit_artifact(program, declared, options)
    artifact.files["mlp.c"]

The text depends on the program and the options alone: no dates, paths or machines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rlx.codegen.aot.freestanding import without_libm
from rlx.codegen.aot.layout import (
    WEIGHTS_HEADER_BYTES,
    Keep,
    Layout,
    Space,
    Tensor,
    make_layout,
)
from rlx.codegen.aot.linking import MPI_LIBRARY, link_words
from rlx.codegen.aot.manifest import format_manifest, manifest_of
from rlx.codegen.aot.names import artifact_name
from rlx.codegen.aot.phases import Step, run_steps, setup_steps
from rlx.codegen.aot.ranks import rank_count
from rlx.codegen.aot.stack import stack_bytes
from rlx.codegen.aot.status import statuses_of
from rlx.codegen.aot.view import (
    ABI_VERSION,
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
from rlx.codegen.c.emit import UnitView, kernel_prototype, unit_view
from rlx.codegen.c.line_directives import LineSources, with_line_directives
from rlx.codegen.c.prototypes import external_prototypes, external_symbols
from rlx.codegen.c.sources import sources_of
from rlx.codegen.c.templates import environment
from rlx.codegen.entry import can_fail, describe_fault
from rlx.codegen.kernels.build import WIDEST
from rlx.codegen.loops.nodes import Module
from rlx.codegen.loops.visit import functions_of
from rlx.codegen.lower import Program
from rlx.codegen.lower.graph import all_thunks, unread_constants
from rlx.codegen.schedule import number_of
from rlx.errors import UnsupportedError
from rlx.ir.graph import Graph
from rlx.ir.literal import Literal
from rlx.passes.memory.planner import ALIGNMENT, HEADER_BYTES
from rlx.target import Target

PORTABLE_FLAGS = (
    "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"
)  # fmt: skip
"""What optimizes the C and keeps its meaning, on any machine."""

SMALL_FLAGS = ("-Os", *PORTABLE_FLAGS[1:-1], "-ffunction-sections", "-fdata-sections")
"""The same for little code: a linker leaves out functions that nothing calls."""

_VERSION = "0.1.0"
_LARGEST_EXAMPLE_BYTES = 1 << 16
"""Of all examples that the sample program holds; beyond that its inputs count up."""
_LARGEST_STATIC_BYTES = 1 << 30
"""The sample program allocates more than this: linkers place at most 2 GiB of static data."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user chose for one artifact."""

    name: str
    keep: Mapping[str, Keep] = field(default_factory=dict)
    """Per param; others are arguments."""
    values: Mapping[str, Literal] = field(default_factory=dict)
    """The content of embedded params."""
    examples: Mapping[str, Literal] = field(default_factory=dict)
    """What the sample program gives to inputs, and to params that are arguments."""
    output_names: Sequence[str] = ()
    threads: str | None = None
    target: str = "portable"
    libraries: tuple[str, ...] = ("m",)
    """What the C links against."""
    without_libm: bool = False
    is_plain: bool = False
    """True for C99 without vectors and attributes, which any compiler takes."""
    external: Mapping[str, str] = field(default_factory=dict)
    """What the linker calls external functions, where it differs."""
    alignment: int = ALIGNMENT
    """Of the memory plan."""
    flags: tuple[str, ...] = PORTABLE_FLAGS
    line_directives: bool = False
    """True if the C is to lead a debugger to the user's program."""
    machine: Target = WIDEST
    """What the kernels are built for."""
    with_object: bool = False
    """True if kernels are compiled by LLVM, and C is needed for what surrounds them alone."""


@dataclass(frozen=True, slots=True)
class ArtifactText:
    """The files of an artifact by name, the memory layout, and the manifest as data.

    `phases` are the kernels that C calls; `kernels` holds them and those that they call.
    """

    files: Mapping[str, str]
    layout: Layout
    manifest: Mapping[str, Any]
    kernels: Module
    phases: tuple[str, ...]


def emit_artifact(program: Program, declared: Graph, options: Options) -> ArtifactText:
    """Return the files of an artifact of `declared`, which was lowered to `program`."""
    name = artifact_name(options.name)
    _check_symbols(program.graph)
    keep = {str(p.node.name): options.keep.get(str(p.node.name), Keep.ARGUMENT)
            for p in declared.params}  # fmt: skip
    layout = make_layout(
        program.plan, declared, keep, options.values, options.output_names,
        alignment=options.alignment, unread=unread_constants(program),
    )  # fmt: skip
    setup = setup_steps(program, layout)
    run = run_steps(program, layout, is_threaded=options.threads is not None)
    module = _module(program, (*setup, *run))
    unit = unit_view(module, options.external, is_plain=options.is_plain)
    if options.without_libm:
        unit = without_libm(unit)
    view = _view(program, layout, options, setup, run)
    view = {**view, "source_hash": f"0x{_source_hash(unit, view):016x}"}
    manifest = manifest_of(program, layout, view, options.threads, options.target)
    templates = {
        f"{name}.h": "artifact.h.j2",
        "rlx_info.h": "rlx_info.h",
        f"{name}.c": "artifact.c.j2",
        f"{name}.pc": "artifact.pc.j2",
        "main.c": "main.c.j2",
        "CMakeLists.txt": "CMakeLists.txt.j2",
    }
    files = {
        file: environment().get_template(template).render(a=view, unit=unit)
        for file, template in templates.items()
    }
    files[f"{name}.json"] = format_manifest(manifest)
    if options.line_directives:
        sources = LineSources.of(program.schedule, program.kernels)
        files[f"{name}.c"] = with_line_directives(files[f"{name}.c"], name, sources)
    if options.with_object:
        setup, run = _prefixed(setup, name), _prefixed(run, name)
        module = _module(program, (*setup, *run))
        files[f"{name}_api.c"] = _api_text(program, layout, view, setup, run, options.external)
    phases = tuple(step.kernel.name for step in (*setup, *run))
    return ArtifactText(files, layout, manifest, module, phases)


def external_functions(program: Program) -> list[str]:
    """Return the external C functions that the program's kernels call, sorted."""
    return external_symbols(tuple(program.kernels.values()))


def _check_symbols(graph: Graph) -> None:
    for symbol in graph.symbols:
        if symbol.max is None:
            raise UnsupportedError(
                f"extent {symbol.name} has no upper bound; an artifact's arena is a constant",
                remedy=f"declare it as Dim({symbol.name!r}, max=...)",
            )


def _module(program: Program, steps: tuple[Step, ...]) -> Module:
    """Return the kernels of the program and its phases; nothing is exported."""
    kernels = (*program.kernels.values(), *(step.kernel for step in steps))
    return Module(program.graph.name, functions_of(kernels), kernels, ())


def _prefixed(steps: tuple[Step, ...], name: str) -> tuple[Step, ...]:
    """Return the steps under names that other libraries do not have."""
    return tuple(
        replace(step, kernel=replace(step.kernel, name=f"{name}_{step.kernel.name}"))
        for step in steps
    )


def _api_text(
    program: Program,
    layout: Layout,
    view: Mapping[str, Any],
    setup: tuple[Step, ...],
    run: tuple[Step, ...],
    symbols: Mapping[str, str],
) -> str:
    """Return the C around kernels that are in an object file."""
    prototypes = tuple(kernel_prototype(step.kernel) for step in (*setup, *run))
    kernels = tuple(program.kernels.values())
    brought = tuple(external_prototypes(kernels, symbols, brought_only=True))
    unit = UnitView(view["name"], (), (), (), brought, prototypes, (), (), ())
    steps = {
        "setup_steps": step_views(setup, layout, ()),
        "run_steps": step_views(run, layout, program.graph.symbols),
    }
    return environment().get_template("api.c.j2").render(a={**view, **steps}, unit=unit)


def _source_hash(unit: UnitView, view: Mapping[str, Any]) -> int:
    """Identify what the artifact computes and where everything lies."""
    digest = hashlib.sha256(repr((replace(unit, name=""), sorted(view.items()))).encode()).digest()
    return int.from_bytes(digest[:8], "little") | 1  # never 0, which marks an unused header


def _view(
    program: Program,
    layout: Layout,
    options: Options,
    setup: tuple[Step, ...],
    run: tuple[Step, ...],
) -> dict[str, Any]:
    prefix = options.name.upper()
    declared = program.graph.symbols
    inputs = [tensor_view(t, prefix, "INPUT", declared) for t in layout.inputs]
    outputs = [tensor_view(t, prefix, "OUTPUT", declared) for t in layout.outputs]
    params = [tensor_view(t, prefix, "PARAM", declared) for t in layout.params]
    symbols = [symbol_view(symbol) for symbol in declared]
    kernels = tuple(step.kernel for step in (*setup, *run))
    has_weights = layout.weights_bytes > 0
    statuses = statuses_of(
        program.kernels.values(), has_weights=has_weights, has_symbols=bool(symbols)
    )
    plain_inputs = _plain(inputs, [t.donated for t in layout.inputs])
    plain_outputs = _plain(outputs, [t.donated for t in layout.outputs])
    extra_blocks = [s.value for s in (Space.WEIGHTS, Space.CONSTANTS) if layout.reads(s)]
    pointers = {"weights": "weights_of(arena)", "constants": "(const uint8_t *)&constant_data"}
    given = [
        _with_example(view, tensor, options.examples)
        for view, tensor in zip((*inputs, *params), (*layout.inputs, *layout.params), strict=True)
        if _is_filled(tensor.keep, view)
    ]
    names = [symbol.c_name for symbol in symbols]
    extents = [f"int64_t {name}" for name in names]
    arrays = [f"const {t.c_type} *{t.c_name}" for t in plain_inputs]
    arrays += [f"{t.c_type} *{t.c_name}" for t in plain_outputs]
    return {
        "name": options.name,
        "doubtful_extents": doubtful_extents(program.graph),
        "prefix": prefix,
        "version": _VERSION,
        "version_number": _version_number(),
        "sources": sources_of(external_functions(program)),
        "abi_version": ABI_VERSION,
        "alignment": layout.alignment,
        "header_bytes": HEADER_BYTES,
        "flags": options.flags,
        "libraries": options.libraries,
        "freestanding": options.without_libm,
        "is_plain": options.is_plain,
        "link_words": link_words(n for n in options.libraries if n != MPI_LIBRARY),
        "has_mpi": MPI_LIBRARY in options.libraries,
        "ranks": rank_count(t.ranks for t in layout.inputs if t.ranks is not None),
        "plain_libraries": [n for n in options.libraries if n != MPI_LIBRARY],
        "threads": options.threads,
        "statuses": status_views(statuses, layout.alignment),
        "symbols": symbols,
        "arena_bytes": layout.arena_bytes,
        "stack_bytes": stack_bytes(kernels, options.machine),
        "is_large": layout.arena_bytes + layout.weights_bytes > _LARGEST_STATIC_BYTES,
        "has_weights": has_weights,
        "weights_bytes": layout.weights_bytes,
        "weights_magic": MAGIC,
        "weights_version": VERSION,
        "weights_multiplier": f"0x{MULTIPLIER:016x}",
        "weights_layout": f"0x{layout_hash(layout.weights):016x}",
        "weights_header_bytes": WEIGHTS_HEADER_BYTES,
        "constants": [constant_view(t) for t in layout.constants],
        "arguments": [tensor_view(t, prefix, "PARAM") for t in keeps(layout, Keep.ARGUMENT)],
        "embedded_state": [t for t in params if t.initial == "constants"],
        "loaded_state": [t for t in params if t.initial == "weights"],
        "tensors": [*inputs, *outputs, *params],
        "groups": _groups(inputs, plain_outputs, params),
        "params": params,
        "info_places": {"arena": "IN_ARENA", "weights": "IN_WEIGHTS", "constants": "IN_CODE"},
        "inputs": plain_inputs,
        "outputs": plain_outputs,
        "filled": given,
        "sample_inputs": _sample_inputs(given),
        "sample_copies": any(t.example for t in given)
        or any(t.dtype == "bf16" for t in plain_outputs),
        "faults": list(_faults(program)),
        "setup_steps": step_views(setup, layout, ()),
        "run_steps": step_views(run, layout, program.graph.symbols),
        "extra_blocks": extra_blocks,
        "block_args": ["arena", *(pointers[block] for block in extra_blocks)],
        "run_args": ["arena", *(pointers[block] for block in extra_blocks), *names],
        "frame_args": [f"frame->{n}" for n in ("arena", *extra_blocks, *names)],
        "check_params": ["const void *arena", *extents],
        "run_params": ["void *arena", *extents],
        "run_names": ["arena", *names],
        "run_at_args": ["arena", *(f"extents[{i}]" for i in range(len(symbols)))],
        "sample_args": ["arena", *(f"{prefix}_MAX_{name.upper()}" for name in names)],
        "call_params": ["void *arena", *extents, *arrays],
        "call_names": ["arena", *names, *(t.c_name for t in (*plain_inputs, *plain_outputs))],
    }  # fmt: skip


def _version_number() -> int:
    """Return the version as one number, as the preprocessor compares it."""
    major, minor, patch = map(int, _VERSION.split("."))
    return (major * 100 + minor) * 100 + patch


def _plain(tensors: list[TensorView], donated: list[bool]) -> list[TensorView]:
    """Return what a call takes or gives: donated tensors stay in the arena."""
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
            yield number, describe_fault(thunk.node, number).replace("\\", "/").replace('"', "'")
