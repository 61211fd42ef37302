"""Run a Python program as one rank, and say which rank it was if it is killed.

    mpirun -n 4 python -m rlx.distributed program.py [argument ...]

A killed process cannot say anything, and `mpirun` need not know: MPICH's names any of those that
it killed itself. This process waits for the one that is the rank; MPI has the latter only.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import FrameType

_RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
"""What launchers call the number of a rank."""
_PASSED_ON = (signal.SIGINT, signal.SIGTERM)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program that `arguments` name; return the status to exit with."""
    words = sys.argv[1:] if arguments is None else arguments
    rank = subprocess.Popen([sys.executable, *words], close_fds=False)  # MPI's own are among them

    def pass_on(number: int, _: FrameType | None) -> None:
        rank.send_signal(number)

    for each in _PASSED_ON:
        signal.signal(each, pass_on)
    status = rank.wait()
    if status >= 0:
        return status
    sys.stderr.write(f"{_place(os.environ, rank.pid)} was ended by {_name(-status)}\n")
    sys.stderr.flush()
    return 128 - status  # as a shell says it


def _place(environment: Mapping[str, str], process: int) -> str:
    known = [environment[name] for name in _RANK_VARIABLES if name in environment]
    return f"rank {known[0] if known else '?'}, process {process} on {socket.gethostname()},"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


if __name__ == "__main__":
    sys.exit(main())
