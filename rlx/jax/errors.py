"""`jax.errors`: the errors of rlx under JAX's names."""

from __future__ import annotations

from rlx.errors import IndexOutOfRangeError, RlxError
from rlx.public_names import names_of as _names_of
from rlx.tracing.errors import ConcretizationError, LeakedTracerError

ConcretizationTypeError = TracerBoolConversionError = ConcretizationError
TracerArrayConversionError = TracerIntegerConversionError = ConcretizationError
NonConcreteBooleanIndexError = ConcretizationError
UnexpectedTracerError = LeakedTracerError
JAXTypeError = ConcretizationError
JAXIndexError, JaxRuntimeError = IndexOutOfRangeError, RlxError

__dir__ = _names_of(__name__)
