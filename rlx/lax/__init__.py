"""JAX's array operators under their names and with their arguments: `rlx.lax.dynamic_slice_in_dim`.

Most are functions of `rlx.numpy` by another name. Operands promote as they do there, where JAX
asks for equal types. Loops, branches and collective operations are those of `rlx`.
"""

from __future__ import annotations

import rlx.numpy as rnp
from rlx.lax import linalg as linalg
from rlx.lax.arrays import broadcast as broadcast
from rlx.lax.arrays import broadcast_in_dim as broadcast_in_dim
from rlx.lax.arrays import broadcast_like as broadcast_like
from rlx.lax.arrays import broadcast_to_rank as broadcast_to_rank
from rlx.lax.arrays import broadcasted_iota as broadcasted_iota
from rlx.lax.arrays import collapse as collapse
from rlx.lax.arrays import concatenate as concatenate
from rlx.lax.arrays import dynamic_index_in_dim as dynamic_index_in_dim
from rlx.lax.arrays import dynamic_slice as dynamic_slice
from rlx.lax.arrays import dynamic_slice_in_dim as dynamic_slice_in_dim
from rlx.lax.arrays import dynamic_update_index_in_dim as dynamic_update_index_in_dim
from rlx.lax.arrays import dynamic_update_slice as dynamic_update_slice
from rlx.lax.arrays import dynamic_update_slice_in_dim as dynamic_update_slice_in_dim
from rlx.lax.arrays import expand_dims as expand_dims
from rlx.lax.arrays import full as full
from rlx.lax.arrays import full_like as full_like
from rlx.lax.arrays import index_in_dim as index_in_dim
from rlx.lax.arrays import index_take as index_take
from rlx.lax.arrays import iota as iota
from rlx.lax.arrays import pad as pad
from rlx.lax.arrays import reshape as reshape
from rlx.lax.arrays import rev as rev
from rlx.lax.arrays import shape_as_value as shape_as_value
from rlx.lax.arrays import slice as slice
from rlx.lax.arrays import slice_in_dim as slice_in_dim
from rlx.lax.arrays import split as split
from rlx.lax.arrays import squeeze as squeeze
from rlx.lax.arrays import stack as stack
from rlx.lax.arrays import tile as tile
from rlx.lax.arrays import transpose as transpose
from rlx.lax.elementwise import bitcast_convert_type as bitcast_convert_type
from rlx.lax.elementwise import clamp as clamp
from rlx.lax.elementwise import clz as clz
from rlx.lax.elementwise import complex as complex
from rlx.lax.elementwise import conj as conj
from rlx.lax.elementwise import convert_element_type as convert_element_type
from rlx.lax.elementwise import div as div
from rlx.lax.elementwise import igamma_grad_a as igamma_grad_a
from rlx.lax.elementwise import integer_pow as integer_pow
from rlx.lax.elementwise import max as max
from rlx.lax.elementwise import min as min
from rlx.lax.elementwise import mulhi as mulhi
from rlx.lax.elementwise import population_count as population_count
from rlx.lax.elementwise import random_gamma_grad as random_gamma_grad
from rlx.lax.elementwise import round as round
from rlx.lax.elementwise import rsqrt as rsqrt
from rlx.lax.elementwise import select as select
from rlx.lax.elementwise import select_n as select_n
from rlx.lax.elementwise import shift_right_arithmetic as shift_right_arithmetic
from rlx.lax.elementwise import shift_right_logical as shift_right_logical
from rlx.lax.elementwise import total_order_eq as total_order_eq
from rlx.lax.elementwise import total_order_le as total_order_le
from rlx.lax.elementwise import total_order_lt as total_order_lt
from rlx.lax.folds import approx_max_k as approx_max_k
from rlx.lax.folds import approx_min_k as approx_min_k
from rlx.lax.folds import argmax as argmax
from rlx.lax.folds import argmin as argmin
from rlx.lax.folds import cumlogsumexp as cumlogsumexp
from rlx.lax.folds import cummax as cummax
from rlx.lax.folds import cummin as cummin
from rlx.lax.folds import cumprod as cumprod
from rlx.lax.folds import cumsum as cumsum
from rlx.lax.folds import reduce as reduce
from rlx.lax.folds import reduce_and as reduce_and
from rlx.lax.folds import reduce_max as reduce_max
from rlx.lax.folds import reduce_min as reduce_min
from rlx.lax.folds import reduce_or as reduce_or
from rlx.lax.folds import reduce_prod as reduce_prod
from rlx.lax.folds import reduce_sum as reduce_sum
from rlx.lax.folds import reduce_xor as reduce_xor
from rlx.lax.folds import sort as sort
from rlx.lax.folds import sort_key_val as sort_key_val
from rlx.lax.folds import top_k as top_k
from rlx.lax.names import FftType as FftType
from rlx.lax.names import GatherScatterMode as GatherScatterMode
from rlx.lax.names import Precision as Precision
from rlx.lax.names import RoundingMethod as RoundingMethod
from rlx.lax.names import after_all as after_all
from rlx.lax.names import composite as composite
from rlx.lax.names import create_token as create_token
from rlx.lax.names import dce_sink as dce_sink
from rlx.lax.names import fft as fft
from rlx.lax.names import optimization_barrier as optimization_barrier
from rlx.lax.names import platform_dependent as platform_dependent
from rlx.lax.names import stage as stage
from rlx.lax.names import with_sharding_constraint as with_sharding_constraint
from rlx.lax.precision import reduce_precision as reduce_precision
from rlx.lax.products import RaggedDotDimensionNumbers as RaggedDotDimensionNumbers
from rlx.lax.products import batch_matmul as batch_matmul
from rlx.lax.products import dot as dot
from rlx.lax.products import dot_general as dot_general
from rlx.lax.products import ragged_dot as ragged_dot
from rlx.lax.products import ragged_dot_general as ragged_dot_general
from rlx.lax.reduce_windows import reduce_window as reduce_window
from rlx.lax.reduce_windows import select_and_gather_add as select_and_gather_add
from rlx.lax.reduce_windows import select_and_scatter_add as select_and_scatter_add
from rlx.lax.windows import conv_general_dilated_local as conv_general_dilated_local
from rlx.lax.windows import conv_general_dilated_patches as conv_general_dilated_patches
from rlx.lax.windows import conv_general_permutations as conv_general_permutations
from rlx.lax.windows import conv_general_shape_tuple as conv_general_shape_tuple
from rlx.lax.windows import conv_shape_tuple as conv_shape_tuple
from rlx.lax.windows import padtype_to_pads as padtype_to_pads
from rlx.lax.windows import reduce_window_shape_tuple as reduce_window_shape_tuple
from rlx.nn.activations import erf as erf
from rlx.nn.activations import sigmoid
from rlx.numpy.convolutions import ConvDimensionNumbers as ConvDimensionNumbers
from rlx.numpy.convolutions import conv as conv
from rlx.numpy.convolutions import conv_dimension_numbers as conv_dimension_numbers
from rlx.numpy.convolutions import conv_general_dilated as conv_general_dilated
from rlx.numpy.convolutions import conv_transpose as conv_transpose
from rlx.numpy.convolutions import conv_with_general_padding as conv_with_general_padding
from rlx.numpy.dimension_numbers import GatherDimensionNumbers as GatherDimensionNumbers
from rlx.numpy.dimension_numbers import ScatterDimensionNumbers as ScatterDimensionNumbers
from rlx.numpy.dimension_numbers import gather as gather
from rlx.numpy.dimension_numbers import scatter as scatter
from rlx.numpy.dimension_numbers import scatter_add as scatter_add
from rlx.numpy.dimension_numbers import scatter_apply as scatter_apply
from rlx.numpy.dimension_numbers import scatter_max as scatter_max
from rlx.numpy.dimension_numbers import scatter_min as scatter_min
from rlx.numpy.dimension_numbers import scatter_mul as scatter_mul
from rlx.numpy.dimension_numbers import scatter_sub as scatter_sub
from rlx.public_names import names_of as _names_of
from rlx.scipy.special import betainc as betainc
from rlx.scipy.special import digamma as digamma
from rlx.scipy.special import erfc as erfc
from rlx.scipy.special import erfinv, gammainc, gammaincc, gammaln, i0e, i1e
from rlx.scipy.special import polygamma as polygamma
from rlx.scipy.special import zeta as zeta
from rlx.transforms.associative import associative_scan as associative_scan
from rlx.transforms.branches import cond as cond
from rlx.transforms.branches import switch as switch
from rlx.transforms.collectives import all_gather as all_gather
from rlx.transforms.collectives import all_to_all as all_to_all
from rlx.transforms.collectives import axis_index as axis_index
from rlx.transforms.collectives import axis_size as axis_size
from rlx.transforms.collectives import pbroadcast as pbroadcast
from rlx.transforms.collectives import pmax as pmax
from rlx.transforms.collectives import pmean as pmean
from rlx.transforms.collectives import pmin as pmin
from rlx.transforms.collectives import ppermute as ppermute
from rlx.transforms.collectives import pshuffle as pshuffle
from rlx.transforms.collectives import psum as psum
from rlx.transforms.collectives import psum_scatter as psum_scatter
from rlx.transforms.collectives import pswapaxes as pswapaxes
from rlx.transforms.collectives import pvary as pvary
from rlx.transforms.control import fori_loop as fori_loop
from rlx.transforms.control import map as map
from rlx.transforms.control import scan as scan
from rlx.transforms.control import while_loop as while_loop
from rlx.transforms.differentiate import stop_gradient as stop_gradient
from rlx.transforms.implicit import custom_linear_solve as custom_linear_solve
from rlx.transforms.implicit import custom_root as custom_root

# By other names

nextafter = rnp.nextafter
logistic, lgamma, erf_inv = sigmoid, gammaln, erfinv
igamma, igammac, bessel_i0e, bessel_i1e = gammainc, gammaincc, i0e, i1e
abs, acos, acosh, asin, asinh = rnp.abs, rnp.arccos, rnp.arccosh, rnp.arcsin, rnp.arcsinh
atan, atan2, atanh, cbrt, ceil = rnp.arctan, rnp.arctan2, rnp.arctanh, rnp.cbrt, rnp.ceil
cos, cosh, exp, exp2, expm1 = rnp.cos, rnp.cosh, rnp.exp, rnp.exp2, rnp.expm1
floor, imag, is_finite, log, log1p = rnp.floor, rnp.imag, rnp.isfinite, rnp.log, rnp.log1p
neg, real, reciprocal, sign, sin = rnp.negative, rnp.real, rnp.reciprocal, rnp.sign, rnp.sin
sinh, sqrt, square, tan, tanh = rnp.sinh, rnp.sqrt, rnp.square, rnp.tan, rnp.tanh
add, sub, mul, pow, rem = rnp.add, rnp.subtract, rnp.multiply, rnp.power, rnp.fmod
bitwise_and, bitwise_or, bitwise_xor = rnp.bitwise_and, rnp.bitwise_or, rnp.bitwise_xor
bitwise_not, shift_left = rnp.bitwise_not, rnp.left_shift
eq, ne, lt, le, gt, ge = rnp.equal, rnp.not_equal, rnp.less, rnp.less_equal, rnp.greater, (
    rnp.greater_equal
)  # fmt: skip
empty, unstack = rnp.empty, rnp.unstack
broadcast_shapes = rnp.broadcast_shapes

__dir__ = _names_of(__name__)
