"""C that users bring: the text that defines the external functions of their own ops."""

from __future__ import annotations

from collections.abc import Iterable

from rlx.errors import GraphError

SOURCES: dict[str, str] = {}
"""Function name -> the C text that defines it."""


def add_source(symbol: str, text: str) -> None:
    """Remember the C text that defines the function `symbol`; a second one must be equal."""
    if SOURCES.setdefault(symbol, text) != text:
        raise GraphError(f"the C function {symbol} has another definition already")


def is_source(symbol: str) -> bool:
    """True for a function that a user defined in C."""
    return symbol in SOURCES


def sources_of(symbols: Iterable[str]) -> str:
    """Return the C text that defines those of `symbols` that users brought."""
    return "".join(f"\n{SOURCES[symbol].strip()}\n" for symbol in symbols if symbol in SOURCES)
