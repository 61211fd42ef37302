"""What decoders are built from: a GGUF file, or a folder read under the same keys."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlx.gguf.element_types import ElementType
from rlx.gguf.header import TensorInfo


class ModelFile(Protocol):
    """Metadata and tensors by the names of GGUF files."""

    @property
    def path(self) -> str: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...
    @property
    def tensors(self) -> Mapping[str, TensorInfo]: ...
    @property
    def key_names(self) -> Mapping[str, str]:
        """What keys are called in the file, where that is something else than in `metadata`."""

    @property
    def digest(self) -> str:
        """A digest of all but the numbers in tensors."""

    def element_type(self, name: str) -> ElementType:
        """Return what a tensor holds."""

    def tensor_bytes(self, name: str) -> NDArray[np.uint8]:
        """Return a tensor's bytes, `[..., bytes of a row]`."""

    def dequant_f32(self, name: str) -> NDArray[np.float32]:
        """Return a tensor decoded to f32."""

    def releasing(self) -> AbstractContextManager[None]:
        """Release pages of the file in a block that reads it once."""
