"""`InferenceSession`: run a model on arrays, as ONNX Runtime's class of that name does."""

from __future__ import annotations

import os
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Thread
from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.errors import InputError, RlxError, ShapeError, UnsupportedError
from rlx.ir.reference.binding import bind_extents
from rlx.ir.shape import Shape
from rlx.limits import LoadLimits
from rlx.locks import call_lock, unforkable
from rlx.onnx.binding import IOBinding, OrtValue
from rlx.onnx.errors import ValueNeededError
from rlx.onnx.fast_path import CompiledStage, FastPath
from rlx.onnx.feeds import declared_array
from rlx.onnx.inputs import (
    Dims,
    bounded_shape,
    check_dims,
    declared_inputs,
    shape_list,
    type_text,
)
from rlx.onnx.model import names_of, read_model
from rlx.onnx.options import SessionOptions, check_providers
from rlx.onnx.stages import Stage, key_of, make_stage, with_extents
from rlx.runtime.compile import compile
from rlx.tracing.errors import ConcretizationError
from rlx.tracing.pytree import tree_flatten

_STAGES_KEPT = 64
_BOUNDS_TOO_WIDE = (UnsupportedError, ShapeError, ConcretizationError)
"""Errors of an import that may succeed with numbers for symbolic extents."""
_KEYWORDS_WITHOUT_EFFECT = ("disabled_optimizers", "enable_fallback", "read_config_from_model")
"""Of ONNX Runtime's session: they tune how it rewrites graphs and chooses providers."""


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output of a model."""

    name: str
    type: str
    shape: list[int | str | None] | None


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """What a model says about itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


@dataclass(frozen=True)
class _Compiled:
    """A stage and what runs it; None where all of it is known."""

    stage: Stage
    run: Any


class InferenceSession:
    """A model, compiled for each set of input shapes at its first run and kept.

    `providers` (with a warning for one that is not there), `provider_options`, and ONNX Runtime's
    keywords `disabled_optimizers`, `enable_fallback` and `read_config_from_model` are taken, for
    programs written for it, and have no effect; `sess_options` are `SessionOptions`. `backend` and
    `threads` are those of `rlx.compile`, and `dims` is that of `rlx.onnx.load`: an `rlx.Dim` with
    a bound makes one program for all extents up to it; `limits` is that of `rlx.onnx.load`, for
    each import of the model.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes | Any,
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        provider_options: Any = None,
        *,
        backend: str = "auto",
        threads: int | None = None,
        dims: Dims | None = None,
        limits: LoadLimits | None = None,
        **others: Any,
    ) -> None:
        del provider_options
        _check_keywords(others)
        check_providers(providers)
        self._options = sess_options or SessionOptions()
        self._model = read_model(path_or_bytes, limits, mapped=True)
        self._backend = backend
        self._threads = threads or _threads_of(self._options)
        self._inputs = declared_inputs(self._model)
        check_dims(self._inputs, dims or {}, self._model.title)
        self._dims = {**_dims_of(self._options, self._inputs), **(dims or {})}
        self._is_bounded = bool(self._dims)
        self._output_names = names_of(self._model.graph.output)
        self._stages: OrderedDict[Any, _Compiled] = OrderedDict()
        self._known: dict[int, frozenset[str]] = {}
        """By first node: the values that stages from there on have been found to need."""
        self._fast_path: FastPath | None = None
        self._lookup = call_lock()
        """Held while stages are looked up and kept."""
        self._compiling = call_lock()

    # Metadata, as in ONNX Runtime's session

    def get_inputs(self) -> list[NodeArg]:
        return [_argument(value) for value in self._inputs]

    def get_outputs(self) -> list[NodeArg]:
        return [_argument(value) for value in self._model.graph.output]

    def get_overridable_initializers(self) -> list[NodeArg]:
        own = set(names_of(self._inputs))
        return [_argument(value) for value in self._model.graph.input if value.name not in own]

    def get_modelmeta(self) -> ModelMetadata:
        proto = self._model.proto
        return ModelMetadata(
            proto.producer_name,
            proto.graph.name,
            proto.domain,
            proto.doc_string,
            proto.graph.doc_string,
            int(proto.model_version),
            {entry.key: entry.value for entry in proto.metadata_props},
        )

    def get_providers(self) -> list[str]:
        """Return the one provider there is, under the name that programs look for."""
        return ["CPUExecutionProvider"]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Return the options of each provider: there are none."""
        return {name: {} for name in self.get_providers()}

    def get_session_options(self) -> Any:
        return self._options

    def set_providers(self, providers: Sequence[Any], provider_options: Any = None) -> None:
        """Take the processor's provider, and warn of others."""
        del provider_options
        check_providers(providers)

    def enable_fallback(self) -> None:
        """Nothing: there is one provider."""

    def disable_fallback(self) -> None:
        """Nothing: there is one provider."""

    # Running

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[Any]:
        """Return outputs by name, or all in their order, for inputs by name."""
        del run_options
        way = self._fast_path
        if way is not None and (found := way(input_feed, output_names or None)) is not None:
            return self._chosen(output_names, found)
        given = values = self._checked(input_feed)
        first: int | None = 0
        known: frozenset[str] = frozenset()
        steps: list[CompiledStage] = []
        while first is not None:
            compiled = self._compiled(values, known, first)
            known |= self._known.get(first, frozenset())
            stage = with_extents(compiled.stage, values)
            steps.append(CompiledStage.taken(stage, compiled.run, known, values))
            values = _executed(stage, compiled.run, values)
            first, known = compiled.stage.next, frozenset(compiled.stage.needs)
        self._fast_path = FastPath(given, steps) if FastPath.exists(given, steps) else None
        return self._chosen(output_names, values)

    def io_binding(self) -> IOBinding:
        """Return an empty binding of inputs and outputs, for `run_with_iobinding`."""
        return IOBinding(self.run)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Any = None) -> None:
        """Run on what is bound; the binding then has the outputs."""
        del run_options
        iobinding.run()

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: Any = None,
    ) -> list[OrtValue]:
        """Return outputs for inputs, as `run` does, both as `OrtValue`."""
        feed = {name: value.numpy() for name, value in input_dict_ort_values.items()}
        return [OrtValue(result) for result in self.run(output_names, feed, run_options)]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], None],
        user_data: Any,
        run_options: Any = None,
    ) -> None:
        """Run in a thread, which then calls `callback(results, user_data, error)`; the error is
        empty where there is none."""

        def work() -> None:
            try:
                results, message = self.run(output_names, input_feed, run_options), ""
            except RlxError as error:
                results, message = [], str(error)
            except BaseException as error:  # a thread has no caller to raise to
                results, message = [], f"{type(error).__name__}: {error}"
            callback(results, user_data, message)

        Thread(target=work, name="rlx-run-async").start()

    def _chosen(self, output_names: Sequence[str] | None, values: Mapping[str, Any]) -> list[Any]:
        wanted = list(output_names or self._output_names)
        unknown = [name for name in wanted if name not in self._output_names]
        if unknown:
            raise InputError(
                f"{self._model.title} has no output {unknown[0]!r}",
                remedy=f"its outputs are: {', '.join(self._output_names)}",
            )
        return [values[name] for name in wanted]

    def _compiled(self, values: dict[str, Any], known: frozenset[str], first: int) -> _Compiled:
        """Return the stage from node `first` on for these values."""
        known = known | self._known.get(first, frozenset())
        shapes = self._bounded(values) if first == 0 and self._dims else {}
        if not self._is_bounded:
            _check_bounds(shapes, values)
            shapes = {}
        keys = tuple((name, key_of(value, name in known, shapes.get(name)))
                     for name, value in values.items())  # fmt: skip
        key = first, known, keys
        found = self._recalled(key)
        if found is not None:
            return found
        with self._compiling, unforkable():
            found = self._recalled(key)  # what another thread has made meanwhile
            if found is not None:
                return found
            try:
                stage = make_stage(self._model, values, known, first, shapes)
            except ValueNeededError as error:
                more = frozenset(error.names) & values.keys() - known
                if not more:
                    raise
                self._known[first] = known | more
                return self._compiled(values, known, first)
            except _BOUNDS_TOO_WIDE as error:
                if not shapes:
                    raise
                return self._compiled_for_each_shape(values, known, error)
            compiled = _Compiled(stage, self._executable(stage))
            self._keep(key, compiled)
        return compiled

    def _compiled_for_each_shape(
        self, values: dict[str, Any], known: frozenset[str], error: RlxError
    ) -> _Compiled:
        """Give up one program for all extents, where the bounds were what `error` rests on."""
        self._is_bounded = False
        try:
            found = self._compiled(values, known, 0)
        except BaseException:
            self._is_bounded = True
            raise
        warnings.warn(
            f"{error.message}; the model is compiled for each shape of its inputs: bounds that "
            "decide it, rlx.Dim(name, min=..., max=...), or extents in terms of others, as in "
            "{'total': past + 1}, would give one program",
            stacklevel=4,
        )
        return found

    def _recalled(self, key: Any) -> _Compiled | None:
        with self._lookup:
            if key in self._stages:
                self._stages.move_to_end(key)
            return self._stages.get(key)

    def _keep(self, key: Any, compiled: _Compiled) -> None:
        with self._lookup:
            self._stages[key] = compiled
            if len(self._stages) > _STAGES_KEPT:
                self._stages.popitem(last=False)

    def _bounded(self, values: Mapping[str, Any]) -> dict[str, Shape]:
        """Return the shapes of inputs as `dims` has them, by name."""
        return {
            value.name: bounded_shape(
                value, self._dims, values[value.name].shape, self._model.title
            )
            for value in self._inputs
            if isinstance(values.get(value.name), np.ndarray)
        }

    def _executable(self, stage: Stage) -> Any:
        if not stage.graph.outputs:
            return None
        return compile(
            stage.graph, backend=self._backend, params=stage.params, threads=self._threads
        )

    def _checked(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs in the model's order; their dtypes and ranks are what it declares."""
        declared = {value.name: value for value in self._model.graph.input}
        unknown = [name for name in feed if name not in declared]
        missing = [value.name for value in self._inputs if value.name not in feed]
        missing = [name for name in missing if declared[name].type.WhichOneof("value")
                   != "optional_type"]  # fmt: skip
        if unknown or missing:
            raise InputError(
                f"{self._model.title}: inputs missing: {', '.join(missing) or 'none'}; "
                f"unknown: {', '.join(unknown) or 'none'}",
                remedy=f"it takes: {', '.join(names_of(self._inputs))}",
            )
        return {
            name: declared_array(value, feed.get(name), self._model.title)
            for name, value in declared.items()
            if name in feed or value in self._inputs
        }


def _check_bounds(shapes: Mapping[str, Shape], values: Mapping[str, Any]) -> None:
    """Raise InputError for arrays that do not keep to the bounds of symbolic extents."""
    bind_extents(shapes, {name: values[name].shape for name in shapes})


def _check_keywords(others: Mapping[str, Any]) -> None:
    """Raise InputError for a keyword that neither this session nor ONNX Runtime's has."""
    for name in others:
        if name not in _KEYWORDS_WITHOUT_EFFECT:
            raise InputError(
                f"InferenceSession has no keyword {name!r}",
                remedy="its keywords are: backend, threads, dims, limits; of ONNX Runtime's: "
                f"sess_options, providers, provider_options, {', '.join(_KEYWORDS_WITHOUT_EFFECT)}",
            )


def _executed(stage: Stage, run: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    if run is None:
        return stage.results([])
    leaves = {name: tree_flatten(values[name])[0] for name, _ in stage.inputs}
    arrays = [leaves[name][place] for name, place in stage.inputs]
    return stage.results([np.asarray(array) for array in run(*arrays)])


def _argument(value: Any) -> NodeArg:
    return NodeArg(value.name, type_text(value.type), shape_list(value))


def _threads_of(options: Any) -> int | None:
    """Return the number of threads that a session's options ask for."""
    if isinstance(options, SessionOptions):
        options.check()
    count = getattr(options, "intra_op_num_threads", 0)
    return count or None


def _dims_of(options: Any, values: Sequence[Any]) -> dict[str, int]:
    """Return the extents that options give to open dimensions of the inputs."""
    given = getattr(options, "dims", {})
    open_dims = {d.dim_param for v in values for d in v.type.tensor_type.shape.dim if d.dim_param}
    return {name: extent for name, extent in given.items() if name in open_dims}
