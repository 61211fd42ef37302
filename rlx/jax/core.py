"""`jax.core`: the classes that programs test values for."""

from rlx.jax.functions import typeof as get_aval
from rlx.public_names import names_of as _names_of
from rlx.tracing.tracer import Tracer as Tracer
from rlx.transforms.abstract import ShapeDtypeStruct
from rlx.transforms.naming import ensure_compile_time_eval as ensure_compile_time_eval

ShapedArray = AbstractValue = ShapeDtypeStruct

__all__ = ["AbstractValue", "ShapedArray", "Tracer", "ensure_compile_time_eval", "get_aval"]

__dir__ = _names_of(__name__)
