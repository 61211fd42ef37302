"""The BLAS library that an artifact is linked with, as `rlx.aot(blas=...)` names it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rlx.codegen.aot.linking import is_path
from rlx.errors import InputError
from rlx.runtime.blas import Blas, find_blas, open_blas
from rlx.target import detect_target


@dataclass(frozen=True, slots=True)
class LinkedBlas:
    """A library by name, or by path with the prefix of its symbols."""

    library: str
    prefix: str
    has_lapack: bool

    def symbol(self, name: str) -> str:
        return self.prefix + name


def linked_blas(blas: str) -> LinkedBlas | None:
    """Return the library that `blas` says: "none", "auto", a linker's name or a path.

    "auto" is what programs in Python call. A library by name is one with the usual symbols,
    LAPACK's among them; a file is opened to see what it has.
    """
    if blas == "none":
        return None
    if blas == "auto":
        return _opened(find_blas(detect_target()))
    if not is_path(blas):
        return LinkedBlas(blas, "", has_lapack=True)
    if not Path(blas).is_file():
        raise InputError(
            f"blas= names {blas}, which is not a file",
            remedy="use 'none', 'auto', a library's name such as 'openblas', or the path of one",
        )
    return _opened(open_blas(Path(blas).resolve(), detect_target()))


def _opened(blas: Blas) -> LinkedBlas:
    return LinkedBlas(str(blas.library.path), blas.prefix, has_lapack=blas.has("dgesv_"))
