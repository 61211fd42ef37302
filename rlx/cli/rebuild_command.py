"""`rlx rebuild`: compile edited C of an artifact again, in place."""

from __future__ import annotations

from argparse import Namespace

from rlx.cli.output import show
from rlx.cli.progress import progress
from rlx.ir.inspect import bytes_text
from rlx.runtime.rebuild import rebuild_artifact


def execute(arguments: Namespace) -> int:
    with progress(f"compiling {arguments.directory}"):
        built = rebuild_artifact(arguments.directory, cc=arguments.cc)
    for path in filter(None, built):
        show(f"{path}  {bytes_text(path.stat().st_size)}")
    return 0
