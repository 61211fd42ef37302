"""The border to LLVM: the only file that imports llvmlite, which is untyped.

Text goes in; text, object code or loaded machine code comes out. Importing this file loads
LLVM (about 100 MB of library), so the rest of the package imports it only when it compiles.

llvmlite holds a lock during each of its calls, since its modules share a context. Each module here
has a context of its own, and each thread its target machine, so that the long calls go without.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from rlx.codegen.llvm.machine import Machine
from rlx.codegen.llvm.optimize import Options, Pipeline
from rlx.errors import InternalError, ToolchainError, UnsupportedError
from rlx.locks import unforkable
from rlx.target import ARCHITECTURES, Target, detect_target

_library_numbers = itertools.count()
_BASES = {name: each.system for name, each in ARCHITECTURES.items() if each.system is not None}
_SYSTEMS = {"windows": "pc-windows", "macos": "apple-macosx"}
"""Of triples with two or three words, whose objects are no ELF: LLVM's vendor and name."""
_UNREPORTED = {"bf16", "dotprod", "i8mm"}
"""Features of aarch64 that Linux lists and LLVM does not return as those of the host."""
_SPEED_LEVELS = {Pipeline.QUICK: 1, Pipeline.LIGHT: 1, Pipeline.O2: 2, Pipeline.O3: 3}


@functools.cache
def host_machine(vector_bytes: int) -> Machine:
    """Return the machine this process runs on, to be used with vectors of `vector_bytes`."""
    _initialize()
    triple, found = llvm.get_default_triple(), llvm.get_host_cpu_features()
    if triple.startswith("aarch64"):
        found.update(dict.fromkeys(detect_target().features & _UNREPORTED, True))
    return Machine(triple, llvm.get_host_cpu_name(), found.flatten(), vector_bytes)


@functools.cache
def generic_machine(triple: str | None, target: Target) -> Machine:
    """Return the least machine of a triple, or of this system, that is like `target`."""
    if target.scalable_bytes:
        # LLVM 22 ends the process where it narrows masks of such vectors ("Cannot select")
        raise UnsupportedError(
            f"the LLVM backend has no code for the scalable vectors (SVE) of {target.cpu}",
            remedy='use backend="c", or another target, such as "aarch64-i8mm"',
        )
    _initialize_all()
    triple = triple or llvm.get_default_triple()
    architecture = triple.partition("-")[0]
    if architecture not in _BASES:
        raise UnsupportedError(
            f"without a C compiler there are no objects for {triple}",
            remedy=f"name a compiler in cc=, or use one of {', '.join(_BASES)}",
        )
    cpu, features, abi = _BASES[architecture]
    if architecture == target.architecture:
        features = ",".join(
            [*filter(None, [features]), *(f"+{f}" for f in sorted(target.features))]
        )
    if architecture == "x86_64" and target.cpu.startswith("x86-64"):
        cpu = "-".join(target.cpu.split("-")[:3])  # what is beyond the level are features
    return Machine(_spelled_for_llvm(triple), cpu, features, target.vector_bytes, abi)


def _spelled_for_llvm(triple: str) -> str:
    """Return a triple with its vendor: without one LLVM reads the system as the vendor, and ELF."""
    architecture, dash, rest = triple.partition("-")
    for system, spelled in _SYSTEMS.items():
        if rest.startswith(system):
            return f"{architecture}{dash}{spelled}{rest.removeprefix(system)}"
    return triple


def version() -> str:
    """Return LLVM's version: object code from another one is not reused."""
    return ".".join(str(part) for part in llvm.llvm_version_info)


def compile_object(text: str, machine: Machine, options: Options) -> bytes:
    """Return relocatable object code for a module's text."""
    return _emitted(text, machine, options, is_object=True)


def compile_objects(
    modules: Sequence[tuple[str, Options]], machine: Machine, threads: int
) -> list[bytes]:
    """Return object code for the text of each module, compiled on up to `threads` threads."""
    waiting = sorted(range(len(modules)), key=lambda number: len(modules[number][0]))
    found: dict[int, bytes] = {}
    failures: list[BaseException] = []

    def work() -> None:
        with unforkable():
            while waiting:
                try:
                    number = waiting.pop()  # the largest of those left
                except IndexError:  # another thread took it
                    return
                text, options = modules[number]
                try:
                    found[number] = compile_object(text, machine, options)
                except BaseException as error:
                    waiting.clear()
                    failures.append(error)

    with unforkable():  # until the other threads have ended, with what they freed
        others = [threading.Thread(target=work) for _ in modules[1:threads]]
        try:
            with suppress(RuntimeError):  # where no more threads start, those that did do the work
                for thread in others:
                    thread.start()
            work()
        finally:
            waiting.clear()  # nothing is left, but where a signal ended the loop
            for thread in others:
                if thread.ident is not None:
                    thread.join()
    if failures:
        raise failures.pop()
    return [found[number] for number in range(len(modules))]


def compile_assembly(text: str, machine: Machine, options: Options) -> str:
    """Return the assembly that `compile_object` would encode."""
    return _emitted(text, machine, options, is_object=False).decode()


def optimize_text(text: str, machine: Machine, options: Options) -> str:
    """Return the module's IR as it enters code generation."""
    return str(_optimized(text, _target_machine(machine, options), options))


class LoadedObject:
    """Object code in executable memory; it is unloaded with this object."""

    def __init__(
        self, objects: Sequence[bytes], exports: Sequence[str], symbols: Mapping[str, int]
    ) -> None:
        builder = llvm.JITLibraryBuilder().add_current_process()
        for code in objects:
            builder.add_object_img(code)
        for name in exports:
            builder.export_symbol(name)
        for name, address in symbols.items():
            builder.import_symbol(name, address)
        # LLVM keeps library names for good, so each load has its own.
        name = f"rlx_{next(_library_numbers)}"
        try:
            self._tracker: Any = builder.link(_linker(), name)
        except RuntimeError as error:
            raise ToolchainError(
                f"LLVM cannot link the compiled module: {error}",
                remedy='use backend="c"; this is a fault of rlx, please report it',
            ) from error

    def address(self, name: str) -> int:
        return int(self._tracker[name])


@functools.cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@functools.cache
def _initialize_all() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@functools.cache
def _linker() -> Any:
    _initialize()
    return llvm.create_lljit_compiler(use_jit_link=True)


class _Machines(threading.local):
    """The target machines of a thread."""

    def __init__(self) -> None:
        self.made: dict[tuple[Machine, Options], Any] = {}


_machines = _Machines()


def _target_machine(machine: Machine, options: Options) -> Any:
    found = _machines.made.get((machine, options))
    if found is None:
        found = _machines.made[machine, options] = _new_target_machine(machine, options)
    return found


def _new_target_machine(machine: Machine, options: Options) -> Any:
    _initialize()
    try:
        target = llvm.Target.from_triple(machine.triple)
    except RuntimeError as error:
        raise UnsupportedError(
            f"llvmlite on this machine has no code generator for {machine.triple}",
            remedy="name a C compiler in cc=, or make the artifact on such a machine",
        ) from error
    return target.create_target_machine(
        cpu=machine.cpu,
        features=machine.features,
        opt=2 if options.code_level is None else options.code_level,
        reloc="pic",
        codemodel="small",
        abiname=machine.abi,
    )


@functools.cache
def _unlocked(name: str) -> Callable[..., Any]:
    """Return a function of LLVM without llvmlite's lock around it."""
    locked = getattr(llvm.ffi.lib, name)
    library = ctypes.CDLL(llvm.ffi.lib._name, handle=llvm.ffi.lib._handle)
    function = library[name]
    function.argtypes, function.restype = locked.argtypes, locked.restype
    return function


def _optimized(text: str, target_machine: Any, options: Options) -> Any:
    """Parse, check and optimize in a new context; a refusal is a fault of the emitter."""
    pipeline = options.pipeline or Pipeline.O2
    module = _parsed(text)
    tuning = llvm.create_pipeline_tuning_options(speed_level=_SPEED_LEVELS[pipeline])
    tuning.loop_vectorization = True
    tuning.loop_unrolling = pipeline is Pipeline.O3
    builder = llvm.create_pass_builder(target_machine, tuning)
    passes = _passes(builder, pipeline)
    try:
        _unlocked("LLVMPY_RunNewModulePassManager")(passes, module, builder)
    finally:  # what they remember of the module is freed before it
        _free(passes)
        builder.close()
    return module


class _Module(llvm.ModuleRef):  # type: ignore[misc]
    """A module that owns its context.

    A garbage collector may finalize both in any order, which the frames of an exception hold, but
    the context must be freed last.
    """

    def __init__(self, pointer: Any, context: Any) -> None:
        super().__init__(pointer, context)
        self._context_pointer = context._ptr
        context._owned = True

    def _dispose(self) -> None:
        super()._dispose()
        llvm.ffi.lib.LLVMPY_ContextDispose(self._context_pointer)


def _parsed(text: str) -> Any:
    context = llvm.create_context()
    with llvm.ffi.OutputString() as reason:
        parse = _unlocked("LLVMPY_ParseAssembly")
        module = _Module(parse(context, text.encode(), reason), context)
        if reason:
            module.close()
            raise InternalError(f"llvm: the emitted IR is invalid: {reason}")
    try:
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"llvm: the emitted IR is invalid: {error}") from error
    return module


def _emitted(text: str, machine: Machine, options: Options, *, is_object: bool) -> bytes:
    target_machine = _target_machine(machine, options)
    module = _optimized(text, target_machine, options)
    with llvm.ffi.OutputString() as reason:
        emit = _unlocked("LLVMPY_TargetMachineEmitToMemory")
        buffer = emit(target_machine, module, int(is_object), reason)
        if not buffer:
            raise InternalError(f"llvm: no code for the emitted IR: {reason}")
    try:
        start = llvm.ffi.lib.LLVMPY_GetBufferStart(buffer)
        return ctypes.string_at(start, llvm.ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        llvm.ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def _free(passes: Any) -> None:
    """Give back a pass manager: 10 to 100 KiB with what its passes remember of a module.

    llvmlite's pass managers inherit an empty `_dispose` before their own, so that they are never
    freed; detached ones are not freed twice once that is mended. What stays is under 2 KiB for
    each pass builder, to which nothing gives access.
    """
    NewPassManager._dispose(passes)
    passes.detach()


def _passes(builder: Any, pipeline: Pipeline) -> Any:
    if pipeline in (Pipeline.O2, Pipeline.O3):
        return builder.getModulePassManager()
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    if pipeline is Pipeline.LIGHT:
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.add_global_dead_code_eliminate_pass()
    return passes
