"""All uses of JAX's internal names, which differ between versions."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax._src import config, literals, source_info_util
from jax._src import core as jax_core
from jax._src.interpreters import mlir, partial_eval
from jax._src.lax import lax
from jax._src.state import discharge
from jax._src.tree_util import default_registry
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from rlx.errors import Source

__all__ = ["ClosedJaxpr", "Jaxpr", "JaxprEqn", "Literal"]

DropVar = jax_core.DropVar
HOST_ARRAYS = (jax.Array, literals.TypedNdArray)
"""Arrays of JAX that NumPy reads; before JAX 0.9 a constant of a trace is no array of NumPy's."""

trace_context = config.trace_context
"""Returns the settings of JAX that a trace depends on."""
flatten = default_registry.flatten
"""`jax.tree_util.tree_flatten` of one tree, without its checks."""

source_info_util.register_exclusion(str(Path(__file__).parent))


def is_key(aval: Any) -> bool:
    """True if an abstract value holds typed keys of random numbers."""
    dtype = getattr(aval, "dtype", None)
    return dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)


def key_implementation(dtype: Any) -> str:
    """Return the name of the generator of a dtype of keys."""
    return str(dtype._impl.name)


def user_source(equation: JaxprEqn) -> Source | None:
    """Return the line of the user's program at which an equation was traced."""
    frame = source_info_util.user_frame(equation.source_info.traceback)
    return None if frame is None else Source(frame.file_name, frame.start_line, _short(frame))


def _short(frame: Any) -> str:
    return str(frame.function_name).rpartition(".")[2]


def named_axes(sizes: Mapping[str, int]) -> AbstractContextManager[object]:
    """Let functions traced inside name axes of these sizes in collectives."""
    stack = ExitStack()
    if sizes:
        stack.enter_context(jax_core.extend_axis_env_nd(list(sizes.items())))
    return stack


def manual_axes(equation: JaxprEqn) -> dict[str, int]:
    """Return the axes of the mesh that a `shard_map` cuts arrays along, with their sizes."""
    params = equation.params
    mesh, manual = params["mesh"], params.get("newly_manual_axes", params.get("manual_axes"))
    return {str(n): int(s) for n, s in mesh.shape.items() if manual is None or n in manual}


def sharded_axes(equation: JaxprEqn) -> tuple[list[Any], list[Any]]:
    """Return the axes of the mesh along each axis of the operands, and of the results."""
    params = equation.params
    operands = [_cut_along(s, v) for s, v in zip(params["in_specs"], equation.invars, strict=True)]
    results = [_cut_along(s, v) for s, v in zip(params["out_specs"], equation.outvars, strict=True)]
    return operands, results


def _cut_along(spec: Any, variable: Any) -> tuple[tuple[str, ...], ...]:
    parts = [*spec, *[None] * (len(variable.aval.shape) - len(spec))]
    return tuple(() if p is None else p if isinstance(p, tuple) else (p,) for p in parts)


def python_lowering(primitive: Any) -> Any:
    """Return the function of JAX that a primitive is lowered by on the CPU; None for others."""
    tables = (mlir._platform_specific_lowerings["cpu"], mlir._lowerings)
    found = next((table[primitive] for table in tables if primitive in table), None)
    function = getattr(found, "rule", found)
    if not inspect.isfunction(function):
        return None
    return inspect.getclosurevars(function).nonlocals.get("fun")


def lowered_primitives() -> dict[str, Any]:
    """Return the primitives that JAX lowers on the CPU, by their names."""
    tables = (mlir._platform_specific_lowerings["cpu"], mlir._lowerings)
    return {primitive.name: primitive for table in tables for primitive in table}


def key_words(dtype: Any) -> int:
    """Return how many words of u32 a key of this dtype has."""
    (count,) = dtype._impl.key_shape
    return int(count)


def without_dead_code(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program without equations on which no result depends; its inputs stay."""
    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), True)
    return ClosedJaxpr(jaxpr, closed.consts)


def without_references(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program with reads and writes of mutable arrays as values."""
    if not any(_is_reference(v.aval) for v in _variables(closed.jaxpr)):
        return closed
    if next(iter(inspect.signature(discharge.discharge_state).parameters)) == "closed_jaxpr":
        return discharge.discharge_state(closed)
    return ClosedJaxpr(*discharge.discharge_state(closed.jaxpr, closed.consts))  # before JAX 0.10


def _variables(jaxpr: Jaxpr) -> Sequence[Any]:
    made = (v for equation in jaxpr.eqns for v in equation.outvars)
    return [*jaxpr.invars, *jaxpr.constvars, *made]


def _is_reference(aval: Any) -> bool:
    return hasattr(aval, "inner_aval")


def weakly_typed(x: Any, aval: Any) -> Any:
    """Return an array of JAX as one of the type of `aval`: weak, or of keys, where that is."""
    if is_key(aval):
        return jax.random.wrap_key_data(x, impl=key_implementation(aval.dtype))
    return lax._convert_element_type(x, aval.dtype, bool(aval.weak_type))


def cotangent_aval(aval: Any) -> Any:
    """Return the abstract value of a cotangent; before JAX 0.9 it is that of a tangent."""
    return aval.to_ct_aval() if hasattr(aval, "to_ct_aval") else aval.to_tangent_aval()


def forget_trace(thunk: Any, args: tuple[Any, ...]) -> None:
    """Let a forward rule be traced again for these arguments."""
    inspect.getclosurevars(thunk.f).nonlocals.get("cells", {}).pop(args, None)


def closed_over(jaxpr: Jaxpr | ClosedJaxpr, consts: Sequence[Any] = ()) -> ClosedJaxpr:
    """Return a program together with its constants."""
    return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, consts)
