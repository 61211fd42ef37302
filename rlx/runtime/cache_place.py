"""Choose the directory of the cache: permissions, and the fallback.

A cache holds machine code that will run, so it belongs to this user, who alone may write it. Where
there is no such directory, work goes on in a temporary one, for this process, and a warning says
so once.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import stat
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.errors import ToolchainError
from rlx.homes import later

if TYPE_CHECKING:
    import shutil
    import tempfile
else:
    shutil, tempfile = later("shutil", "tempfile")

PRIVATE_DIRECTORY, PRIVATE_FILE = 0o700, 0o600
MAKING = ".making-"
"""What folders of entries that are being made are called."""
_STALE_SECONDS = 3600
"""No compiler takes so long: a folder older than this was left by a process that was killed."""
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_given_up: dict[Path, str] = {}


def cache_directory() -> Path:
    """Return the directory of this environment; it need not exist."""
    named = os.environ.get("RLX_CACHE_DIR")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else _home() / ".cache") / "rlx"


def _home() -> Path:
    """Return the home directory; where nothing says which, one of this user's among the temporary.

    Another user may have made that one first: then it is refused as any other.
    """
    try:
        return Path.home()
    except RuntimeError:
        return Path(tempfile.gettempdir()) / f"home-{user()}"


def user() -> int:
    """Return this user's number, or 0 where users have none."""
    return os.getuid() if hasattr(os, "getuid") else 0


def is_ours(path: Path) -> bool:
    """True if `path` belongs to this user, or where nothing belongs to anyone."""
    return not hasattr(os, "getuid") or path.stat().st_uid == os.getuid()


def refusal(directory: Path) -> str:
    """Return why an existing directory must not be used, or nothing; closes it to others."""
    return _refusal(directory, user())


@functools.cache
def _refusal(directory: Path, _user: int) -> str:
    try:
        status = directory.stat()
    except OSError:
        return ""  # there is none yet, or it cannot be reached: writing will fail
    if not is_ours(directory):
        return "it belongs to another user, and it would hold code that runs"
    if os.name != "posix" or not status.st_mode & _OTHERS_WRITE:
        return ""
    if status.st_mode & stat.S_ISVTX:
        return "it is open to everybody, and it would hold code that runs"
    with contextlib.suppress(OSError):
        directory.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS_WRITE)
    return ""


def make_private(directory: Path) -> None:
    """Make a directory that this user alone can enter, and those above it as usual."""
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)


@functools.cache
def sweep(directory: Path) -> None:
    """Remove what killed processes left half made; looked at once per process."""
    for folder in directory.glob(f"??/{MAKING}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)


def give_up(directory: Path, reason: str) -> Path:
    """Return the directory that replaces one that cannot be used; warn the first time."""
    if directory not in _given_up:
        _given_up[directory] = reason
        warnings.warn(
            f"rlx goes on without its cache {directory}: {reason}; what it compiles is lost when "
            "the process ends. Name another directory in RLX_CACHE_DIR.",
            RuntimeWarning,
            stacklevel=2,
        )
    return _refuge(os.getpid())


def has_given_up(directory: Path) -> bool:
    """True if a warning said that `directory` is not used any more."""
    return directory in _given_up


@functools.cache
def _refuge(process: int) -> Path:
    """Return a temporary directory of this process's own, removed at its end."""
    try:
        directory = Path(tempfile.mkdtemp(prefix="rlx-"))
    except OSError as error:
        raise ToolchainError(
            f"there is nowhere to write compiled code: {error}",
            remedy="name a directory in RLX_CACHE_DIR or TMPDIR that can be written",
        ) from error
    atexit.register(_remove, directory, process)
    return directory


def _remove(directory: Path, process: int) -> None:
    if os.getpid() == process:  # a forked child leaves its parent's alone
        shutil.rmtree(directory, ignore_errors=True)
