"""Python functions, and functions of C, called from compiled programs.

    @rlx.jit
    def f(x):
        y = rlx.pure_callback(np.sinc, rlx.ShapeDtypeStruct(x.shape, x.dtype), x)
        rlx.debug.print("y is {}", y)
        return y

Names and meanings are those of JAX. A callback is given copies of the operands, as NumPy arrays.
What it raises ends the run and is raised by the call of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlx.errors import InputError
from rlx.ir import ops
from rlx.ir.dtype import as_dtype
from rlx.ir.foreign import Callback, callback, find_target
from rlx.ir.op import OpDef
from rlx.ir.source_lines import calling_source
from rlx.ir.types import TensorType
from rlx.runtime.arrays import frozen
from rlx.tracing.apply import emit_several
from rlx.tracing.pytree import TreeDef, flatten_like, tree_flatten, tree_unflatten
from rlx.tracing.trace import (
    TracedArray,
    arrays_of,
    concrete,
    current_trace,
    element_type,
    source_names,
    suspended,
)
from rlx.tracing.widths import are_narrow, canonical

Function = Callable[..., Any]


def pure_callback(
    fun: Function,
    result_shape_dtypes: Any,
    *args: Any,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Return `fun(*args, **kwargs)`, computed by Python when the program runs.

    `result_shape_dtypes` is a tree of what the results are: arrays or `ShapeDtypeStruct`s. `fun`
    must do nothing but return them: it may be called once, never, or again. `vmap_method` says
    how it is applied to a batch: "sequential", "sequential_unrolled", "expand_dims",
    "broadcast_all". Its derivative is that of a `custom_jvp` or `custom_vjp` around it.
    """
    return _called(ops.ffi_call, fun, result_shape_dtypes, args, kwargs, vmap_method)


def io_callback(
    fun: Function, result_shape_dtypes: Any, *args: Any, ordered: bool = False, **kwargs: Any
) -> Any:
    """Call `fun(*args, **kwargs)` for its side effects when the program runs; return its result.

    It is called once for each time that the program gets there, whether its results are read or
    not, in the order of the program. A batch of calls is made one after the other, which `ordered`
    forbids.
    """
    method = None if ordered else "sequential"
    return _called(ops.effect_call, fun, result_shape_dtypes, args, kwargs, method)


def debug_callback(fun: Function, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Call `fun(*args, **kwargs)` when the program runs, and drop what it returns."""
    del ordered  # effects are in order; a batch of them is in the order of its examples

    def call(*positional: Any, **named: Any) -> None:
        fun(*positional, **named)

    call.__name__ = source_names(fun, "callback")
    _called(ops.effect_call, call, None, args, kwargs, "sequential")


def debug_print(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Print `fmt.format(*args, **kwargs)` when the program runs."""

    def show(*positional: Any, **named: Any) -> None:
        print(fmt.format(*positional, **named))

    debug_callback(show, *args, ordered=ordered, **kwargs)


def ffi_call(
    target_name: str,
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
) -> Function:
    """Return a function that calls what `register_ffi_target` registered as `target_name`.

    It takes the operands, and `attributes`, bytes that the target is given as they are.
    """
    definition = ops.effect_call if has_side_effect else ops.ffi_call

    def call(*args: Any, attributes: bytes = b"") -> Any:
        types, tree = _result_types(result_shape_dtypes)
        results = _emitted(definition, target_name, types, args, attributes, vmap_method)
        return tree_unflatten(tree, results)

    return call


def _called(
    definition: OpDef,
    fun: Function,
    result_shape_dtypes: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    vmap_method: str | None,
) -> Any:
    types, results = _result_types(result_shape_dtypes)
    leaves, arguments = tree_flatten((args, kwargs))
    name, arrays = _flat_callback(fun, leaves, arguments, results)
    return tree_unflatten(results, _emitted(definition, name, types, arrays, b"", vmap_method))


def _flat_callback(
    fun: Function, leaves: list[Any], arguments: TreeDef, results: TreeDef
) -> tuple[Callback, list[Any]]:
    """Return `fun` as a function of the arrays among `leaves`, and these."""
    places = [place for place, leaf in enumerate(leaves) if _is_array(leaf)]
    fixed = [None if _is_array(leaf) else leaf for leaf in leaves]
    title = source_names(fun, "callback")

    def flat(*arrays: Any) -> tuple[Any, ...]:
        whole = list(fixed)
        for place, array in zip(places, arrays, strict=True):
            whole[place] = array
        positional, named = tree_unflatten(arguments, whole)
        with suspended():
            returned = fun(*positional, **named)
        leaves = flatten_like(results, returned, title)
        return tuple(map(arrays_of, leaves) if are_narrow() else leaves)

    return callback(flat, title), [leaves[place] for place in places]


def _is_array(leaf: Any) -> bool:
    numbers = (bool, int, float, complex, np.ndarray, np.generic)
    return isinstance(leaf, (TracedArray, *numbers))


def _result_types(result_shape_dtypes: Any) -> tuple[list[TensorType], TreeDef]:
    leaves, tree = tree_flatten(result_shape_dtypes)
    return [_declared(leaf) for leaf in leaves], tree


def _declared(leaf: Any) -> TensorType:
    if isinstance(leaf, TracedArray):
        return leaf.value.type
    if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
        raise InputError(
            f"the result is declared as {leaf!r:.80}, which has no shape and dtype",
            source=calling_source(),
            remedy="declare rlx.ShapeDtypeStruct(shape, dtype) for each result",
        )
    return TensorType(canonical(as_dtype(leaf.dtype)), tuple(leaf.shape))


def _emitted(
    definition: OpDef,
    name: str,
    types: Sequence[TensorType],
    args: Sequence[Any],
    attributes: bytes,
    vmap_method: str | None,
) -> list[Any]:
    """Append the call to the innermost trace; where none is open, make it."""
    if current_trace() is None:
        operands = [concrete(x, element_type(x).dtype) for x in args]
        made = find_target(name).call(operands, types, attributes)
        return [frozen(np.array(result)) for result in made]
    results = emit_several(
        definition, *args, target=name, result_types=tuple(types), attributes=tuple(attributes),
        vmap_method=vmap_method,
    )  # fmt: skip
    return list(results[: len(types)])  # an effect has one more, which has no reader
