"""The native entry of a compiled program with the memory of its arguments, for callers in C."""

from __future__ import annotations

from dataclasses import dataclass

from rlx.errors import UnsupportedError
from rlx.runtime.executable import Executable
from rlx.runtime.result_memory import address_of
from rlx.runtime.signature import Array


@dataclass(frozen=True, slots=True)
class Region:
    """Memory of an input or output in the arena."""

    address: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RawCall:
    """`int run(uint8_t *arena)`: inputs are written before it, outputs read after it."""

    run: int
    arena: int
    inputs: tuple[Region, ...]
    outputs: tuple[Region, ...]
    owner: Executable
    """Keeps code and arena alive."""


def raw_call(executable: Executable) -> RawCall:
    """Return the entry of a program whose extents are all known, set up."""
    if executable._fixed is None:
        raise UnsupportedError(
            f"{executable.signature.name} has symbolic extents", remedy="bind them to numbers"
        )
    if executable.residents.needs_setup:
        executable._setup()
    run = executable.address
    views = executable._fixed
    return RawCall(
        run,
        executable.arena.address,
        tuple(map(_region, views.input_views)),
        tuple(map(_region, views.output_views)),
        executable,
    )


def _region(view: Array) -> Region:
    return Region(address_of(view), view.nbytes)
