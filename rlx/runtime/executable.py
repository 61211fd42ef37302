"""A compiled graph: native code, its arena, and checked calls from Python.

    f = rlx.compile(graph, params={"w": W})
    (y,) = f(x=X)            # or f(X), or f.run({"x": X})

Inputs are copied into the arena and results out of it, so that arrays never alias. Calls from
several threads take turns; `clone()` gives another executable of the same code with an arena of
its own.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from rlx.errors import InputError
from rlx.ir.graph import Graph
from rlx.locks import refuse_reentry
from rlx.runtime.arena import Arena
from rlx.runtime.arrays import ARRAY_CLASSES, BUFFER_CLASSES, frozen
from rlx.runtime.arrays import Array as ImmutableArray
from rlx.runtime.backend import NativeModule
from rlx.runtime.c_backend import CBackend, CModule
from rlx.runtime.compiled_code import AnyProgram, CompiledCode
from rlx.runtime.gateway import FastCall, InputPort, OutputPort, find_gateway
from rlx.runtime.image import Image
from rlx.runtime.interface import Origin
from rlx.runtime.native import Pointer, function_at, pointer_into, pointer_to
from rlx.runtime.output_buffers import check_extents, checked_buffers, filled
from rlx.runtime.residents import Residents
from rlx.runtime.result_memory import DonatedMemory, address_of, donated_copy
from rlx.runtime.signature import Array, checked, named_params
from rlx.runtime.specialization import ArenaViews, Specialization
from rlx.runtime.threads import Job, try_run
from rlx.target import detect_target

_CALLS_TO_HEAT = 2


class Executable(CompiledCode):
    """Runs one compiled graph. Make it with `rlx.compile`."""

    def __init__(
        self,
        graph: Graph | Origin,
        program: AnyProgram,
        native: NativeModule,
        *,
        image: Image | None = None,
        threads: int = 1,
        params: Mapping[str, Any] | None = None,
        residents: Residents | None = None,
    ) -> None:
        self._origin = graph if isinstance(graph, Origin) else Origin.of(graph)
        self.signature = self._origin.signature
        self._image = image or Image.of(program, threads=threads)
        self.residents = residents or Residents(
            Arena(self._image.arena_bytes),
            self._image.passing,
            temporaries=self._image.resident_bytes,
        )
        self.arena, self._lock = self.residents.arena, self.residents.lock
        self._program = program
        self._native = native
        self._threads = self._image.threads
        self._arity = len(self.signature.inputs)
        self._long_calls = 0
        self._fast: FastCall | None = None
        self._classes: tuple[type[Array], ...] = (ndarray,) * len(self.signature.outputs)
        self._views = ArenaViews(self._origin, self._image, self.arena)
        self._params = {a.name: self._views.leaf(a) for a in self.signature.params}
        self.residents.find(self._params)
        self._views.load_constants()
        self._bind_entries()
        self._fixed = None if self.signature.symbols else self._views.at({}, self._enter)
        for name, value in named_params(params).items():
            self.set_param(name, value)

    # Calling

    def __call__(self, *inputs: Any, **named: Any) -> tuple[Array, ...]:
        """Run on inputs by position or by name; results come in output order."""
        if not named:
            fast = self._fast  # another thread may take it away
            if fast is not None and (results := fast(*inputs)) is not None:
                return results
            if len(inputs) == self._arity:
                return self._execute(inputs)
        return self._execute(self.signature.arrange(inputs, named))

    def run(
        self, feeds: Mapping[str, Any], *, out: Sequence[Array | None] | None = None
    ) -> tuple[Array, ...]:
        """Run on inputs by name; an output goes to its array in `out`, where there is one."""
        values = self.signature.arrange((), feeds)
        if out is None:
            return self._execute(values)
        return self._execute(values, checked_buffers(self.signature, out))

    def try_arrays(self, values: Sequence[Any]) -> tuple[Array, ...] | None:
        """Run on arrays of just the right dtypes and shapes; `None`, and no run, if one differs.

        The short way in for a caller that must find out whether its arguments fit.
        """
        fast = self._fast  # another thread may take it away
        if fast is not None and (results := fast(*values)) is not None:
            return results
        call = self._fixed
        if call is None or len(values) != len(call.inputs):
            return None
        for (_, dtype, shape, _), value in zip(call.inputs, values):  # noqa: B905  hot
            if type(value) not in ARRAY_CLASSES or value.dtype is not dtype or value.shape != shape:
                return None
        return self._execute(values)

    def give_as(self, classes: Sequence[type[Array]]) -> None:
        """Set the classes of the outputs: `numpy.ndarray`, or an immutable one."""
        refuse_reentry(self._lock, self.signature.name)
        with self._lock:
            self._classes = tuple(classes)
            self._fast = None

    def advance(self, feeds: Mapping[str, Any]) -> tuple[Array, ...]:
        """Run on inputs by name; return the outputs that replace no param.

        What replaces params stays in the executable, and nothing of it is copied.
        """
        arrays = self._arrays(self.signature.arrange((), feeds))
        refuse_reentry(self._lock, self.signature.name)
        with self._lock:
            outputs = self._enter_with(arrays).outputs
            return tuple(copy() for i, copy in enumerate(outputs) if i not in self._replacing)

    def state(self, name: str) -> Array:
        """Return a donated param in place, to be read or written between runs."""
        if name not in self.donated_params:
            raise InputError(
                f"{self.signature.name}: no run replaces a param {name!r}",
                remedy=f"state is: {', '.join(self.donated_params) or 'none'}",
            )
        return self._params[name]

    @functools.cached_property
    def _replacing(self) -> frozenset[int]:
        """Positions of the outputs that replace params."""
        return frozenset(self._origin.donations[name] for name in self.donated_params)

    def set_param(self, name: str, value: Any) -> None:
        """Set a param; what `setup` derives from it is made again before the next run."""
        array = checked(self.signature.param(name), value, what="param")
        refuse_reentry(self._lock, self.signature.name)
        with self._lock:
            self._write_param(name, array)
            self.residents.note(name)
            if self._fast is not None:
                self._fast.ready = False

    @property
    def params(self) -> dict[str, Array]:
        """Copies of the params that are set."""
        refuse_reentry(self._lock, self.signature.name)
        with self._lock:
            unset = self.residents.unset
            return {name: self._read_param(name) for name in self._params if name not in unset}

    @property
    def donated_params(self) -> tuple[str, ...]:
        """Names of the params that every run replaces."""
        names = {argument.name for argument in self.signature.params}
        return tuple(name for name in self._origin.donations if name in names)

    def clone(self) -> Executable:
        """Return another executable of the same code and params, with its own arena."""
        return self._over(self._native)

    def empty_clone(self) -> Executable:
        """Return another executable of the same code whose params are not set; waits for no run."""
        return type(self)(self._origin, self._program, self._native, image=self._image)

    def rebuild(self, source: str | os.PathLike[str], *, flags: Sequence[str] = ()) -> Executable:
        """Return an executable of these params that runs the C in the file `source`.

        That is `c_source`, edited: the entry points and the arena must be the same. `flags` are
        added to the compiler's, such as `-g`.
        """
        return self._over_code(CBackend().load_file(Path(source), detect_target(), flags))

    def _over_code(self, code: CModule) -> Executable:
        return type(self)(
            self._origin, self._program, code, image=self._image_over(code), params=self.params
        )

    def _image_over(self, code: CModule) -> Image:
        """Return the image for C that may lack `setup_at`, as `rlx inspect` prints it."""
        lacks = code.library.find(self._entry("setup_at")) is None
        return replace(self._image, setup_takes_places=False) if lacks else self._image

    def _over(self, native: NativeModule) -> Executable:
        """Return another executable of this program and its params, over `native`."""
        image, params = self._image, self.params
        return type(self)(self._origin, self._program, native, image=image, params=params)

    # Execution

    def _execute(
        self, values: Sequence[Any], out: Sequence[Array | None] = ()
    ) -> tuple[Array, ...]:
        """Copy in, run, copy out: the general path, which converts and checks arguments."""
        arrays = self._arrays(values)  # before the lock: an argument's methods may call us, too
        refuse_reentry(self._lock, self.signature.name)
        with self._lock:
            call = self._enter_with(arrays, out)
            if out:
                return filled(out, call.output_views)
            return self._given([copy() for copy in call.outputs])

    def _given(self, results: Sequence[Array]) -> tuple[Array, ...]:
        """Return `results` in the classes of the outputs."""
        pairs = zip(results, self._classes, strict=True)
        return tuple(
            [r if cls is ndarray else frozen(r, cls is not ImmutableArray) for r, cls in pairs]
        )

    def _enter_with(self, arrays: list[Array], out: Sequence[Array | None] = ()) -> Specialization:
        """Write the inputs and run; the caller holds the lock."""
        self._count_call()
        if self.residents.needs_setup:
            self._setup()
        call = self._fixed or self._views.at_extents_of(arrays, self._enter)
        for (write, *_), array in zip(call.inputs, arrays):  # noqa: B905  hot
            write(..., array)
        check_extents(self.signature, out, call.output_views)
        status = call.enter()
        if status != 0:
            raise self._fault(status)
        return call

    def _arrays(self, values: Sequence[Any]) -> list[Array]:
        """Return the arguments as arrays that fit; InputError for one that does not."""
        call = self._fixed
        if call is None:
            pairs = zip(self.signature.inputs, values, strict=True)
            return [checked(argument, value) for argument, value in pairs]
        return [
            value
            if type(value) in ARRAY_CLASSES and value.dtype is dtype and value.shape == shape
            else checked(argument, value)
            for (_, dtype, shape, argument), value in zip(call.inputs, values)  # noqa: B905
        ]

    def _setup(self) -> None:
        status = self.residents.set_up(
            self.signature.name, self._run_setup, reads_elsewhere=self._image.setup_takes_places
        )
        if status != 0:
            raise self._fault(status)
        if self._fast is not None:
            self._fast.ready = True

    def _run_setup(self, elsewhere: Mapping[str, Array]) -> int:
        """Run `setup`, with some params in other places than planned."""
        if not self._image.setup_takes_places:
            return self._setup_in_arena(self._arena_pointer)
        moves = np.zeros(len(self._image.passing), np.int64)
        for number, name in enumerate(self._image.passing):
            if name in elsewhere:
                moves[number] = address_of(elsewhere[name]) - address_of(self._params[name])
        setup_at = self._function("setup_at", "int (*)(uint8_t *, int64_t *)")
        return setup_at(self._arena_pointer, pointer_into(moves))

    def _count_call(self) -> None:
        """Prepare the fast path at the second call, with backoff if that fails."""
        self._long_calls += 1
        if self._fast is None and self._long_calls % _CALLS_TO_HEAT == 0:
            self._fast = self._make_fast()

    def _run_together(self, *extents: int) -> int:
        """Run together with the workers, or alone if they are busy with another executable."""
        status = try_run(self._job, self._threads, extents)
        return self._run_alone(*extents) if status is None else status

    def _write_param(self, name: str, value: Array) -> None:
        self.residents.write(name, value)

    def _read_param(self, name: str) -> Array:
        return self.residents.read(name)

    def _fault(self, status: int) -> BaseException:
        """Turn the header's record into an exception, and clear it."""
        from rlx.ir.numbering import program_nodes
        from rlx.runtime.faults import FAULT_WORDS, Record, describe_fault

        record = Record.take(self.arena.header)
        self.arena.header[[*FAULT_WORDS]] = 0
        nodes = program_nodes(self.plan.graph)
        return describe_fault(self.signature.name, status, nodes, record, self._operands_of)

    def _operands_of(self, origin: int) -> list[Array | None]:
        """Return what the operands of a node hold; None for rows, whose step is not recorded."""
        from rlx.codegen.lower.graph import all_thunks
        from rlx.codegen.schedule import number_of

        thunk = next(t for t in all_thunks(self.schedule.thunks) if number_of(t) == origin)
        return [
            self.arena.view(ref.offset, ref.type.dtype, ref.type.static_shape).copy()
            if ref.type.is_static and not ref.advances
            else None
            for ref in thunk.operands
        ]

    # Making

    def _bind_entries(self) -> None:
        extents = ", int64_t" * len(self.signature.symbols)
        self._arena_pointer = pointer_to(self.arena.address)
        tables = self._tables()
        buffers = "uint8_t *" + ", int64_t *" * len(tables)
        self._setup_in_arena = self._function("setup", "int (*)(uint8_t *)")
        run = self._function(self._run_entry(), f"int (*)({buffers}{extents})")
        self._run_alone = functools.partial(run, self._arena_pointer, *tables)
        self._enter: Callable[..., int] = self._run_alone
        if self._threads > 1:
            self._job = self._make_job(tables, f"{buffers}, int64_t *", extents)
            self._enter = self._run_together

    def _run_entry(self) -> str:
        """Return the kind of entry that calls go through."""
        return "run"

    def _tables(self) -> tuple[Pointer, ...]:
        """Return the further arguments of that entry."""
        return ()

    def _make_job(self, tables: tuple[Pointer, ...], buffers: str, extents: str) -> Job:
        words = ", int64_t" * 4  # threads and three addresses
        return Job(
            arena=self._arena_pointer,
            tables=tables,
            launch=self._function("launch", f"int (*)({buffers}{extents}{words})"),
            addresses=(
                self._native.address(self._entry("part")),
                self.arena.address,
                self._moves_address(),
            ),
            worker=self._native.address(self._entry("worker")),
            code=self._native,
        )

    def _function(self, kind: str, type: str) -> Callable[..., int]:
        return function_at(self._native.address(self._entry(kind)), type)

    def _make_fast(self) -> FastCall | None:
        """Return the fast path, or None for symbolic extents."""
        call = self._fixed
        if call is None or self.residents.shared:
            return None
        gateway = find_gateway()
        if gateway is None:
            return None
        fast: FastCall = gateway.Call(
            self._native_entry(),
            donated_copy,
            DonatedMemory,
            ImmutableArray,
            BUFFER_CLASSES[0] if BUFFER_CLASSES else ImmutableArray,
            tuple(self._input_port(i, view) for i, view in enumerate(call.input_views)),
            tuple(self._output_port(i, view) for i, view in enumerate(call.output_views)),
        )
        fast.ready = not self.residents.needs_setup
        return fast

    def _native_entry(self) -> tuple[Any, ...]:
        """Return what a gateway calls: addresses, and functions that run, lock and raise."""
        return (
            self._native.address(self._entry(self._run_entry())),
            self.arena.address,
            self._moves_address(),
            None if self._enter is self._run_alone else self._enter,
            self._lock.acquire,
            self._lock.release,
            self._lock._is_owned,
            self._fault,
        )

    def ports(self) -> tuple[tuple[Any, ...], tuple[InputPort, ...], tuple[OutputPort, ...]] | None:
        """Return the native entry, and the ports of inputs and outputs, for a gateway.

        None where extents are symbolic, params are shared, or an output replaces a leaf.
        """
        call = self._fixed
        if call is None or self.residents.shared or self._origin.donations:
            return None
        inputs = tuple(self._input_port(i, view) for i, view in enumerate(call.input_views))
        outputs = tuple(self._output_port(i, view) for i, view in enumerate(call.output_views))
        return self._native_entry(), inputs, outputs

    def _moves_address(self) -> int:
        """Return where the entry finds how far regions moved; 0 if it takes no such table."""
        return 0

    def _input_port(self, position: int, view: Array) -> InputPort:
        del position
        return view.dtype, view.shape, address_of(view), -1, -1

    def _output_port(self, position: int, view: Array) -> OutputPort:
        return view.dtype, view.shape, address_of(view), -1, None, None, self._classes[position]
