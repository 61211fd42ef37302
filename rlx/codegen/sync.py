"""The block of memory that the threads of a pool share: see `rlx.codegen.pool`."""

from __future__ import annotations

LINE = 8
"""i64 words in a cache line."""

EPOCH, JOINED = 0, 1
"""Regions opened so far; workers that joined the open one, plus `CLOSED` once it is closed."""
TASK, ARENA, MOVES, REGION, PARTS, ACTIVE, THREADS = (LINE + i for i in range(7))
"""The region: the task's address, what it takes, its parts per thread, how many threads may
join; then the threads of the run."""
LEFT = 2 * LINE
"""Workers that left the region, plus `WAITING` while the caller sleeps until all have."""
SLEEPING, WAKE, WAKE_TIME, LATENCY, LAST_LOOK, STOP, STARTED, CLOCK = (
    3 * LINE + i for i in range(8)
)
"""Workers asleep that were not woken yet; times that they were woken; when that was last, and how
long it took; when a caller last found some asleep; 1 once they must end; workers started; the
number of the system's monotonic clock. Times are in nanoseconds."""

AVOID, PENALTY, CREDIT, CPU_CLOCK, CALLER_CPU = (4 * LINE + i for i in range(5))
"""Until when the caller opens no regions, or 0; how long that was; what workers have gained, less
what the caller has waited for workers that were interrupted; the number of the clock of a thread's
processor time; the processor on which the caller opened the last region."""

MUTEX, WOKEN, DONE = (5 * LINE + 2 * LINE * i for i in range(3))
"""A `pthread_mutex_t`, and `pthread_cond_t` of the workers and of the caller: 128 bytes each."""

EXTENTS = DONE + 2 * LINE
MAX_EXTENTS = 2 * LINE
"""The extents of the run."""

ALLOWED = EXTENTS + MAX_EXTENTS
CPU_WORDS = 16
"""A bit for each processor that workers may use."""

STEPS = ALLOWED + CPU_WORDS
MAX_DEPTH = LINE
"""The current steps of the loops around the region, by depth."""

CLAIMED = STEPS + MAX_DEPTH
"""A line per thread: how many of its parts were claimed, by itself or by others."""

CLOSED = WAITING = 1 << 32


def sync_words(threads: int) -> int:
    """Return the size of the sync block of a pool of `threads` threads."""
    return CLAIMED + LINE * threads
