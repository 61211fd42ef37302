"""Lines of users' programs: the frames outside rlx that nodes and errors are attributed to."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from rlx.errors import Source

_PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep
_FROZEN = "<frozen "
"""Python's own machinery, which runs modules: above it is no line of a user's program."""


class _Packaged(dict[str, bool]):
    """Whether a file is of this package: asked for each frame of each node's stack."""

    def __missing__(self, file: str) -> bool:
        return self.setdefault(file, file.startswith(_PACKAGE))


_packaged = _Packaged()


def is_ours(frame: FrameType) -> bool:
    """True for a frame of this package, False for one of the user's."""
    return _packaged[frame.f_code.co_filename]


class _Attributed(threading.local):
    """The source line of what an importer interprets in this thread."""

    source: Source | None = None


_attributed = _Attributed()


@contextmanager
def attributed_to(source: Source | None) -> Iterator[None]:
    """Give nodes made inside, and errors raised there, the source line `source`, if there is one.

    For front ends that read programs which another library traced, with their lines.
    """
    before = _attributed.source
    _attributed.source = source or before
    try:
        yield
    finally:
        _attributed.source = before


def calling_source() -> Source | None:
    """Return the innermost frame outside rlx: the user's line, if there is one."""
    if _attributed.source is not None:
        return _attributed.source
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _packaged[frame.f_code.co_filename]:
        frame = frame.f_back
    if frame is None or frame.f_code.co_filename.startswith(_FROZEN):
        return None
    return Source(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
