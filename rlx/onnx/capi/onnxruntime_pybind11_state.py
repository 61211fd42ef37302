"""Errors under the names of ONNX Runtime, so that programs that catch these catch ours.

from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
"""

from rlx.errors import FormatError, InputError, RlxError, UnsupportedError

Fail = RuntimeException = EPFail = EngineError = RlxError
InvalidArgument = NoSuchFile = NotFound = NoModel = InputError
InvalidGraph = InvalidProtobuf = FormatError
NotImplemented = UnsupportedError
