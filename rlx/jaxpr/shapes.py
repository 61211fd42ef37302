"""Rules of primitives that make, move and join elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import rlx.lax as lax
import rlx.numpy as rnp
from rlx.ir.shape import Extent
from rlx.jaxpr.internals import JaxprEqn
from rlx.jaxpr.interpret import rule
from rlx.jaxpr.symbols import extent_of, extents
from rlx.jaxpr.types import dtype_of
from rlx.numpy.extent_numbers import extent_number
from rlx.numpy.indexing import dynamic_slice as block
from rlx.numpy.indexing import dynamic_update_slice as with_block


def result_shape(equation: JaxprEqn) -> tuple[Extent, ...]:
    """Return the shape of the first result, of keys without their words."""
    return extents(equation.outvars[0].aval.shape)


def integers(values: Any) -> tuple[int, ...]:
    """Return numbers of NumPy or Python as integers of Python."""
    return tuple(map(int, values))


@rule("broadcast_in_dim")
def broadcast_in_dim(equation: JaxprEqn, x: Any, *_: Any) -> Any:
    axes = integers(equation.params["broadcast_dimensions"])
    return lax.broadcast_in_dim(x, result_shape(equation), axes)


@rule("broadcast_to")
def broadcast_to(equation: JaxprEqn, x: Any, *_: Any) -> Any:
    return rnp.broadcast_to(x, result_shape(equation))


@rule("reshape")
def reshape(equation: JaxprEqn, x: Any, *_: Any) -> Any:
    return lax.reshape(x, result_shape(equation), equation.params["dimensions"])


@rule("squeeze", "expand_dims")
def squeeze(equation: JaxprEqn, x: Any) -> Any:
    return lax.reshape(x, result_shape(equation))


@rule("transpose")
def transpose(equation: JaxprEqn, x: Any) -> Any:
    return lax.transpose(x, integers(equation.params["permutation"]))


@rule("rev")
def rev(equation: JaxprEqn, x: Any) -> Any:
    return lax.rev(x, integers(equation.params["dimensions"]))


@rule("concatenate")
def concatenate(equation: JaxprEqn, *operands: Any) -> Any:
    return lax.concatenate(list(operands), int(equation.params["dimension"]))


@rule("stack")
def stack(equation: JaxprEqn, *operands: Any) -> Any:
    return lax.stack(list(operands), int(equation.params["axis"]))


@rule("unstack")
def unstack(equation: JaxprEqn, x: Any) -> Any:
    return list(lax.unstack(x, axis=int(equation.params["axis"])))


@rule("split")
def split(equation: JaxprEqn, x: Any) -> Any:
    return lax.split(x, integers(equation.params["sizes"]), int(equation.params["axis"]))


@rule("tile")
def tile(equation: JaxprEqn, x: Any) -> Any:
    return lax.tile(x, integers(equation.params["reps"]))


@rule("pad")
def pad(equation: JaxprEqn, x: Any, value: Any) -> Any:
    config = [integers(each) for each in equation.params["padding_config"]]
    return lax.pad(x, value, config) if any(map(any, config)) else x


@rule("iota")
def iota(equation: JaxprEqn, *_: Any) -> Any:
    dtype = dtype_of(equation.outvars[0].aval)
    return lax.broadcasted_iota(dtype, result_shape(equation), int(equation.params["dimension"]))


@rule("iota_2x32_shape")
def iota_2x32_shape(equation: JaxprEqn) -> Any:
    """The upper and lower words of the number of each element."""
    shape = result_shape(equation)
    numbers = rnp.reshape(rnp.arange(math.prod(shape), dtype=np.uint64), shape)
    words = lax.bitcast_convert_type(numbers, np.uint32)
    return [words[..., 1], words[..., 0]]


@rule("empty", "empty2")
def empty(equation: JaxprEqn, *_: Any) -> Any:
    aval = equation.outvars[0].aval
    return rnp.zeros(extents(aval.shape), dtype_of(aval))


@rule("slice")
def slice(equation: JaxprEqn, x: Any) -> Any:
    params = equation.params
    strides = None if params["strides"] is None else integers(params["strides"])
    return lax.slice(x, extents(params["start_indices"]), extents(params["limit_indices"]), strides)


@rule("dynamic_slice")
def dynamic_slice(equation: JaxprEqn, x: Any, *starts: Any) -> Any:
    """A block whose starts are clamped; JAX has counted negative ones from the end before."""
    rank = len(equation.invars[0].aval.shape)
    return block(x, list(starts[:rank]), result_shape(equation))


@rule("dynamic_update_slice")
def dynamic_update_slice(_: JaxprEqn, x: Any, update: Any, *starts: Any) -> Any:
    return with_block(x, update, list(starts))


@rule("dim_as_value")
def dim_as_value(equation: JaxprEqn) -> Any:
    extent = extent_of(equation.params["dim"])
    return lax.convert_element_type(extent_number(extent), dtype_of(equation.outvars[0].aval))


@rule("dimension_size")
def dimension_size(equation: JaxprEqn, x: Any) -> Any:
    extent = x.shape[int(equation.params["dimension"])]
    return lax.convert_element_type(extent_number(extent), np.int32)
