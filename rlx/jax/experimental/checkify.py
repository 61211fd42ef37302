"""`jax.experimental.checkify`: checks of a running program as results of it."""

from rlx.errors import CheckError as JaxRuntimeError
from rlx.public_names import names_of as _names_of
from rlx.transforms.checkify import (
    Error,
    ErrorCategory,
    all_checks,
    automatic_checks,
    check,
    check_error,
    checkify,
    debug_check,
    div_checks,
    float_checks,
    index_checks,
    init_error,
    nan_checks,
    user_checks,
)

__all__ = [
    "Error", "ErrorCategory", "JaxRuntimeError", "all_checks", "automatic_checks", "check",
    "check_error", "checkify", "debug_check", "div_checks", "float_checks", "index_checks",
    "init_error", "nan_checks", "user_checks",
]  # fmt: skip

__dir__ = _names_of(__name__)
