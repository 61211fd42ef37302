"""`jax.nn`: `rlx.nn`, and JAX's remaining activations."""

from rlx.jax.nn import initializers as initializers
from rlx.jax.nn.functions import celu as celu
from rlx.jax.nn.functions import dot_product_attention as dot_product_attention
from rlx.jax.nn.functions import glu as glu
from rlx.jax.nn.functions import hard_tanh as hard_tanh
from rlx.jax.nn.functions import identity as identity
from rlx.jax.nn.functions import log1mexp as log1mexp
from rlx.jax.nn.functions import logmeanexp as logmeanexp
from rlx.jax.nn.functions import one_hot as one_hot
from rlx.jax.nn.functions import sparse_plus as sparse_plus
from rlx.jax.nn.functions import sparse_sigmoid as sparse_sigmoid
from rlx.jax.nn.functions import squareplus as squareplus
from rlx.jax.nn.functions import standardize as standardize
from rlx.nn.activations import *  # noqa: F403
from rlx.nn.activations import hard_swish as hard_silu
from rlx.nn.activations import hard_swish as hard_swish
from rlx.nn.activations import leaky_relu as leaky_relu
from rlx.public_names import names_of as _names_of

__all__ = ["hard_silu"]

__dir__ = _names_of(__name__)
