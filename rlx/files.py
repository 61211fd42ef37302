"""Opening of files by loaders: regular files within the size limit."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

from rlx.errors import FormatError
from rlx.limits import Budget

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)
_REMEDY = "give the path of a regular file; write what comes from a pipe to one first"


def read_file(path: str | os.PathLike[str], budget: Budget) -> bytes:
    """Return the content of a regular file; LimitError if it is larger than the budget.

    FormatError for a directory, pipe, device or socket, none of which is waited for; OSError
    where the system refuses.
    """
    with open_file(path) as file:
        budget.charge_bytes(os.fstat(file.fileno()).st_size)
        return file.read()


def open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading; errors as those of `read_file`."""
    if "\0" in os.fspath(path):
        raise FormatError(f"the path {str(path)!r} has a NUL character", remedy="check the path")
    number = os.open(path, _FLAGS)
    mode = os.fstat(number).st_mode
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), None)
    if kind is not None:
        os.close(number)
        raise FormatError(f"{path} is {kind}, not a file", remedy=_REMEDY)
    return os.fdopen(number, "rb")


_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_FLAGS |= getattr(os, "O_BINARY", 0)
