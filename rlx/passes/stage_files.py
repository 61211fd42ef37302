"""Files of the data between stages, in the directory `RLX_DUMP`."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

_warned: set[Path] = set()


def dump_directory() -> Path | None:
    """Return where stages are written, if they are."""
    given = os.environ.get("RLX_DUMP")
    return Path(given) if given else None


def write_stage(directory: Path, name: str, text: str) -> None:
    """Write one stage; where that fails go on without, and say so once.

    Halves of surrogate pairs, which names may have, are written as escapes.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        if directory not in _warned:
            _warned.add(directory)
            message = f"RLX_DUMP: stages are not written in {directory}: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
