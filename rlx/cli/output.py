"""What commands print: text with names from files, which may hold controls of terminals."""

from __future__ import annotations

import sys

from rlx.errors import printable


def show(text: object, end: str = "\n", *, to_errors: bool = False, flush: bool = False) -> None:
    """Print `text` on the output, or on the error output; controls are spelled out."""
    stream = sys.stderr if to_errors else sys.stdout
    print(printable(str(text)), end=end, file=stream, flush=flush)
