"""Programs in which one rank does what the others do not; none of them may hang.

mpirun -n 2 python -m tests.distributed.faults sys_exit
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx.distributed import Mesh, P, initialize, shard_map
from rlx.errors import CommunicationError, InputError

Step = Callable[..., Any]
X = np.ones((4, 3), np.float32)


def raises(step: Step, odd: bool) -> None:
    if odd:
        raise ValueError("no luck")
    step(X)


def sys_exit(step: Step, odd: bool) -> None:
    if odd:
        sys.exit("I leave")
    step(X)


def returns_early(step: Step, odd: bool) -> None:
    if not odd:
        step(X)


def is_killed(step: Step, odd: bool) -> None:
    """Rank 1 of two, or rank 3 of four, dies; the others are, or come to be, in a collective."""
    if odd and initialize().rank == initialize().size - 1:
        print(f"killed at {time.time()}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    step(X)


def catches_a_wrong_argument(step: Step, odd: bool) -> None:
    for number in range(3):
        with contextlib.suppress(InputError):
            step(X, X) if odd and number == 1 else step(X)


def catches_an_error_of_a_run(_: Step, odd: bool) -> None:
    step = mapped(lambda a: rlx.distributed.psum(rnp.linalg.solve(a, a), "ranks"))
    for number in range(3):
        with contextlib.suppress(InputError):
            step(np.eye(3) * (not (odd and number == 1)))


def catches_an_error_where_nothing_is_exchanged(step: Step, odd: bool) -> None:
    alone = mapped(lambda a: rnp.linalg.solve(a, a))
    with contextlib.suppress(InputError):
        alone(np.eye(3) * (not odd))
    step(X)
    print("went on")


def calls_another_program(step: Step, odd: bool) -> None:
    other = mapped(lambda x: rlx.distributed.all_gather(x, "ranks"))
    other(X)
    step(X)
    for _ in range(2):
        (other if odd else step)(X)


def gathers_alone(step: Step, odd: bool) -> None:
    parts = mapped(lambda x: 2 * x, P("ranks"))(X)
    if odd:
        parts.gather()
    step(X)


def other_programs_are_caught_by_all(step: Step, odd: bool) -> None:
    with contextlib.suppress(CommunicationError):
        mapped(lambda x: x * (2.0 + odd))(X)
        raise AssertionError("the fault was not noticed")
    step(X)
    print("went on")


def ends_later(step: Step, odd: bool) -> None:
    step(X)
    if odd:
        time.sleep(1.5)
    print("ended")


FAULTS: dict[str, Callable[[Step, bool], None]] = {
    fault.__name__: fault
    for fault in (
        raises, sys_exit, returns_early, is_killed, catches_a_wrong_argument,
        catches_an_error_of_a_run, catches_an_error_where_nothing_is_exchanged,
        calls_another_program, gathers_alone, other_programs_are_caught_by_all, ends_later,
    )
}  # fmt: skip


def mapped(fun: Step, specs: P | None = None) -> Step:
    ranks = Mesh({"ranks": initialize().size})
    return shard_map(fun, ranks, P("ranks") if specs else P(), specs or P())


if __name__ == "__main__":
    world = initialize()
    summed = mapped(lambda x: rlx.distributed.psum(x, "ranks"))
    summed(X)
    FAULTS[sys.argv[1]](summed, world.rank % 2 == 1)
