"""`jax.experimental.ode`."""

from rlx.public_names import names_of as _names_of
from rlx.scipy.dormand_prince import odeint as odeint

__dir__ = _names_of(__name__)
