"""C that users bring: the text that defines the external functions of their own ops."""

from __future__ import annotations

from collections.abc import Sequence

from rlx.codegen.c.collectives import collectives_text
from rlx.codegen.mpi_names import is_collective
from rlx.errors import GraphError

SOURCES: dict[str, str] = {}
"""Function name -> the C text that defines it."""


_HEADING = "// The functions of the program's own ops, as their author wrote them."


def add_source(symbol: str, text: str) -> None:
    """Remember the C text that defines the function `symbol`; a second one must be equal."""
    if SOURCES.setdefault(symbol, text) != text:
        raise GraphError(
            f"the C function {symbol} has another definition already",
            remedy="give one of the two functions another name",
        )


def is_source(symbol: str) -> bool:
    """True for a function that comes with its text: a user's, or one over MPI."""
    return symbol in SOURCES or is_collective(symbol)


def sources_of(symbols: Sequence[str]) -> str:
    """Return the C text that defines those of `symbols` that come with it."""
    texts = [SOURCES[symbol] for symbol in symbols if symbol in SOURCES]
    heading = [_HEADING] if texts else []
    parts = (*heading, *texts, collectives_text(symbols))
    return "".join(f"\n{text.strip()}\n" for text in parts if text)
