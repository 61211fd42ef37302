"""`jax.experimental.ode`."""

from rlx.scipy.dormand_prince import odeint as odeint
