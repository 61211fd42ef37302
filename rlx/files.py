"""Opening of files by loaders: regular files within the size limit."""

from __future__ import annotations

import mmap
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.errors import FormatError
from rlx.limits import Budget

Bytes: TypeAlias = NDArray[np.uint8]
_RELEASE_SECONDS = 0.01
"""Between releases of a mapped file while much is read: some ten megabytes."""

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
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise FormatError(
            f"the path {str(path)!r} cannot name a file: {error.reason}", remedy="check the path"
        ) from error
    number = os.open(path, _FLAGS)
    mode = os.fstat(number).st_mode
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), None)
    if kind is not None:
        os.close(number)
        raise FormatError(f"{path} is {kind}, not a file", remedy=_REMEDY)
    return os.fdopen(number, "rb")


def map_file(path: str | os.PathLike[str]) -> Bytes:
    """Return a file's bytes, mapped into memory; errors as those of `read_file`."""
    with open_file(path) as file:
        empty = os.fstat(file.fileno()).st_size == 0
        return np.asarray(np.zeros(0, np.uint8) if empty else np.memmap(file, np.uint8, "r"))


def release_pages(mapped: Sequence[Bytes]) -> None:
    """Let the system take the pages of mapped files back; what is read again is mapped again."""
    for data in mapped:
        owner: Any = data.base
        if isinstance(owner, np.memmap) and hasattr(mmap, "MADV_DONTNEED"):
            owner._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


@contextmanager
def releasing_pages(mapped: Sequence[Bytes]) -> Iterator[None]:
    """Release pages again and again while something reads the files once, and at the end.

    What was read and what is made of it are never in memory as a whole both.
    """
    done = threading.Event()

    def release() -> None:
        while not done.wait(_RELEASE_SECONDS):
            release_pages(mapped)

    thread = threading.Thread(target=release, name="rlx-release", daemon=True)
    with suppress(RuntimeError):  # where no more threads start, all is released at the end
        thread.start()
    try:
        yield
    finally:
        done.set()
        release_pages(mapped)


_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_FLAGS |= getattr(os, "O_BINARY", 0)
