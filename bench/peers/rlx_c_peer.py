"""rlx through the C compiler."""

from __future__ import annotations

from bench.peers import rlx_peer
from bench.peers.session import Session
from bench.routine import Routine


def prepare_program(program: Routine, threads: int) -> Session:
    return rlx_peer.prepare_program(program, threads, backend="c")
