"""A program as the files of an artifact: C source, header, sample, build files, manifest.

    artifact = emit_artifact(program, declared, options)
    artifact.files["mlp.c"]

The text depends on the program and the options alone: no dates, paths or machines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rlx.codegen.aot.artifact_view import artifact_view
from rlx.codegen.aot.freestanding import without_libm
from rlx.codegen.aot.layout import ArtifactLayout, Keep, make_layout
from rlx.codegen.aot.manifest import format_manifest, manifest_of
from rlx.codegen.aot.names import artifact_name
from rlx.codegen.aot.options import Options
from rlx.codegen.aot.phases import PhaseKernel, run_steps, setup_steps
from rlx.codegen.aot.view import step_views
from rlx.codegen.c.emit import UnitView, kernel_prototype, unit_view
from rlx.codegen.c.line_directives import LineSources, with_line_directives
from rlx.codegen.c.prototypes import external_prototypes
from rlx.codegen.c.sources import is_source
from rlx.codegen.c.templates import environment
from rlx.codegen.foreign import foreign_symbols
from rlx.codegen.loops.nodes import Module
from rlx.codegen.loops.visit import functions_of
from rlx.codegen.lower import Program
from rlx.codegen.lower.graph import unread_constants
from rlx.codegen.text import verbatim
from rlx.dataclass import dataclass
from rlx.errors import UnsupportedError
from rlx.ir.graph import Graph


@dataclass(frozen=True, slots=True)
class ArtifactText:
    """The files of an artifact by name, the memory layout, and the manifest as data.

    `phases` are the kernels that C calls; `kernels` holds them and those that they call.
    """

    files: Mapping[str, str]
    layout: ArtifactLayout
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
        name=name, alignment=options.alignment, unread=unread_constants(program),
    )  # fmt: skip
    setup = setup_steps(program, layout)
    run = run_steps(program, layout, is_threaded=options.threads is not None)
    module = _module(program, (*setup, *run))
    unit = unit_view(module, options.external, is_plain=options.is_plain)
    targets = foreign_symbols(module)
    foreign = external_prototypes(module.kernels, options.external, only=targets.__contains__)
    unit = replace(unit, externals=tuple(e for e in unit.externals if e not in foreign))
    if options.without_libm:
        unit = without_libm(unit)
    view = artifact_view(program, layout, options, setup, run)
    view["foreign"] = foreign
    view = {**view, "source_hash": verbatim(f"0x{_source_hash(unit, view):016x}")}
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
        files[f"{name}_api.c"] = _api_text(program, layout, view, (setup, run), options.external)
    phases = tuple(step.kernel.name for step in (*setup, *run))
    return ArtifactText(files, layout, manifest, module, phases)


def _check_symbols(graph: Graph) -> None:
    for symbol in graph.symbols:
        if symbol.max is None:
            raise UnsupportedError(
                f"extent {symbol.name} has no upper bound; an artifact's arena is a constant",
                remedy=f"declare it as Dim({symbol.name!r}, max=...)",
            )


def _module(program: Program, steps: tuple[PhaseKernel, ...]) -> Module:
    """Return the kernels of the program and its phases; nothing is exported."""
    kernels = (*program.kernels.values(), *(step.kernel for step in steps))
    return Module(program.schedule.name, functions_of(kernels), kernels, ())


def _prefixed(steps: tuple[PhaseKernel, ...], name: str) -> tuple[PhaseKernel, ...]:
    """Return the steps under names that other libraries do not have."""
    return tuple(
        replace(step, kernel=replace(step.kernel, name=f"{name}_{step.kernel.name}"))
        for step in steps
    )


def _api_text(
    program: Program,
    layout: ArtifactLayout,
    view: Mapping[str, Any],
    phases: tuple[tuple[PhaseKernel, ...], tuple[PhaseKernel, ...]],
    symbols: Mapping[str, str],
) -> str:
    """Return the C around kernels that are in an object file, those of both phases."""
    setup, run = phases
    prototypes = tuple(kernel_prototype(step.kernel) for step in (*setup, *run))
    kernels = tuple(program.kernels.values())
    brought = tuple(external_prototypes(kernels, symbols, only=is_source))
    unit = UnitView(view["name"], (), (), (), brought, prototypes, (), (), ())
    steps = {
        "setup_steps": step_views(setup, ()),
        "run_steps": step_views(run, layout.extents.values()),
    }
    return environment().get_template("api.c.j2").render(a={**view, **steps}, unit=unit)


def _source_hash(unit: UnitView, view: Mapping[str, Any]) -> int:
    """Identify what the artifact computes and its layout."""
    digest = hashlib.sha256(repr((replace(unit, name=""), sorted(view.items()))).encode()).digest()
    return int.from_bytes(digest[:8], "little") | 1  # never 0, which marks an unused header
