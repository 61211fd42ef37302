"""JAX's names for rlx: `import rlx.jax as jax`, `import rlx.jax.numpy as jnp`.

Thin re-exports in JAX's places; `docs/jax.md` lists what differs. `python -m rlx.jax
program.py` runs a program whose imports of `jax` are answered by these modules.
"""

from __future__ import annotations

import rlx
from rlx.jax import ad_checkpoint as ad_checkpoint
from rlx.jax import core as core
from rlx.jax import custom_batching as custom_batching
from rlx.jax import custom_derivatives as custom_derivatives
from rlx.jax import debug as debug
from rlx.jax import dtypes as dtypes
from rlx.jax import errors as errors
from rlx.jax import ffi as ffi
from rlx.jax import flatten_util as flatten_util
from rlx.jax import image as image
from rlx.jax import lax as lax
from rlx.jax import nn as nn
from rlx.jax import numpy as numpy
from rlx.jax import ops as ops
from rlx.jax import profiler as profiler
from rlx.jax import random as random
from rlx.jax import scipy as scipy
from rlx.jax import sharding as sharding
from rlx.jax import stages as stages
from rlx.jax import test_util as test_util
from rlx.jax import tree as tree
from rlx.jax import tree_util as tree_util
from rlx.jax import typing as typing
from rlx.jax.arrays import Array as Array
from rlx.jax.configuration import check_tracer_leaks as check_tracer_leaks
from rlx.jax.configuration import checking_leaks as checking_leaks
from rlx.jax.configuration import config as config
from rlx.jax.configuration import debug_infs as debug_infs
from rlx.jax.configuration import debug_nans as debug_nans
from rlx.jax.configuration import default_device as default_device
from rlx.jax.configuration import default_matmul_precision as default_matmul_precision
from rlx.jax.configuration import enable_x64 as enable_x64
from rlx.jax.configuration import log_compiles as log_compiles
from rlx.jax.configuration import numpy_rank_promotion as numpy_rank_promotion
from rlx.jax.configuration import transfer_guard as transfer_guard
from rlx.jax.derivatives import grad as grad
from rlx.jax.derivatives import hessian as hessian
from rlx.jax.derivatives import jacfwd as jacfwd
from rlx.jax.derivatives import jacobian as jacobian
from rlx.jax.derivatives import jacrev as jacrev
from rlx.jax.derivatives import linearize as linearize
from rlx.jax.derivatives import value_and_grad as value_and_grad
from rlx.jax.derivatives import vmap as vmap
from rlx.jax.devices import Device as Device
from rlx.jax.devices import block_until_ready as block_until_ready
from rlx.jax.devices import copy_to_host_async as copy_to_host_async
from rlx.jax.devices import default_backend as default_backend
from rlx.jax.devices import device_count as device_count
from rlx.jax.devices import device_get as device_get
from rlx.jax.devices import device_put as device_put
from rlx.jax.devices import devices as devices
from rlx.jax.devices import effects_barrier as effects_barrier
from rlx.jax.devices import host_count as host_count
from rlx.jax.devices import host_id as host_id
from rlx.jax.devices import host_ids as host_ids
from rlx.jax.devices import local_device_count as local_device_count
from rlx.jax.devices import local_devices as local_devices
from rlx.jax.devices import process_count as process_count
from rlx.jax.devices import process_index as process_index
from rlx.jax.devices import process_indices as process_indices
from rlx.jax.door import install as install
from rlx.jax.door import report as report
from rlx.jax.door import uninstall as uninstall
from rlx.jax.dtypes import float0 as float0
from rlx.jax.functions import clear_caches as clear_caches
from rlx.jax.functions import closure_convert as closure_convert
from rlx.jax.functions import custom_gradient as custom_gradient
from rlx.jax.functions import jit as jit
from rlx.jax.functions import typeof as typeof
from rlx.jax.sharding import NamedSharding as NamedSharding
from rlx.jax.sharding import PartitionSpec as P
from rlx.jax.sharding import make_mesh as make_mesh
from rlx.jax.sharding import pmap as pmap
from rlx.jax.sharding import reshard as reshard
from rlx.jax.sharding import set_mesh as set_mesh
from rlx.jax.sharding import shard_map as shard_map
from rlx.public_names import names_of as _names_of
from rlx.transforms.custom_vjp import custom_vjp as custom_vjp
from rlx.transforms.differentiate import vjp as vjp
from rlx.transforms.linear import linear_transpose as linear_transpose

# Last, as its modules use those above
from rlx.jax import experimental as experimental  # isort: skip

ShapeDtypeStruct, eval_shape = rlx.ShapeDtypeStruct, rlx.eval_shape
jvp = rlx.jvp
checkpoint = remat = rlx.checkpoint
checkpoint_policies, ensure_compile_time_eval = (
    rlx.checkpoint_policies,
    rlx.ensure_compile_time_eval,
)
named_call, named_scope = rlx.named_call, rlx.named_scope
make_jaxpr, pure_callback = rlx.make_graph, rlx.pure_callback
custom_jvp = rlx.custom_jvp

__all__ = ["Array", "P", "config", "grad", "jit", "lax", "nn", "numpy", "random", "tree", "vmap"]
__version__ = "0.4.0"
"""Of JAX's names: programs ask for it."""

__dir__ = _names_of(__name__)
