"""`jax.scipy.integrate`."""

from rlx.numpy import trapezoid as trapezoid
from rlx.public_names import names_of as _names_of

__dir__ = _names_of(__name__)
