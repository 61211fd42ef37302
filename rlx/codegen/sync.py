"""The block of memory through which the threads of a pool meet: see `rlx.codegen.threaded`."""

from __future__ import annotations

LINE = 8
"""i64 words in a cache line."""
ARRIVED, PASSED, JOB, SEAT, DONE, EXTENTS = (LINE * i for i in range(6))
MAX_EXTENTS = 2 * LINE
WORKERS = EXTENTS + MAX_EXTENTS
"""The words of `sync`: threads at the barrier, barriers passed, jobs started, the job's seat,
workers that finished it, its extents; then, per thread, the last job it took part in."""


def sync_words(threads: int) -> int:
    """Return the size of the sync block of a pool of `threads` threads."""
    return WORKERS + LINE * threads
