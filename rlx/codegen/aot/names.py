"""Names of an artifact in C: from whatever the graph calls things."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from rlx.codegen.c.names import c_identifier
from rlx.errors import UnsupportedError

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def artifact_name(name: str) -> str:
    """Return `name` if it may prefix C symbols and name files."""
    if not _IDENTIFIER.fullmatch(name) or c_identifier(name) != name:
        raise UnsupportedError(
            f"an artifact cannot be called {name!r}",
            remedy="pass name=: letters, digits and underscores, and no word of C",
        )
    return name


def distinct_identifiers(names: Iterable[str], reserved: Iterable[str] = ()) -> list[str]:
    """Return an identifier for each name; they differ from each other and from `reserved`, also
    in upper case, as constants are spelled."""
    taken = {name.upper() for name in reserved}
    found = []
    for name in names:
        plain = c_identifier(name)
        candidates = (f"{plain}_{count}" for count in itertools.count(2))
        identifier = next(c for c in itertools.chain([plain], candidates) if c.upper() not in taken)
        taken.add(identifier.upper())
        found.append(identifier)
    return found
