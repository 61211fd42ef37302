"""rlx: a small ML compiler. NumPy-style Python in; C, native code and gradients out.

Public names are imported when they are first used, so that `import rlx` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.homes import lazily as _lazily
from rlx.public_names import names_of as _names_of

if TYPE_CHECKING:
    from rlx import custom as custom
    from rlx import debug as debug
    from rlx import distributed as distributed
    from rlx import errors as errors
    from rlx import ffi as ffi
    from rlx import gguf as gguf
    from rlx import jax as jax
    from rlx import language as language
    from rlx import lax as lax
    from rlx import nn as nn
    from rlx import numpy as numpy
    from rlx import onnx as onnx
    from rlx import optim as optim
    from rlx import optimize as optimize
    from rlx import passes as passes
    from rlx import quantization as quantization
    from rlx import random as random
    from rlx import scipy as scipy
    from rlx import sparse as sparse
    from rlx import splat as splat
    from rlx import torch as torch
    from rlx import tree_util as tree_util
    from rlx.errors import BusyError as BusyError
    from rlx.errors import LimitError as LimitError
    from rlx.errors import RlxError as RlxError
    from rlx.ir.graph import Graph as Graph
    from rlx.ir.lowering import Schedule as Schedule
    from rlx.ir.schedules import Schedules as Schedules
    from rlx.ir.shape import Dim as Dim
    from rlx.ir.types import TensorType as TensorType
    from rlx.jaxpr.from_jax import from_jax as from_jax
    from rlx.limits import LoadLimits as LoadLimits
    from rlx.passes.precision.policy import MixedPrecision as MixedPrecision
    from rlx.quantization import quantize as quantize
    from rlx.runtime.aot import Artifact as Artifact
    from rlx.runtime.aot import aot as aot
    from rlx.runtime.arrays import Array as Array
    from rlx.runtime.compile import compile as compile
    from rlx.runtime.executable import Executable as Executable
    from rlx.runtime.missed_fusions import assert_fusion_clean as assert_fusion_clean
    from rlx.runtime.missed_fusions import missed_fusions as missed_fusions
    from rlx.runtime.session import Session as Session
    from rlx.runtime.tune import tune as tune
    from rlx.sparse.derivatives import sparse_hessian as sparse_hessian
    from rlx.sparse.derivatives import sparse_jacobian as sparse_jacobian
    from rlx.sparse.derivatives import (
        value_and_sparse_jacobian as value_and_sparse_jacobian,
    )
    from rlx.sparse.structure import hessian_sparsity as hessian_sparsity
    from rlx.sparse.structure import jacobian_sparsity as jacobian_sparsity
    from rlx.sparse.structure import spy as spy
    from rlx.stablehlo import from_stablehlo as from_stablehlo
    from rlx.torch import from_torch as from_torch
    from rlx.tracing.eager import clear_eager_cache as clear_eager_cache
    from rlx.tracing.eager import eager_cache_info as eager_cache_info
    from rlx.tracing.pytree import register_dataclass as register_dataclass
    from rlx.tracing.pytree import register_pytree_node as register_pytree_node
    from rlx.tracing.pytree import tree_flatten as tree_flatten
    from rlx.tracing.pytree import tree_leaves as tree_leaves
    from rlx.tracing.pytree import tree_map as tree_map
    from rlx.tracing.pytree import tree_structure as tree_structure
    from rlx.tracing.pytree import tree_unflatten as tree_unflatten
    from rlx.tracing.widths import default_dtype as default_dtype
    from rlx.transforms.abstract import ShapeDtypeStruct as ShapeDtypeStruct
    from rlx.transforms.abstract import eval_shape as eval_shape
    from rlx.transforms.associative import associative_scan as associative_scan
    from rlx.transforms.batch import hessian as hessian
    from rlx.transforms.batch import jacfwd as jacfwd
    from rlx.transforms.batch import jacobian as jacobian
    from rlx.transforms.batch import jacrev as jacrev
    from rlx.transforms.batch import vmap as vmap
    from rlx.transforms.branches import cond as cond
    from rlx.transforms.branches import switch as switch
    from rlx.transforms.buckets import Buckets as Buckets
    from rlx.transforms.callbacks import io_callback as io_callback
    from rlx.transforms.callbacks import pure_callback as pure_callback
    from rlx.transforms.checkpointing import checkpoint as checkpoint
    from rlx.transforms.checkpointing import checkpoint_name as checkpoint_name
    from rlx.transforms.checkpointing import checkpoint_policies as checkpoint_policies
    from rlx.transforms.control import fori_loop as fori_loop
    from rlx.transforms.control import map as map
    from rlx.transforms.control import scan as scan
    from rlx.transforms.control import while_loop as while_loop
    from rlx.transforms.custom_jvp import custom_jvp as custom_jvp
    from rlx.transforms.custom_vjp import custom_vjp as custom_vjp
    from rlx.transforms.differentiate import grad as grad
    from rlx.transforms.differentiate import jvp as jvp
    from rlx.transforms.differentiate import stop_gradient as stop_gradient
    from rlx.transforms.differentiate import value_and_grad as value_and_grad
    from rlx.transforms.differentiate import vjp as vjp
    from rlx.transforms.jit import jit as jit
    from rlx.transforms.jit import make_graph as make_graph
    from rlx.transforms.linear import linear_transpose as linear_transpose
    from rlx.transforms.linear import linearize as linearize
    from rlx.transforms.naming import ensure_compile_time_eval as ensure_compile_time_eval
    from rlx.transforms.naming import named_call as named_call
    from rlx.transforms.naming import named_scope as named_scope
    from rlx.transforms.ravel import ravel_pytree as ravel_pytree
    from rlx.transforms.vectorize import vectorize as vectorize
else:
    __getattr__ = _lazily(__name__)

__version__ = "0.1.0"
__dir__ = _names_of(__name__)
