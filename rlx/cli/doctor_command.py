"""`rlx doctor`: what was found on this machine, what is missing, how to get it."""

from __future__ import annotations

from argparse import Namespace

from rlx.cli.output import show
from rlx.cli.progress import progress
from rlx.report.doctor import examine


def execute(_: Namespace) -> int:
    with progress("examining this machine"):
        checkup = examine()
    show(checkup)
    return 0 if checkup.is_able else 1
