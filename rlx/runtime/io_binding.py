"""I/O binding: executables that read large inputs in place, and write large results there.

See `codegen.io_binding`. A large input is read in place if it is contiguous, else copied as
usual. A large result is an array over memory of its own. What an output replaces in place stays
where it is from call to call:

- A donated *param* is state of the executable. Its result is a read-only view of that state; if
  anybody still holds it at the next call, the state moves to other memory first.
- A donated *input* that is itself the result of a donation is overwritten, and returned. Any
  other array is copied first: arrays that the caller made are never written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlx.codegen.regions import Region
from rlx.locks import refuse_reentry
from rlx.runtime.c_backend import CModule
from rlx.runtime.executable import Executable
from rlx.runtime.gateway import InputPort, OutputPort
from rlx.runtime.native import Pointer, pointer_into
from rlx.runtime.output_buffers import check_extents, filled
from rlx.runtime.result_memory import (
    ArrayKind,
    Result,
    ResultMemory,
    State,
    address_of,
    donated_copy,
    may_overwrite,
    overlaps,
)
from rlx.runtime.signature import Array, checked, concrete


class IoBindingExecutable(Executable):
    """Runs one compiled graph; copies small inputs and outputs only."""

    _regions: tuple[Region, ...]
    _bound_inputs: dict[int, int]
    """Numbers of inputs -> numbers of their regions; so are donated inputs."""
    _donated_inputs: dict[int, int]
    _results: dict[int, tuple[int, Result]]
    """Numbers of outputs -> numbers of their regions, and where they go."""
    _states: dict[str, tuple[int, State]]

    @property
    def address(self) -> int:
        """Address of `int run(uint8_t *arena)`. From now on donated params live in the arena."""
        refuse_reentry(self._lock, self.signature.name)
        with self._lock:
            for name, (number, state) in self._states.items():
                self._params[name][...] = state.show()
                self._moves[number] = 0
                del self._results[_output(self._regions[number])]
            self._states.clear()
            if self._fast is not None:  # it has the places of states; another thread may use it
                self._fast.ready = False
                self._fast = None
        return super().address

    def _over_code(self, code: CModule) -> Executable:
        """Without `run_at`, as `rlx inspect` prints C, inputs and outputs are in the arena."""
        if code.library.find(self._entry(self._run_entry())) is not None:
            return super()._over_code(code)
        return Executable(
            self._origin, self._program, code, image=self._image_over(code), params=self.params
        )

    def advance(self, feeds: Mapping[str, Any]) -> tuple[Array, ...]:
        results = self.run(feeds)
        return tuple(array for i, array in enumerate(results) if i not in self._replacing)

    def state(self, name: str) -> Array:
        """Return a donated param in the arena, where it lives from now on."""
        self.address  # noqa: B018 (brings state back)
        return super().state(name)

    # Execution

    def _execute(
        self, values: Sequence[Any], out: Sequence[Array | None] = ()
    ) -> tuple[Array, ...]:
        arguments = self.signature.inputs
        arrays = [checked(a, value) for a, value in zip(arguments, values, strict=True)]
        refuse_reentry(self._lock, self.signature.name)
        with self._lock:
            self._count_call()
            if self.residents.needs_setup:
                self._setup()
            call = self._fixed
            assert call is not None, "bound graphs have static extents"
            check_extents(self.signature, out, call.output_views)
            placed = self._place_buffers(out, arrays)
            replaced = self._take_donated(arrays)
            self._take_inputs(arrays, [*replaced.values(), *placed.values()])
            for output, (number, result) in self._results.items():
                self._move(
                    number, address_of(placed[output]) if output in placed else result.take()
                )
            status = call.enter()
            if status != 0:
                raise self._fault(status)
            shown = {
                output: placed[output] if output in placed else result.show()
                for output, (_, result) in self._results.items()
            }
            shown |= replaced
            if out:
                made = enumerate(call.output_views)
                return filled(out, [shown.get(output, view) for output, view in made])
            return self._given(
                [
                    shown[output] if output in shown else copy()
                    for output, copy in enumerate(call.outputs)
                ]
            )

    def _place_buffers(
        self, out: Sequence[Array | None], arrays: Sequence[Array]
    ) -> dict[int, Array]:
        """Return the caller's buffers that large results can be written to directly."""
        placed: dict[int, Array] = {}
        for output, (_, result) in self._results.items():
            buffer = out[output] if out else None
            if buffer is None or not isinstance(result, ResultMemory):
                continue
            dense = buffer.flags.c_contiguous and buffer.flags.aligned
            if dense and not overlaps(buffer, [*arrays, *_others(out, buffer)]):
                placed[output] = buffer
        return placed

    def _take_donated(self, arrays: Sequence[Array]) -> dict[int, Array]:
        """Return the arrays to overwrite, by the output that replaces them."""
        taken: dict[int, Array] = {}
        for position, number in self._donated_inputs.items():
            array = arrays[position]
            output = _output(self._regions[number])
            cls = self._classes[output]
            if not may_overwrite(array, cls) or overlaps(array, list(taken.values())):
                array = donated_copy(array, cls)
            self._move(number, address_of(array))
            taken[output] = array
        return taken

    def _take_inputs(self, arrays: Sequence[Array], overwritten: Sequence[Array]) -> None:
        """Read in place what is large and dense and stays as it is; copy the others."""
        call = self._fixed
        assert call is not None, "bound graphs have static extents"
        for position, array in enumerate(arrays):
            if position in self._donated_inputs:
                continue
            number = self._bound_inputs.get(position)
            dense = array.flags.c_contiguous and array.flags.aligned
            if number is not None and dense and not overlaps(array, overwritten):
                self._move(number, address_of(array))
                continue
            call.inputs[position][0](..., array)
            if number is not None:
                self._moves[number] = 0

    def _move(self, number: int, address: int) -> None:
        self._moves[number] = address - self.arena.address - self._regions[number].start

    # Params

    def _write_param(self, name: str, value: Array) -> None:
        if name in self._states:
            self._states[name][1].set(value)
        else:
            super()._write_param(name, value)

    def _read_param(self, name: str) -> Array:
        if name in self._states:
            return self._states[name][1].show().copy()
        return super()._read_param(name)

    # Making

    def _bind_entries(self) -> None:
        self._bound_inputs, self._donated_inputs, self._results = {}, {}, {}
        self._states = {}
        self._moves = np.zeros(len(self._image.regions), np.int64)
        self._regions = self._image.regions
        inputs = {argument.name: i for i, argument in enumerate(self.signature.inputs)}
        for number, region in enumerate(self._regions):
            if region.leaf in inputs:
                table = self._bound_inputs if region.output is None else self._donated_inputs
                table[inputs[region.leaf]] = number
            elif region.leaf is None:
                self._results[_output(region)] = number, ResultMemory(self._kind(region))
            else:
                state = State(self._kind(region))
                self._states[region.leaf] = number, state
                self._results[_output(region)] = number, state
        super()._bind_entries()

    def _kind(self, region: Region) -> ArrayKind:
        type = self.signature.outputs[_output(region)]
        return ArrayKind(concrete(type.shape, {}), type.dtype.numpy)

    def _input_port(self, position: int, view: Array) -> InputPort:
        dtype, shape, address, *_ = super()._input_port(position, view)
        number = self._donated_inputs.get(position)
        if number is not None:
            return dtype, shape, address, number, _output(self._regions[number])
        return dtype, shape, address, self._bound_inputs.get(position, -1), -1

    def _output_port(self, position: int, view: Array) -> OutputPort:
        port = super()._output_port(position, view)
        if position not in self._results:
            return port
        number, result = self._results[position]
        return (*port[:3], number, result.take, result.show, self._classes[position])

    def _run_entry(self) -> str:
        return "run_at"

    def _moves_address(self) -> int:
        return address_of(self._moves)

    def _tables(self) -> tuple[Pointer, ...]:
        return (pointer_into(self._moves),)


def _others(out: Sequence[Array | None], buffer: Array) -> list[Array]:
    return [other for other in out if other is not None and other is not buffer]


def _output(region: Region) -> int:
    assert region.output is not None, "an input is no result"
    return region.output
