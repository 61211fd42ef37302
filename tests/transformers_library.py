"""The package transformers, importable also where the extension of torchvision is not."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

_libraries: list[Any] = []
"""What defines operators of PyTorch: they are gone with it."""


def define_operators_of_torchvision(torch: Any) -> None:
    """Define the operators whose names torchvision needs when it is imported.

    Its wheel for CUDA has an extension that PyTorch's CPU build cannot load. No model of the tests
    calls these operators.
    """
    if torch.version.cuda is not None or _libraries:
        return
    _libraries.append(torch.library.Library("torchvision", "FRAGMENT"))
    for name in ("nms", "qnms"):
        with contextlib.suppress(RuntimeError):
            _libraries[0].define(
                f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            )


def import_transformers() -> Any:
    """Return transformers; where it or PyTorch is missing, skip the test."""
    define_operators_of_torchvision(pytest.importorskip("torch"))
    return pytest.importorskip("transformers")
