"""Weights and metadata of language models, in GGUF files.

Encoding and writing are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rlx.gguf.file import GgufFile, read
from rlx.gguf.header import TensorInfo
from rlx.public_names import names_of as _names_of

if TYPE_CHECKING:
    from rlx.gguf.encoding import encode as encode
    from rlx.gguf.writing import rewrite as rewrite

__all__ = ["GgufFile", "TensorInfo", "encode", "read", "rewrite"]

_HOMES = {"encode": "encoding", "rewrite": "writing"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rlx.gguf' has no attribute {name!r}")
    return getattr(importlib.import_module(f"rlx.gguf.{_HOMES[name]}"), name)


__dir__ = _names_of(__name__)
