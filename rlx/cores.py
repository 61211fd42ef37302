"""How many processors this process may use: affinity, and the quotas of its cgroups."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_MOUNT = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


def usable_cores() -> int:
    """Return the number of processors that affinity and quotas allow: at least 1."""
    cores = len(usable_processors()) or os.cpu_count() or 1
    return max(1, min([cores, *map(int, cpu_quotas())]))


def usable_processors() -> set[int]:
    """Return the processors that this thread may run on; none where the system has no numbers."""
    affinity = getattr(os, "sched_getaffinity", None)  # absent on macOS
    return set(affinity(0)) if affinity else set()


def cpu_quotas(mount: Path = _MOUNT, membership: Path = _MEMBERSHIP) -> Iterator[float]:
    """Yield the CPU quota, in processors, of each cgroup of this process that has one.

    In version 2 `cpu.max` holds the quota and the period, in version 1 two files do.
    """
    for line in _text(membership).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = mount / controllers if controllers else mount
        for folder in (root, *_below(root, path)):
            yield from _quota(folder)


def _below(root: Path, path: str) -> Iterator[Path]:
    """Yield the folders from `root` down to the cgroup."""
    for part in PurePosixPath(path.strip("/")).parts:
        root = root / part
        yield root


def _quota(folder: Path) -> Iterator[float]:
    words = _text(folder / "cpu.max").split() or [
        *_text(folder / "cpu.cfs_quota_us").split(),
        *_text(folder / "cpu.cfs_period_us").split(),
    ]
    if len(words) == 2 and words[0].isdecimal() and int(words[1]) > 0:
        yield int(words[0]) / int(words[1])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
