"""Inspection functions of the array API standard: version, dtypes, device."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.ir.dtype import DType
from rlx.numpy.devices import DEVICE, require_device
from rlx.numpy.dtypes import isdtype

__array_api_version__ = "2024.12"


class NamespaceInfo:
    """What the namespace can do, as `__array_namespace_info__` returns it."""

    def capabilities(self) -> dict[str, Any]:
        """Boolean indexing and shapes that depend on data are there outside `jit`."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        return DEVICE

    def devices(self) -> list[str]:
        return [DEVICE]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """The types of what no type is named for."""
        require_device(device)
        kinds = {"real floating": DType.F64, "complex floating": DType.C128}
        kinds |= {"integral": DType.I64, "indexing": DType.I64}
        return {kind: dtype.numpy for kind, dtype in kinds.items()}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        """The standard's types that are there, by name, of a `kind` or of all."""
        require_device(device)
        standard = [dtype.numpy for dtype in DType if not dtype.is_low_precision]
        return {d.name: d for d in standard if kind is None or isdtype(d, kind)}


def __array_namespace_info__() -> NamespaceInfo:  # noqa: N807  the standard's name
    """What this namespace can do."""
    return NamespaceInfo()
