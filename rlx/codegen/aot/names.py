"""C identifiers of an artifact, made from arbitrary names of the graph."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from rlx.codegen.c.names import c_identifier
from rlx.codegen.text import Emitted, identifier
from rlx.errors import UnsupportedError

_FUNCTION_LIST = """
    call fault_string get_info init load_weights parallel_for run run_parallel setup status_string
    task
"""
"""Names of the functions and types of every artifact, after its prefix."""
_USED_LIST = """
    arena base status fault weights constants data bytes stack i check_run run_phase weights_of
    constant_data run_task run_parallel_for
"""
"""Names that code uses where names of tensors are visible, and constants of the whole artifact."""
_USED_IN_RUNS_LIST = """
    part parts frame used context parallel_for run_all in_order on_all_threads thread_count
"""
"""The same where names of extents are visible."""
_TENSOR_CONSTANTS = ("bytes", "elements", "offset")
_ARTIFACT_LIST = """
    all at check clean constants_at edit_cache help install preinstall rebuild_cache rlx rlx_info
    run status weights_at
"""
"""What an artifact cannot be called: its symbols, files or targets of CMake would be others'."""
_TYPE_PREFIX = re.compile(r"(U?INT(_(LEAST|FAST))?\d+|U?INT(MAX|PTR)|SIZE|PTRDIFF|WCHAR|WINT)")
"""What constants of the C library start with, as `INT8_MAX`."""


def artifact_name(name: str) -> Emitted:
    """Return `name` if it may prefix C symbols and name files."""
    if usable_artifact_name(name) != name:
        raise UnsupportedError(
            f"an artifact cannot be called {name!r}",
            remedy="pass name=: letters, digits and underscores, no reserved word of C or rlx",
        )
    return identifier(name)


def usable_artifact_name(name: str) -> str:
    """Return `name` as it may prefix C symbols and name files: `a b` is `a_b`, `int` is `int_`."""
    plain = c_identifier(name)
    is_taken = plain.lower() in _ARTIFACT_LIST.split() or _TYPE_PREFIX.fullmatch(plain.upper())
    return f"{plain}_" if is_taken else plain


def names_for_tensors(name: str) -> tuple[str, ...]:
    """Return names that the code of the artifact `name` uses where its tensors are visible."""
    return (*_USED_LIST.split(), *(f"{name}_{function}" for function in _FUNCTION_LIST.split()))


def names_for_extents(name: str) -> tuple[str, ...]:
    """Return names that the code of the artifact `name` uses where its extents are visible."""
    return (*names_for_tensors(name), *_USED_IN_RUNS_LIST.split())


def names_of_extents(extents: Sequence[str]) -> tuple[str, ...]:
    """Return names that tensors cannot have besides `extents`, which have constants of their own.

    `MLP_MAX_N_BYTES` would be of an extent `n_bytes` and of a tensor `max_n`.
    """
    constants = [f"{end}_{extent}" for extent in extents for end in ("min", "max")]
    stems = (c.removesuffix(f"_{kind}") for c in constants for kind in _TENSOR_CONSTANTS)
    return (*extents, *stems)


def distinct_identifiers(
    names: Iterable[str], reserved: Iterable[str] = (), *, artifact: str | None = None
) -> list[Emitted]:
    """Return an identifier for each name; they differ from each other and from `reserved`, also
    in upper case, as constants are spelled, and from functions and constants of `artifact`."""
    taken = {name.upper() for name in reserved}
    counts: dict[str, int] = {}
    found = []
    for name in names:
        plain = c_identifier(name)
        if artifact is not None and _is_of_artifact(plain, artifact):
            plain = f"of_{plain}"
        numbers = itertools.count(counts.get(plain, 2))
        candidates = ((f"{plain}_{count}", count) for count in numbers)
        first = itertools.chain([(plain, 1)], candidates)
        spelled, count = next(c for c in first if c[0].upper() not in taken)
        counts[plain] = count + 1 if count > 1 else 2
        taken.add(spelled.upper())
        found.append(identifier(spelled))
    return found


def _is_of_artifact(name: str, artifact: str) -> bool:
    """True for what may be an address or a constant of an artifact: `mlp_arena_x`, `MLP_OK`."""
    is_constant = name.isupper() and name.startswith(f"{artifact.upper()}_")
    return is_constant or name.startswith(f"{artifact}_arena_")
