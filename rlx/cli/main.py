"""The command `rlx`: parse, dispatch, and turn errors into one readable block.

Exit codes: 0 all well, 1 an error of the program or the machine, 2 wrong usage.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from argparse import Namespace
from collections.abc import Sequence

from rlx.cli.output import show
from rlx.cli.parser import make_parser
from rlx.errors import RlxError
from rlx.limits import LoadLimits, default_limits

OK, FAILED = 0, 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    try:
        arguments = make_parser().parse_args(argv)
    except SystemExit as stop:  # how argparse ends after --help and after wrong usage
        return int(stop.code or 0)
    try:
        command = importlib.import_module(f"rlx.cli.{arguments.command}_command")
        with default_limits(_limits(arguments)):
            return int(command.execute(arguments))
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except (RlxError, OSError) as error:
        if arguments.traceback:
            traceback.print_exc()
        else:
            show(error_block(error), to_errors=True)
        return FAILED
    except KeyboardInterrupt:
        return 130


def _limits(arguments: Namespace) -> LoadLimits:
    """Return the limits for files that `--limit` gives."""
    return LoadLimits(**{limit.name: limit.value for limit in getattr(arguments, "limit", ())})


def error_block(error: RlxError | OSError) -> str:
    """Return an error as its kind and its own words, indented below."""
    if isinstance(error, RlxError):
        return f"rlx: {type(error).__name__}\n" + _indented(str(error))
    place = f"{error.filename}: " if error.filename else ""
    return f"rlx: cannot read or write\n  {place}{error.strerror or error}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
