"""How many processors a process may use: affinity and the quotas of cgroups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlx import cores


def write(files: dict[str, str], folder: Path) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("membership", "files", "quotas"),
    [
        ("0::/", {"cpu.max": "150000 100000\n"}, [1.5]),
        ("0::/", {"cpu.max": "max 100000\n"}, []),
        ("0::/a/b", {"cpu.max": "max 100000", "a/cpu.max": "400000 100000"}, [4.0]),
        ("0::/a", {"cpu.max": "300000 100000", "a/cpu.max": "50000 100000"}, [3.0, 0.5]),
        (
            "3:cpu:/a\n2:memory:/",
            {
                "cpu/a/cpu.cfs_quota_us": "200000",
                "cpu/a/cpu.cfs_period_us": "100000",
            },
            [2.0],
        ),
        ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, []),
        ("2:memory:/", {"memory/cpu.max": "100000 100000"}, []),
        ("0::/", {}, []),
    ],
)
def test_quotas_are_those_of_all_cgroups_around_the_process(
    membership: str, files: dict[str, str], quotas: list[float], tmp_path: Path
) -> None:
    write({"membership": membership}, tmp_path)
    write(files, tmp_path / "mount")
    assert [*cores.cpu_quotas(tmp_path / "mount", tmp_path / "membership")] == quotas


@pytest.mark.parametrize(("quota", "usable"), [(0.5, 1), (1.9, 1), (3.0, 3), (99.0, 4)])
def test_a_quota_limits_the_cores(
    quota: float, usable: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(cores, "cpu_quotas", lambda: iter([quota]))
    assert cores.usable_cores() == usable


def test_affinity_limits_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5}, raising=False)
    monkeypatch.setattr(cores, "cpu_quotas", lambda: iter(()))
    assert cores.usable_cores() == 1
