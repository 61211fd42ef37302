"""ONNX models: loaded as graphs, run in sessions, exported."""

from rlx.errors import MissingPackageError
from rlx.public_names import names_of as _names_of

try:
    import onnx  # noqa: F401  the parser
except ModuleNotFoundError as _error:
    raise MissingPackageError(
        "the onnx package is missing", remedy="install it with pip install 'rlx[onnx]'"
    ) from _error

from rlx.onnx.binding import IOBinding as IOBinding
from rlx.onnx.binding import OrtValue as OrtValue
from rlx.onnx.export import export as export
from rlx.onnx.load import load as load
from rlx.onnx.options import ExecutionMode as ExecutionMode
from rlx.onnx.options import ExecutionOrder as ExecutionOrder
from rlx.onnx.options import GraphOptimizationLevel as GraphOptimizationLevel
from rlx.onnx.options import RunOptions as RunOptions
from rlx.onnx.options import SessionOptions as SessionOptions
from rlx.onnx.options import disable_telemetry_events as disable_telemetry_events
from rlx.onnx.options import enable_telemetry_events as enable_telemetry_events
from rlx.onnx.options import get_all_providers as get_all_providers
from rlx.onnx.options import get_available_providers as get_available_providers
from rlx.onnx.options import get_device as get_device
from rlx.onnx.options import set_default_logger_severity as set_default_logger_severity
from rlx.onnx.options import set_default_logger_verbosity as set_default_logger_verbosity
from rlx.onnx.session import InferenceSession as InferenceSession
from rlx.onnx.session import ModelMetadata as ModelMetadata
from rlx.onnx.session import NodeArg as NodeArg

__dir__ = _names_of(__name__)
