"""Fast path of a session through stages that are compiled already."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.onnx.stages import Stage
from rlx.onnx.values import Deferred
from rlx.tracing.pytree import tree_unflatten


@dataclass(frozen=True, slots=True)
class CompiledStage:
    """A compiled stage, and the numbers of values that it was compiled for."""

    stage: Stage
    run: Any
    known: tuple[tuple[str, Any], ...]

    @classmethod
    def taken(
        cls, stage: Stage, run: Any, known: Iterable[str], values: Mapping[str, Any]
    ) -> CompiledStage:
        return cls(stage, run, tuple((name, values[name]) for name in known if name in values))


class FastPath:
    """Runs the stages of a model for arrays of the types that they were compiled for."""

    def __init__(self, values: Mapping[str, Any], steps: Sequence[CompiledStage]) -> None:
        self._types = [(name, array.dtype, array.shape) for name, array in values.items()]
        self._steps = [
            (
                [(name, array.dtype, array.tobytes()) for name, array in step.known],
                step.run,
                [name for name, _ in step.stage.inputs],
                _places(step.stage),
            )
            for step in steps
        ]

    @staticmethod
    def exists(values: Mapping[str, Any], steps: Sequence[CompiledStage]) -> bool:
        """True if types, and numbers of arrays, decide what is run, and arrays flow between."""
        known = [array for step in steps for _, array in step.known]
        arrays = all(isinstance(each, np.ndarray) for each in (*values.values(), *known))
        plain = arrays and all(each.dtype != object for each in (*values.values(), *known))
        return plain and all(step.run is not None and _is_flat(step.stage) for step in steps)

    def __call__(
        self, feed: Mapping[str, Any], wanted: Collection[str] | None = None
    ) -> dict[str, Any] | None:
        """Return the outputs by name; None if the arrays need stages that are not compiled.

        With names that are `wanted` no other output of the model is put together: maps take longer
        than what they are made of.
        """
        if len(feed) != len(self._types):
            return None
        for name, dtype, shape in self._types:
            array = feed.get(name)
            if array.__class__ is not np.ndarray or array.shape != shape or array.dtype != dtype:
                return None
        values = dict(feed)
        last = self._steps[-1]
        for step in self._steps:
            known, run, names, places = step
            for name, dtype, numbers in known:
                if values[name].dtype != dtype or values[name].tobytes() != numbers:
                    return None
            outputs = run(*[values[name] for name in names])
            if wanted is not None and step is last:
                places = [place for place in places if place[0] in wanted]
            values = {
                name: (outputs[leaf] if finish is None else finish(outputs[leaf]))
                if is_traced
                else leaf.copy()
                for name, leaf, is_traced, finish in places
            }
        return values


def _by_name(stage: Stage) -> dict[str, Any]:
    """Return the number of the leaf that each result is, or is made of; of lists, a list."""
    found: dict[str, Any] = tree_unflatten(stage.tree, list(range(len(stage.leaves))))
    return found


def _is_flat(stage: Stage) -> bool:
    known = (leaf for leaf, traced in zip(stage.leaves, stage.traced, strict=True) if not traced)
    single = all(isinstance(number, (int, Deferred)) for number in _by_name(stage).values())
    return single and all(isinstance(leaf, np.ndarray) for leaf in known)


def _places(stage: Stage) -> list[tuple[str, Any, bool, Any]]:
    """Return for each result its name, the number of an output or a known array, which of both,
    and the function that makes strings or maps of it, or None."""
    found: list[tuple[str, Any, bool, Any]] = []
    for name, number in _by_name(stage).items():
        finish = (number.for_callers or number.finish) if isinstance(number, Deferred) else None
        leaf = number if finish is None else number.array
        found.append((name, stage.leaves[leaf], stage.traced[leaf], finish))
    return found
