"""Ahead-of-time artifacts: libraries, headers and weights that need no Python.

    rlx.aot(graph, "build/", name="mlp", params={"w": W})

writes `mlp.c`, `mlp.h`, `libmlp.so`, `libmlp.a`, `mlp.weights`, `mlp.json`, `main.c`,
`CMakeLists.txt` and `mlp.pc`. What they contain is decided in `codegen.aot`; this is the part
that touches files and runs compilers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.codegen.aot.archive import archive_bytes
from rlx.codegen.aot.artifact_view import external_functions
from rlx.codegen.aot.emit import ArtifactText, emit_artifact
from rlx.codegen.aot.layout import Keep
from rlx.codegen.aot.linking import MPI_LIBRARY
from rlx.codegen.aot.manifest import parse_manifest, weights_of
from rlx.codegen.aot.names import usable_artifact_name
from rlx.codegen.aot.options import MSVC_FLAGS, PORTABLE_FLAGS, SMALL_FLAGS, Options
from rlx.codegen.aot.weights import read_weights, weights_bytes
from rlx.codegen.c.sources import is_source
from rlx.codegen.mpi_names import is_collective
from rlx.dataclass import dataclass
from rlx.errors import InputError, UnsupportedError
from rlx.files import read_file
from rlx.ir.foreign import PYTHON_PREFIX, SYMBOLS
from rlx.ir.graph import Graph
from rlx.ir.literal import Literal
from rlx.limits import LoadLimits, loading
from rlx.passes.optional_passes import without_passes
from rlx.passes.precision.policy import Precision, target_at
from rlx.runtime.aot_source import ProgramSource, Traceable, program_source
from rlx.runtime.blas import is_blas
from rlx.runtime.cross import (
    Compiler,
    find_compiler,
    has_compiler,
    is_msvc,
    machine_of,
    triple_of,
)
from rlx.runtime.doubles import warn_of_doubles
from rlx.runtime.linked_blas import LinkedBlas, linked_blas
from rlx.runtime.lower import c_passes, lower_for
from rlx.runtime.model_files import load_model_file
from rlx.runtime.mpi import mpi_flags
from rlx.runtime.signature import Argument, Array, checked
from rlx.runtime.toolchain import require_llvm
from rlx.target import Target

if TYPE_CHECKING:
    from rlx.codegen.lower import Program

_BACKENDS = ("auto", "c", "llvm")
_THREADS = (None, "openmp", "callback")
_VECTORS = ("auto", "none")
_OPTIMIZE = ("speed", "size")


@dataclass(frozen=True, slots=True)
class Artifact:
    """What `aot` wrote. Files that were not asked for are None.

    Without a C compiler there is `object` and `api`, the C that surrounds it, and no `library`.
    """

    name: str
    directory: Path
    source: Path
    header: Path
    sample: Path
    manifest_path: Path
    library: Path | None
    archive: Path | None
    weights: Path | None
    manifest: Mapping[str, Any] = field(repr=False)
    object: Path | None = None
    api: Path | None = None

    @property
    def arena_bytes(self) -> int:
        return int(self.manifest["arena"]["bytes"])

    @property
    def info_header(self) -> Path:
        """The header of the description that all artifacts have."""
        return self.directory / "rlx_info.h"

    def write_weights(self, path: Path | str, params: Mapping[str, Any]) -> Path:
        """Write another weights file for this artifact; nothing is compiled again."""
        return write_weights(self.manifest, path, params)


def aot(
    graph_or_function: Graph | Traceable | Path | str,
    out_dir: Path | str,
    *,
    name: str | None = None,
    params: Mapping[str, Any] | None = None,
    threads: str | None = None,
    target: str | None = None,
    blas: str = "none",
    math: str = "libm",
    weights: str | Mapping[str, str] | None = None,
    example_inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    param_argnums: Sequence[int] = (),
    dims: Mapping[str, Any] | None = None,
    limits: LoadLimits | None = None,
    output_names: Sequence[str] = (),
    cc: str | None = None,
    backend: str = "auto",
    precision: Precision = None,
    vectors: str = "auto",
    optimize: str | None = None,
    line_directives: bool = False,
    emit_only: bool = False,
    without: Iterable[str] = (),
) -> Artifact:
    """Write an artifact of a graph, a function at `example_inputs` or a model file into `out_dir`.

    The sample program runs on the `example_inputs`; those of a graph may be a mapping by name.
    A model file is the path of an ONNX file; `dims` gives extents to what it leaves open, and
    `limits` bounds what loading it takes.

    Inputs that outputs replace in place, and the arguments of a function that `param_argnums`
    names, are params: they stay in the artifact, and start with the values in `example_inputs`.

    `weights` says how params come to the code: "file" (a weights file, mapped read-only and
    shared by arenas; the default where `params` are given), "embed" (constants in the code) or
    "argument" (written into the arena by the caller); a mapping says it per param. `threads` is
    None, "openmp" or "callback". `target` is "portable" (the default), "native", an architecture
    level such as "x86-64-v3", a microcontroller such as "cortex-m4" or a triple such as
    "aarch64-linux-gnu"; `cc` names a compiler for it. With `math="none"` the C does without libm,
    too, and with `vectors="none"`, or for "x86_64-windows-msvc", it is plain C99. `optimize` is
    "speed" or "size", which keeps code and memory small; microcontrollers are small by default, but
    for loops over small matrices, which take longer than variables and are less code.
    With `emit_only` nothing is compiled.
    `output_names` names the outputs in C, but for those that replace a param; the keys and fields
    of a function's result do where it is not given.

    For a processor without double precision, a RuntimeWarning names the line of the program that
    computes in f64 first.

    `backend` "c" compiles with a C compiler, "llvm" without one: then there are an object file
    and an archive of the kernels, and `<name>_api.c` to compile with the program that calls it.
    "auto" takes C where there is a compiler for the target. `blas` is that of `rlx.compile`, but
    for the default, "none"; a program in C links the library. With `line_directives` a debugger
    that stops in the C shows the program that it came from. `precision` and `without`
    are those of `rlx.compile`.
    """
    if isinstance(graph_or_function, (str, Path)):
        graph_or_function = load_model_file(graph_or_function, dims, limits)
    source = program_source(
        graph_or_function, example_inputs, param_argnums, params or {}, weights, precision
    )
    _require_known(threads, math)
    target = target or "portable"
    uses_llvm = not emit_only and _uses_llvm(backend, target, cc, math)
    for_cl = is_msvc(target) and not uses_llvm
    chosen = "none" if for_cl and vectors == "auto" else vectors
    machine = target_at(_as_chosen(machine_of(target), chosen, optimize), precision)
    machine = without_passes(replace(machine, is_serial=threads is None), without)
    library = linked_blas(blas)
    program = _lower(source.graph, machine, library)
    warn_of_doubles(source.graph, program.graph, machine)
    externals = external_functions(program)
    _refuse_python(externals)
    name = name or usable_artifact_name(source.graph.name)
    options = Options(
        name=name,
        keep=source.keep,
        values=_embedded(source),
        examples={n: Literal(x) for n, x in {**source.examples, **source.values}.items()},
        output_names=output_names or source.output_names,
        threads=threads,
        target=target,
        libraries=_libraries(externals, library, has_libm=math == "libm" and not is_msvc(target)),
        library_calls=tuple(library.symbol(f) for f in externals if library and is_blas(f)),
        without_libm=math == "none",
        is_plain=not machine.has_vectors,
        alignment=machine.alignment,
        flags=MSVC_FLAGS if for_cl else SMALL_FLAGS if machine.is_small else PORTABLE_FLAGS,
        is_msvc=is_msvc(target),
        external=_link_names(externals, library, name, in_object=uses_llvm),
        line_directives=line_directives,
        machine=machine,
        with_object=uses_llvm,
    )
    text = emit_artifact(program, source.graph, options)
    directory = _make_directory(out_dir)
    compiler = None if emit_only or uses_llvm else find_compiler(target, cc)
    artifact = _write(text, options, directory, compiler, source.values)
    return _with_object(artifact, text, options, machine) if uses_llvm else artifact


def _lower(graph: Graph, machine: Target, library: LinkedBlas | None) -> Program:
    """Lower for a machine: code for this one has the bits of `rlx.compile(backend="c")`."""
    lapack = (lambda: True) if library and library.has_lapack else None
    blas = library.library if library and library.takes_products else "none"
    return lower_for(graph, machine, lapack=lapack, blas=blas, passes=c_passes(machine))


def _embedded(source: ProgramSource) -> dict[str, Literal]:
    """Return the params that are constants in the code."""
    return {p: Literal(source.values[p]) for p, how in source.keep.items() if how is Keep.EMBED}


def _require_known(threads: str | None, math: str) -> None:
    if threads not in _THREADS:
        raise UnsupportedError(
            f"unknown threads {threads!r}", remedy="use None, 'openmp' or 'callback'"
        )
    if math not in ("libm", "none"):
        raise UnsupportedError(f"unknown math {math!r}", remedy="use 'libm' or 'none'")


def _as_chosen(machine: Target, vectors: str, optimize: str | None) -> Target:
    """Return the machine, without its vectors or small if that is asked for."""
    if vectors not in _VECTORS:
        raise UnsupportedError(f"unknown vectors {vectors!r}", remedy="use 'auto' or 'none'")
    if optimize not in (None, *_OPTIMIZE):
        raise UnsupportedError(f"unknown optimize {optimize!r}", remedy="use 'speed' or 'size'")
    small = machine.is_small if optimize is None else optimize == "size"
    with_vectors = machine.has_vectors and vectors == "auto" and not small
    return replace(
        machine, has_vectors=with_vectors, is_small=small, is_smallest=optimize == "size"
    )


def load_manifest(path: Path | str) -> dict[str, Any]:
    """Read and check an artifact's manifest."""
    return parse_manifest(_read(path).decode(errors="replace"))


def write_weights(manifest: Mapping[str, Any], path: Path | str, params: Mapping[str, Any]) -> Path:
    """Write a weights file for the artifact of `manifest`."""
    tensors, size = weights_of(manifest)
    arrays = {}
    for tensor in tensors:
        if tensor.name not in params:
            raise InputError(
                f"param {tensor.name!r} is missing from the weights",
                remedy="add an array of that name to the weights",
            )
        arrays[tensor.name] = checked(
            Argument(tensor.name, tensor.type), params[tensor.name], what="param"
        )
    path = Path(path)
    path.write_bytes(weights_bytes(tensors, size, arrays))
    return path


def load_weights(manifest: Mapping[str, Any], path: Path | str) -> dict[str, Array]:
    """Read a weights file of the artifact of `manifest`, or raise FormatError."""
    tensors, size = weights_of(manifest)
    return read_weights(_read(path), tensors, size)


def _read(path: Path | str) -> bytes:
    try:
        with loading(None, str(path)) as budget:
            return read_file(path, budget)
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}",
            remedy="check the path and its permissions",
        ) from error


def _uses_llvm(backend: str, target: str, cc: str | None, math: str) -> bool:
    """Decide whether LLVM compiles the kernels rather than a C compiler."""
    if backend not in _BACKENDS:
        raise UnsupportedError(f"unknown backend {backend!r}", remedy="use 'auto', 'c' or 'llvm'")
    if backend == "c" or (backend == "auto" and has_compiler(target, cc)):
        return False
    if math == "none":
        raise UnsupportedError(
            "math='none' is C, and there is no C compiler to compile it",
            remedy="use math='libm', or emit_only=True and compile elsewhere",
        )
    require_llvm()
    return True


def _link_names(
    externals: Sequence[str], blas: LinkedBlas | None, name: str, *, in_object: bool
) -> dict[str, str]:
    """Return what the linker calls external functions, where it differs from what kernels do.

    A user's own function is in the C around an object file, under a name that no other has.
    """
    brought = {f: f"{name}_{f}" for f in externals if in_object and is_source(f)}
    return brought | {f: blas.symbol(f) for f in externals if blas and is_blas(f)}


def _refuse_python(externals: Sequence[str]) -> None:
    """Raise where the program calls a Python function, which an artifact is without."""
    for symbol in externals:
        if symbol.startswith(PYTHON_PREFIX):
            raise UnsupportedError(
                f"the program calls the Python function {SYMBOLS[symbol].name}, and there is no "
                "Python in an artifact",
                remedy="leave the callback out, or register a C function for it with "
                "rlx.ffi.register_ffi_target",
            )


def _libraries(
    externals: Sequence[str], blas: LinkedBlas | None, *, has_libm: bool
) -> tuple[str, ...]:
    libm = ("m",) if has_libm else ()
    mpi = (MPI_LIBRARY,) if any(map(is_collective, externals)) else ()
    missing = [name for name in externals if not is_source(name) and name not in SYMBOLS]
    if not missing:
        return (*mpi, *libm)
    if blas is None:
        raise UnsupportedError(
            f"the program calls {', '.join(missing)}, which blas='none' leaves out",
            remedy="name the library to link in blas=, such as 'openblas'",
        )
    return (blas.library, *mpi, *libm)


def extra_flags(threads: str | None, libraries: Sequence[str]) -> tuple[str, ...]:
    """Return the flags that an artifact's threads and libraries ask of the C compiler."""
    openmp = ("-fopenmp",) if threads == "openmp" else ()
    return (*openmp, *(mpi_flags() if MPI_LIBRARY in libraries else ()))


def _make_directory(out_dir: Path | str) -> Path:
    directory = Path(out_dir)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot make the output directory {directory}: {error.strerror}",
            remedy="choose a directory that can be written",
        ) from error
    return directory


def _write(
    text: ArtifactText,
    options: Options,
    directory: Path,
    compiler: Compiler | None,
    values: Mapping[str, Array],
) -> Artifact:
    name = options.name
    for file, content in text.files.items():
        _write_text(directory / file, content)
    weights = None
    in_file = [tensor.name for tensor in text.layout.weights]
    if in_file and all(param in values for param in in_file):
        weights = write_weights(text.manifest, directory / f"{name}.weights", values)
    library = archive = None
    if compiler is not None:
        extra = extra_flags(options.threads, options.libraries)
        library, archive = compiler.build(
            directory, name, extra, options.libraries, usual=options.flags
        )
    return Artifact(
        name=name,
        directory=directory,
        source=directory / f"{name}.c",
        header=directory / f"{name}.h",
        sample=directory / "main.c",
        manifest_path=directory / f"{name}.json",
        library=library,
        archive=archive,
        weights=weights,
        manifest=text.manifest,
    )


def _with_object(
    artifact: Artifact, text: ArtifactText, options: Options, machine: Target
) -> Artifact:
    """Compile the kernels with LLVM, into an object file and an archive."""
    from rlx.codegen.llvm.objects import compile_kernels  # a large library, rarely needed here

    name = artifact.name
    code = compile_kernels(
        text.kernels,
        machine,
        triple=triple_of(options.target),
        exported=text.phases,
        symbols=options.external,
    )
    member = artifact.directory / f"{name}.o"
    archive = artifact.directory / f"lib{name}.a"
    _write_bytes(member, code)
    _write_bytes(
        archive, archive_bytes({member.name: code}, dict.fromkeys(text.phases, member.name))
    )
    api = artifact.directory / f"{name}_api.c"
    return replace(artifact, object=member, archive=archive, api=api)


def _write_bytes(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror}",
            remedy="choose a directory that can be written",
        ) from error


def _write_text(path: Path, content: str) -> None:
    try:
        path.write_text(content, newline="\n", encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror}",
            remedy="choose a directory that can be written",
        ) from error
