"""Format of source locations."""

from __future__ import annotations

from pathlib import PurePath

from rlx.errors import Source


def short_place(source: Source) -> str:
    """Return `model.py:41 in encoder`."""
    return f"{PurePath(source.file).name}:{source.line} in {source.function}"
