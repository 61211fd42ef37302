"""`jax.ffi`: `rlx.ffi`."""

from rlx.ffi import *  # noqa: F403
from rlx.public_names import names_of as _names_of

__dir__ = _names_of(__name__)
