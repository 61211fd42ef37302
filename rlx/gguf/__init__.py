"""Weights and metadata of language models, in GGUF files."""

from rlx.gguf.encoding import encode
from rlx.gguf.file import GgufFile, read
from rlx.gguf.header import TensorInfo
from rlx.gguf.writing import rewrite

__all__ = ["GgufFile", "TensorInfo", "encode", "read", "rewrite"]
