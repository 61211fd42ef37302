"""ONNX models: loaded as graphs, run in sessions, exported."""

from rlx.errors import ToolchainError

try:
    import onnx  # noqa: F401  the parser
except ModuleNotFoundError as _error:
    raise ToolchainError(
        "the onnx package is missing", remedy="install it with pip install 'rlx[onnx]'"
    ) from _error

from rlx.onnx.export import export as export
from rlx.onnx.load import load as load
from rlx.onnx.session import InferenceSession as InferenceSession
