"""`jax.scipy.integrate`."""

from rlx.numpy import trapezoid as trapezoid
