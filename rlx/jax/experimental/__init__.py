"""The supported part of `jax.experimental`: callbacks, checks, widths of types, `odeint`, `jet`."""

from contextlib import AbstractContextManager

from rlx import io_callback as io_callback
from rlx.jax.configuration import enable_x64 as enable_x64
from rlx.jax.experimental import checkify as checkify
from rlx.jax.experimental import jet as jet
from rlx.jax.experimental import mesh_utils as mesh_utils
from rlx.jax.experimental import ode as ode
from rlx.public_names import names_of as _names_of

__all__ = ["checkify", "disable_x64", "enable_x64", "io_callback", "jet", "mesh_utils", "ode"]


def disable_x64() -> AbstractContextManager[None]:
    """Let 32 bits take the place of 64-bit types inside."""
    return enable_x64(False)


__dir__ = _names_of(__name__)
