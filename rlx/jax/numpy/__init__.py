"""`jax.numpy`: `rlx.numpy`."""

import importlib
from typing import Any

import numpy

import rlx
from rlx.errors import UnsupportedError
from rlx.jax import arrays
from rlx.numpy import *  # noqa: F403
from rlx.public_names import names_of as _names_of
from rlx.scipy.special import i0 as i0

# Modules of their own, whichever is imported first: all names of rlx.numpy are here, too
fft, linalg = (importlib.import_module(f"{__name__}.{name}") for name in ("fft", "linalg"))

cdouble, uint = numpy.complex128, numpy.uint
ComplexWarning = numpy.exceptions.ComplexWarning
einsum_path, mask_indices, save, savez = (
    numpy.einsum_path,
    numpy.mask_indices,
    numpy.save,
    numpy.savez,
)
ndarray = arrays.Array  # type: ignore[misc, assignment]  # of traced arrays, too
vectorize = rlx.vectorize


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """What NumPy loads, as an array."""
    found = numpy.load(file, *args, **kwargs)
    return rlx.numpy.asarray(found) if isinstance(found, numpy.ndarray) else found


def fromfile(*args: Any, **kwargs: Any) -> Any:
    """What NumPy reads, as an array."""
    return rlx.numpy.asarray(numpy.fromfile(*args, **kwargs))


def place(arr: Any, mask: Any, vals: Any, *, inplace: Any = True) -> Any:
    """`arr` with elements, where `mask` holds, from `vals` in order, again and again."""
    if inplace:
        raise UnsupportedError("arrays do not change in place", remedy="pass inplace=False")
    flat, chosen = rlx.numpy.ravel(arr), rlx.numpy.ravel(mask)
    number = rlx.numpy.cumsum(chosen.astype("int32")) - 1
    values = rlx.numpy.ravel(vals)
    picked = values[number % rlx.numpy.size(values)]
    return rlx.numpy.where(chosen, picked, flat).astype(flat.dtype).reshape(rlx.numpy.shape(arr))


__dir__ = _names_of(__name__)
