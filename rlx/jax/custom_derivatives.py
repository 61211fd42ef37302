"""`jax.custom_derivatives`: functions with stated derivatives."""

from rlx.jax.functions import closure_convert as closure_convert
from rlx.jax.functions import custom_gradient as custom_gradient
from rlx.public_names import names_of as _names_of
from rlx.transforms.custom_jvp import custom_jvp as custom_jvp
from rlx.transforms.custom_vjp import custom_vjp as custom_vjp

__dir__ = _names_of(__name__)
