"""Rules of keys and of the bits that they give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import rlx.lax as lax
from rlx.errors import UnsupportedError
from rlx.jaxpr.internals import JaxprEqn, user_source
from rlx.jaxpr.interpret import rule, run
from rlx.jaxpr.shapes import integers
from rlx.jaxpr.types import THREEFRY
from rlx.random import keys, uniforms
from rlx.tracing.apply import as_tracer
from rlx.tracing.trace import shape_of
from rlx.transforms.batch import vmap
from rlx.transforms.custom_jvp import custom_jvp

_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def _of_each(function: Callable[..., Any], *operands: Any, inner: tuple[int, ...]) -> Any:
    """Apply a function of arrays with `inner` axes to batches of any shape, of equal axes."""
    batch = len(shape_of(operands[0])) - inner[0]
    for _ in range(batch):
        function = vmap(function)
    return function(*map(as_tracer, operands))


def _require_partitionable(equation: JaxprEqn) -> None:
    if not jax.config.jax_threefry_partitionable:
        raise UnsupportedError(
            f"from_jax: {equation.primitive.name} with jax_threefry_partitionable=False, which "
            "gives other bits",
            source=user_source(equation),
            remedy="leave jax_threefry_partitionable as it is, True",
        )


@rule("random_wrap", "random_unwrap", "random_clone", "to_edtype", "from_edtype", takes_keys=True)
def random_wrap(_: JaxprEqn, key: Any) -> Any:
    return key


@rule("random_seed", takes_keys=True)
def random_seed(equation: JaxprEqn, seed: Any) -> Any:
    generator = equation.params["impl"]
    if generator.name == THREEFRY:
        return _of_each(keys.key, seed, inner=(0,))
    dtype = np.dtype(equation.invars[0].aval.dtype)
    return _of_each(_traced(generator.seed, ((), dtype)), seed, inner=(0,))


@rule("random_bits", takes_keys=True)
def random_bits(equation: JaxprEqn, key: Any) -> Any:
    shape, width = integers(equation.params["shape"]), equation.params["bit_width"]
    generator = _generator(equation)
    if generator.name != THREEFRY:
        draw = _traced(lambda k: generator.random_bits(k, width, shape), _key_type(generator))
        return _of_each(draw, key, inner=(1,))
    _require_partitionable(equation)
    return _of_each(lambda k: uniforms.bits(k, shape, _UNSIGNED[width]), key, inner=(1,))


@rule("random_split", takes_keys=True)
def random_split(equation: JaxprEqn, key: Any) -> Any:
    shape, generator = integers(equation.params["shape"]), _generator(equation)
    if generator.name != THREEFRY:
        split = _traced(lambda k: generator.split(k, shape), _key_type(generator))
        return _of_each(split, key, inner=(1,))
    _require_partitionable(equation)
    return _of_each(lambda k: keys.split(k, shape), key, inner=(1,))


@rule("random_fold_in", takes_keys=True)
def random_fold_in(equation: JaxprEqn, key: Any, data: Any) -> Any:
    generator = _generator(equation)
    if generator.name == THREEFRY:
        return _of_each(keys.fold_in, key, data, inner=(1, 0))
    fold = _traced(generator.fold_in, _key_type(generator), ((), np.dtype(np.uint32)))
    return _of_each(fold, key, lax.convert_element_type(data, np.uint32), inner=(1, 0))


def _generator(equation: JaxprEqn) -> Any:
    return equation.invars[0].aval.dtype._impl


def _key_type(generator: Any) -> tuple[Any, Any]:
    return generator.key_shape, np.dtype(np.uint32)


def _traced(function: Callable[..., Any], *types: tuple[Any, Any]) -> Callable[..., Any]:
    """Return a function of a generator of JAX, of arrays of these shapes and dtypes."""
    traced = jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct(*type) for type in types))
    return lambda *xs: run(traced, xs)[0]


@rule("random_gamma", takes_keys=True)
def random_gamma(equation: JaxprEqn, key: Any, a: Any) -> Any:
    """Gamma numbers by JAX's own rejection, with their derivative by the shape."""
    key_aval, a_aval = (v.aval for v in equation.invars)
    log_space = equation.params["log_space"]
    avals = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (key_aval, a_aval)]
    traced = jax.make_jaxpr(lambda *xs: equation.primitive.impl(*xs, **equation.params))(*avals)

    @custom_jvp
    def gamma(key: Any, a: Any) -> Any:
        return run(traced, [key, a])[0]

    @gamma.defjvp
    def moved(primals: Any, tangents: Any) -> Any:
        sample = gamma(*primals)
        value = lax.exp(sample) if log_space else sample
        slope = lax.random_gamma_grad(primals[1], value)
        slope = lax.div(slope, value) if log_space else slope
        return sample, lax.mul(tangents[1], slope)

    return gamma(key, a)
