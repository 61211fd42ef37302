"""Compiler flags for the MPI library of this environment.

`mpicc` says: the one next to this Python (a wheel's), or on the PATH; `RLX_MPICC` names another.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.errors import ToolchainError
from rlx.homes import later
from rlx.runtime.toolchain import run_tool

if TYPE_CHECKING:
    import shlex
    import shutil
else:
    shlex, shutil = later("shlex", "shutil")


def mpi_flags() -> tuple[str, ...]:
    """Return the compiler flags for a library that calls MPI, or raise ToolchainError."""
    return _flags(find_mpicc())


def find_mpicc() -> str:
    """Return the command that compiles MPI programs, or raise ToolchainError."""
    neighbor = Path(sys.executable).with_name("mpicc")
    found = os.environ.get("RLX_MPICC") or (str(neighbor) if neighbor.exists() else None)
    command = found or shutil.which("mpicc")
    if command is None:
        raise ToolchainError(
            "no mpicc was found, which compiles the collectives of a program",
            remedy="install MPI, with pip install rlx[mpi] for example, or set RLX_MPICC",
        )
    return command


@functools.cache
def _flags(mpicc: str) -> tuple[str, ...]:
    """Ask as MPICH has it, then as Open MPI does; the compiler itself is the first word."""
    for option in ("-show", "--showme"):
        try:
            flags = shlex.split(run_tool([mpicc, option]))[1:]
        except ToolchainError as error:
            refused = error
        else:
            # The library counts although nothing before it on the command line needs it.
            return ("-Wl,--no-as-needed", *flags)
    raise ToolchainError(
        f"{mpicc} does not print its flags: {refused.message}",
        remedy="set RLX_MPICC to the mpicc of MPICH or Open MPI",
    )
