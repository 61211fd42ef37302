"""JAX's names for rlx: `import rlx.jax as jax`, `import rlx.jax.numpy as jnp`.

Thin re-exports in JAX's places; what differs is told in `docs/jax.md`. `python -m rlx.jax
program.py` runs a program whose imports of `jax` are answered by these modules.
"""

from __future__ import annotations

import rlx
from rlx.jax import ad_checkpoint as ad_checkpoint
from rlx.jax import debug as debug
from rlx.jax import dtypes as dtypes
from rlx.jax import errors as errors
from rlx.jax import experimental as experimental
from rlx.jax import ffi as ffi
from rlx.jax import flatten_util as flatten_util
from rlx.jax import lax as lax
from rlx.jax import nn as nn
from rlx.jax import numpy as numpy
from rlx.jax import ops as ops
from rlx.jax import random as random
from rlx.jax import scipy as scipy
from rlx.jax import test_util as test_util
from rlx.jax import tree as tree
from rlx.jax import tree_util as tree_util
from rlx.jax import typing as typing
from rlx.jax.arrays import Array as Array
from rlx.jax.configuration import config as config
from rlx.jax.configuration import enable_x64 as enable_x64
from rlx.jax.functions import block_until_ready as block_until_ready
from rlx.jax.functions import default_backend as default_backend
from rlx.jax.functions import device_count as device_count
from rlx.jax.functions import device_get as device_get
from rlx.jax.functions import device_put as device_put
from rlx.jax.functions import devices as devices
from rlx.jax.functions import jit as jit
from rlx.jax.functions import local_device_count as local_device_count

ShapeDtypeStruct, eval_shape = rlx.ShapeDtypeStruct, rlx.eval_shape
grad, value_and_grad, vjp, jvp = rlx.grad, rlx.value_and_grad, rlx.vjp, rlx.jvp
jacfwd, jacrev, jacobian, hessian = rlx.jacfwd, rlx.jacrev, rlx.jacobian, rlx.hessian
linearize, linear_transpose, vmap = rlx.linearize, rlx.linear_transpose, rlx.vmap
checkpoint = remat = rlx.checkpoint
checkpoint_policies, ensure_compile_time_eval = (
    rlx.checkpoint_policies,
    rlx.ensure_compile_time_eval,
)
named_call, named_scope = rlx.named_call, rlx.named_scope
make_jaxpr, pure_callback = rlx.make_graph, rlx.pure_callback
custom_jvp, custom_vjp = rlx.custom_jvp, rlx.custom_vjp

__all__ = ["Array", "config", "grad", "jit", "lax", "nn", "numpy", "random", "tree", "vmap"]
__version__ = "0.4.0"
"""Of JAX's names: programs ask for it."""
