"""The libraries of an artifact, compiled again from its C, edited or not, in place.

`Executable.rebuild` is the same for programs that run from Python.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlx.codegen.aot.names import artifact_name
from rlx.codegen.aot.options import PORTABLE_FLAGS, SMALL_FLAGS
from rlx.errors import FormatError, InputError
from rlx.runtime.aot import extra_flags, load_manifest
from rlx.runtime.cross import find_compiler

_FIELDS: Mapping[str, Any] = {
    "name": str, "target": str, "threads": str | None, "flags": list, "libraries": list,
}  # fmt: skip


def rebuild_artifact(
    directory: str | os.PathLike[str], *, cc: str | None = None
) -> tuple[Path | None, Path]:
    """Compile the C in an artifact's directory; return its shared library, if any, and archive."""
    place = Path(directory)
    manifest = load_manifest(_manifest_path(place))
    _require_texts(manifest)
    name, libraries = artifact_name(manifest["name"]), tuple(manifest["libraries"])
    flags = tuple(manifest["flags"])
    _require_own_words(flags, libraries)
    extra = extra_flags(manifest["threads"], libraries)
    compiler = find_compiler(manifest["target"], cc)
    return compiler.build(place, name, extra, libraries, usual=flags)


def _require_texts(manifest: Mapping[str, Any]) -> None:
    """Raise a FormatError for a field that is not what `rlx.aot` writes: text, or a list of it."""
    for key, kind in _FIELDS.items():
        found = manifest.get(key)
        texts = found if isinstance(found, list) else [found or ""]
        if not isinstance(found, kind) or not all(isinstance(text, str) for text in texts):
            raise FormatError(
                f"the manifest is damaged: its {key} is {str(found)[:200]}",
                remedy="copy it again, or export the program again",
            )


def _require_own_words(flags: Sequence[str], libraries: Sequence[str]) -> None:
    """Raise if a manifest gives the compiler options that `rlx.aot` never writes: some run code."""
    options = [word for word in libraries if str(word).startswith("-")]
    unknown = [*options, *(f for f in flags if f not in (*PORTABLE_FLAGS, *SMALL_FLAGS))]
    if unknown:
        raise FormatError(
            f"the manifest passes {unknown[0]!r} to the compiler, which no artifact of rlx does",
            remedy="export the program again",
        )


def _manifest_path(directory: Path) -> Path:
    """Return the one manifest of a directory: the .json file next to a .c of its name."""
    if not directory.is_dir():
        raise InputError(
            f"there is no directory {directory}",
            remedy="give the directory that rlx.aot wrote",
        )
    found = [path for path in sorted(directory.glob("*.json")) if path.with_suffix(".c").is_file()]
    if len(found) != 1:
        raise FormatError(
            f"{directory} holds {len(found)} artifacts; it must hold one, as NAME.c and NAME.json",
            remedy="name a directory that `rlx compile` wrote",
        )
    return found[0]
