"""Rules of `rng_bit_generator` and of the ciphers it applies."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import UnsupportedError
from rlx.jaxpr.internals import JaxprEqn, user_source
from rlx.jaxpr.interpret import rule
from rlx.jaxpr.shapes import integers
from rlx.lax import bit_generators


@rule("threefry2x32")
def threefry2x32(_: JaxprEqn, *words: Any) -> Any:
    return bit_generators.threefry2x32(*words)


@rule("philox4x32")
def philox4x32(_: JaxprEqn, *words: Any) -> Any:
    return bit_generators.philox4x32(*rnp.broadcast_arrays(*words))


@rule("rng_bit_generator")
def rng_bit_generator(equation: JaxprEqn, state: Any) -> Any:
    algorithm = equation.params["algorithm"].name
    if algorithm == "RNG_DEFAULT":
        raise UnsupportedError(
            "from_jax: rng_bit_generator by the platform's default algorithm, which JAX does not "
            "define (keys of 'rbg' and 'unsafe_rbg' draw by it)",
            source=user_source(equation),
            remedy="name the algorithm, or use jax.random.key(seed, impl='threefry2x32')",
        )
    shape, dtype = integers(equation.params["shape"]), np.dtype(equation.params["dtype"])
    name = algorithm.removeprefix("RNG_")
    return list(bit_generators.rng_bit_generator(state, shape, dtype, name))
