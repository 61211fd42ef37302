"""Arguments of the linker for a library: its name, or the path of its file."""

from __future__ import annotations

from collections.abc import Iterable

MPI_LIBRARY = "mpi"
"""What the linker calls the library of the collectives; `mpicc` links it by itself."""


def link_words(libraries: Iterable[str]) -> list[str]:
    """Return the arguments that link `libraries`, such as `-lm` and `/opt/lib/libblas.so`."""
    return [each if is_path(each) else f"-l{each}" for each in libraries]


def is_path(library: str) -> bool:
    return "/" in library
