"""The BLAS library that an artifact is linked with, as `rlx.aot(blas=...)` names it."""

from __future__ import annotations

from rlx.codegen.aot.linking import is_path
from rlx.dataclass import dataclass
from rlx.runtime.blas import OF_THE_ENVIRONMENT, find_blas, takes_products
from rlx.runtime.blas_files import require_name
from rlx.target import detect_target


@dataclass(frozen=True, slots=True)
class LinkedBlas:
    """A library by name, or by path with the prefix of its symbols."""

    library: str
    prefix: str
    has_lapack: bool
    takes_products: bool
    """True if large products are left to it, not only what it is faster at."""

    def symbol(self, name: str) -> str:
        return self.prefix + name


def linked_blas(blas: str) -> LinkedBlas | None:
    """Return the library that `blas` says: "none", "auto", "system", a linker's name or a path.

    "auto" and "system" are what programs in Python call. A library by name is one with the usual
    symbols, LAPACK's among them; a file is opened to see what it has.
    """
    if blas == "none":
        return None
    require_name(blas)
    if blas not in OF_THE_ENVIRONMENT and not is_path(blas):
        return LinkedBlas(blas, "", has_lapack=True, takes_products=True)
    found = find_blas(detect_target(), blas)
    return LinkedBlas(
        str(found.library.path),
        found.prefix,
        has_lapack=found.has_lapack,
        takes_products=takes_products(blas),
    )
