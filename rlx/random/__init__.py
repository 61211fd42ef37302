"""Random numbers of explicit keys: `normal(key, shape)` is a function, the same at every call.

    key = rlx.random.key(0)
    key, noise = rlx.random.split(key)
    x = rlx.random.normal(noise, (3, 4))

The bits are those that JAX draws for the same key. Draws are f32 and i32 where no dtype is
named. They work inside `jit`, `vmap`, loops, derivatives and exported C.
"""

from __future__ import annotations

from rlx.random.continuous import normal as normal
from rlx.random.keys import PRNGKey as PRNGKey
from rlx.random.keys import clone as clone
from rlx.random.keys import fold_in as fold_in
from rlx.random.keys import key as key
from rlx.random.keys import key_data as key_data
from rlx.random.keys import split as split
from rlx.random.keys import wrap_key_data as wrap_key_data
from rlx.random.uniforms import bernoulli as bernoulli
from rlx.random.uniforms import bits as bits
from rlx.random.uniforms import rademacher as rademacher
from rlx.random.uniforms import randint as randint
from rlx.random.uniforms import uniform as uniform
