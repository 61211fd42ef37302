"""A rank that fails, ends or goes astray stops all of them, and the terminal says which and why."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import pytest

from tests.distributed.faults import FAULTS
from tests.distributed.test_mpi import python

SECONDS = 60
"""A hang is one that lasts longer."""

STOPPED = {
    "raises": ("rank [13] of {}, process", "ValueError: no luck"),
    "sys_exit": ("I leave", "the program of this rank has ended", "ended after exchange 3"),
    "returns_early": ("rank [13] ended after exchange 3", "rank 0 runs compiled code, exchange 4"),
    "is_killed": ("EXIT CODE: 9",),
    "catches_a_wrong_argument": (
        "rank [13] of {}, process", "InputError: function is given 2 arguments",
        "rank 0 runs compiled code, exchange 5",
    ),
    "catches_an_error_of_a_run": ("rank [13] of {}, process", "SingularMatrixError"),
    "calls_another_program": ("programs are compared", "rank 0 runs compiled code"),
    "gathers_alone": (
        "on rank 0 programs are compared, on rank 1 an array is gathered", "rank 0 of {}, process",
    ),
}  # fmt: skip
WENT_ON = {
    "catches_an_error_where_nothing_is_exchanged": "went on",
    "other_programs_are_caught_by_all": "went on",
    "ends_later": "ended",
}


def test_every_fault_is_tested() -> None:
    assert {*STOPPED, *WENT_ON} == set(FAULTS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "ranks"),
    [*((fault, 2) for fault in STOPPED),
     *((fault, 4) for fault in ("raises", "returns_early", "catches_a_wrong_argument"))],
)  # fmt: skip
def test_what_one_rank_does_alone_stops_all(fault: str, ranks: int) -> None:
    done = python(ranks, "-m", "tests.distributed.faults", fault, seconds=SECONDS)
    assert done.returncode != 0
    for text in STOPPED[fault]:
        assert re.search(text.format(ranks), done.stdout + done.stderr)


@pytest.mark.slow
def test_a_killed_rank_ends_all_at_once() -> None:
    done = python(4, "-m", "tests.distributed.faults", "is_killed", seconds=SECONDS)
    assert time.time() - when_killed(done.stdout) < SECONDS / 2  # `python` waits twice as long


def when_killed(stdout: str) -> float:
    (found,) = re.findall(r"killed at (\S+)", stdout)
    return float(found)


@pytest.mark.slow
def test_a_killed_rank_is_named_by_the_process_that_waits_for_it() -> None:
    words = ("-m", "rlx.distributed", "-m", "tests.distributed.faults", "is_killed")
    done = python(4, *words, seconds=SECONDS)
    assert done.returncode != 0
    assert time.time() - when_killed(done.stdout) < SECONDS / 2
    (named,) = re.findall(r"^(.*) was ended by (.*)$", done.stderr, re.MULTILINE)
    assert re.fullmatch(r"rank 3, process \d+ on \S+,", named[0])
    assert named[1] == "SIGKILL"


@pytest.mark.parametrize(("program", "status"), [("print('ran')", 0), ("raise SystemExit(3)", 3)])
def test_a_rank_that_is_waited_for_ends_with_its_own_status(program: str, status: int) -> None:
    words = [sys.executable, "-m", "rlx.distributed", "-c", program]
    assert subprocess.run(words, timeout=SECONDS, check=False).returncode == status


@pytest.mark.slow
@pytest.mark.parametrize("fault", WENT_ON)
def test_errors_that_all_ranks_raise_stop_none(fault: str) -> None:
    done = python(2, "-m", "tests.distributed.faults", fault, seconds=SECONDS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(WENT_ON[fault]) == 2, done.stdout + done.stderr
