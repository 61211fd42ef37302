"""An exception out of a signal handler, at each place where one can come, leaves no lock taken.

Python raises it at the start of a function or after a call. A profiler is called in the same
places, so it replaces the signal: the first trial is interrupted at the first place, the
second at the second, until one is done before its turn comes.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.runtime.test_hangs import run_alone

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")

HEAD = """
import contextlib, os, sys, threading, time
from rlx import locks, signal_safe_lock

PLACES = {each.__file__ for each in (locks, signal_safe_lock, threading, contextlib)}
sys.unraisablehook = lambda _: None  # exceptions in a fork's hooks are only reported

class Interrupt(BaseException):
    pass

def raised():
    raise Interrupt

def interrupted_at(place, action, handler):
    "Run `action`, `handler` at its `place`-th place; return whether it has so many."
    met = 0
    locks._locks.clear()  # as in a thread that enters its first block
    def interrupt(frame, event, _):
        nonlocal met
        if event == "return" and frame.f_code.co_name == "__enter__":
            return  # Python handles no signals there
        if event != "c_call" and frame.f_code.co_filename in PLACES:
            met += 1
            if met == place:
                sys.setprofile(None)
                handler()
    with contextlib.suppress(Interrupt):
        sys.setprofile(interrupt)
        try:
            action()
        finally:
            sys.setprofile(None)
    return met >= place

def enter():
    with locks.unforkable():
        pass

def fork():
    child = os.fork()
    if child == 0:
        sys.setprofile(None)
        enter()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

def others_go_on(place):
    others = [threading.Thread(target=each, daemon=True) for each in (enter, fork)]
    for other in others:
        other.start()
        other.join(20)
        assert not other.is_alive(), f"after place {place} another thread waits for ever"

def trials(action, handler=raised):
    place = 1
    while interrupted_at(place, action, handler):
        others_go_on(place)
        place += 1
    return place - 1
"""


@pytest.mark.parametrize(
    ("action", "fewest"), [("enter", 6), ("lambda: (enter(), enter())", 8), ("fork", 20)]
)
def test_locks_are_free_wherever_an_interrupt_comes(
    action: str, fewest: int, tmp_path: Path
) -> None:
    printed = run_alone(f"{HEAD}\nprint(trials({action}))", tmp_path)
    assert int(printed) >= fewest


@pytest.mark.parametrize("handler", ["enter", "fork"])
@pytest.mark.parametrize(("action", "fewest"), [("enter", 6), ("fork", 20)])
def test_a_handler_may_enter_blocks_and_fork_wherever_it_comes(
    action: str, handler: str, fewest: int, tmp_path: Path
) -> None:
    printed = run_alone(f"{HEAD}\nprint(trials({action}, {handler}))", tmp_path)
    assert int(printed) >= fewest


def test_an_interrupt_within_a_block_within_a_block_leaves_both(tmp_path: Path) -> None:
    program = """
def nested():
    with locks.unforkable():
        enter()
print(trials(nested))
"""
    assert int(run_alone(HEAD + program, tmp_path)) >= 8
