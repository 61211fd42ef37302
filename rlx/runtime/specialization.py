"""Specializations: offsets of inputs and outputs in an arena, at each binding of the extents."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from rlx.dataclass import dataclass
from rlx.ir.graph import Node
from rlx.runtime.arena import Arena
from rlx.runtime.image import Image
from rlx.runtime.interface import Origin
from rlx.runtime.signature import Argument, Array, concrete

_KEPT = 256
"""Specializations of one executable; more would be a leak where extents never repeat."""

InputSlot: TypeAlias = tuple[Callable[[Any, Any], None], Any, tuple[int, ...], Argument]
"""What writes an input; the dtype and shape that need no further check; what it is."""


@dataclass(frozen=True, slots=True)
class Specialization:
    """The arena at one binding of the extents, and the call that runs it there."""

    inputs: tuple[InputSlot, ...]
    outputs: tuple[Callable[[], Array], ...]
    input_views: tuple[Array, ...]
    output_views: tuple[Array, ...]
    enter: Callable[[], int]


class ArenaViews:
    """The values of one program in one arena, as arrays."""

    def __init__(self, origin: Origin, image: Image, arena: Arena) -> None:
        self._origin = origin
        self._signature = origin.signature
        self._image = image
        self._arena = arena
        self._known: dict[tuple[int, ...], Specialization] = {}

    def leaf(self, argument: Argument, binding: Mapping[str, int] | None = None) -> Array:
        """Return the offset of a leaf; a leaf that no pass kept gets memory of its own."""
        type = argument.type
        shape = concrete(type.shape, binding or {})
        offset = self._image.leaves.get(argument.name)
        if offset is None:
            return np.zeros(shape, type.dtype.numpy)
        return self._arena.view(offset, type.dtype, shape)

    def load_constants(self) -> None:
        """Write the constants of the graph to their places."""
        for offset, literal in self._image.constants:
            view = self._arena.view(offset, literal.dtype, literal.array.shape)
            view[...] = literal.array

    def at_extents_of(self, arrays: Sequence[Array], enter: Callable[..., int]) -> Specialization:
        """Return the specialization at the extents of the inputs `arrays`."""
        binding = self._signature.bind(arrays)
        key = tuple(binding[symbol.name] for symbol in self._signature.symbols)
        found = self._known.get(key)
        if found is None:
            self._check_extents(binding)
            if len(self._known) >= _KEPT:
                self._known.clear()
            found = self._known[key] = self.at(binding, enter)
        return found

    def at(self, binding: Mapping[str, int], enter: Callable[..., int]) -> Specialization:
        """Return the specialization at one binding; `enter` runs the program at extents."""
        extents = [binding[symbol.name] for symbol in self._signature.symbols]
        places = zip(
            self._static_outputs, self._image.outputs, self._signature.outputs, strict=True
        )
        outputs = [
            self._arena.view(offset, type.dtype, concrete(type.shape, binding))
            if known is None
            else known
            for known, offset, type in places
        ]
        inputs = [
            self.leaf(argument, binding) if known is None else known
            for known, argument in zip(self._static_inputs, self._signature.inputs, strict=True)
        ]
        slots = zip(inputs, self._signature.inputs, strict=True)
        return Specialization(
            inputs=tuple(
                (view.__setitem__, a.type.dtype.numpy, view.shape, a) for view, a in slots
            ),
            outputs=tuple(view.copy for view in outputs),
            input_views=tuple(inputs),
            output_views=tuple(outputs),
            enter=functools.partial(enter, *extents) if extents else enter,
        )

    @functools.cached_property
    def _static_inputs(self) -> tuple[Array | None, ...]:
        """The views of inputs whose shapes are the same in all specializations."""
        return tuple(
            self.leaf(argument) if argument.type.is_static else None
            for argument in self._signature.inputs
        )

    @functools.cached_property
    def _static_outputs(self) -> tuple[Array | None, ...]:
        """The views of outputs whose shapes are the same in all specializations."""
        return tuple(
            self._arena.view(offset, type.dtype, type.static_shape) if type.is_static else None
            for offset, type in zip(self._image.outputs, self._signature.outputs, strict=True)
        )

    def _check_extents(self, binding: Mapping[str, int]) -> None:
        """Check conditions of ops that the bounds alone do not decide."""
        if self._origin.takes_all_extents:
            return
        from rlx.ir.reference.interpreter import check_extents

        check_extents(self._uses, binding)

    @functools.cached_property
    def _uses(self) -> list[Node]:
        """Nodes that may refuse extents."""
        from rlx.ir.reference.interpreter import symbolic_uses

        return symbolic_uses(self._origin.graph)
