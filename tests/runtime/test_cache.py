"""The compile cache among concurrent, killed and careless writers."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rlx.errors import ToolchainError
from rlx.runtime.cache import Cache, cache_directory, content_key

KEY = content_key("source", "flags")


def writer(text: str, made: list[str] | None = None) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        if made is not None:
            made.append(text)
        path.write_text(text)

    return make


def test_an_entry_is_made_once(tmp_path: Path) -> None:
    made: list[str] = []
    cache = Cache(tmp_path)
    first = cache.fetch(KEY, ".so", writer("a", made))
    second = cache.fetch(KEY, ".so", writer("b", made))
    assert first == second
    assert first.read_text() == "a"
    assert made == ["a"]


def test_keys_say_where_parts_end() -> None:
    assert content_key("ab", "c") != content_key("a", "bc")


@pytest.mark.parametrize("damage", ["", "x", "a" * 100])
def test_a_damaged_entry_is_made_again(tmp_path: Path, damage: str) -> None:
    cache = Cache(tmp_path)
    place = cache.fetch(KEY, ".so", writer("content"))
    place.write_text(damage)
    assert cache.fetch(KEY, ".so", writer("content")).read_text() == "content"


def test_an_entry_without_a_seal_is_made_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    place = cache.fetch(KEY, ".so", writer("old"))
    place.with_name(place.name + ".sha256").unlink()
    assert cache.fetch(KEY, ".so", writer("new")).read_text() == "new"


def test_a_failed_make_leaves_no_file(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        path.write_text("half")
        raise ToolchainError("the compiler died")

    cache = Cache(tmp_path)
    with pytest.raises(ToolchainError):
        cache.fetch(KEY, ".so", fail)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert cache.fetch(KEY, ".so", writer("whole")).read_text() == "whole"


def test_the_least_recently_used_entries_go_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=250)
    places = []
    for number in range(2):
        places.append(cache.fetch(content_key(str(number)), ".so", writer("x" * 100)))
        os.utime(places[-1], (number + 1, number + 1))
    third = cache.fetch(content_key("third"), ".so", writer("x" * 100))
    assert [place.exists() for place in (*places, third)] == [False, True, True]


def test_entries_are_looked_at_only_after_a_share_of_the_limit_was_stored(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=16 * 1024)
    notes = tmp_path / "added"
    seen = []
    for number in range(4):
        cache.fetch(content_key(str(number)), ".so", writer("x" * 500))
        seen.append(notes.stat().st_size if notes.exists() else 0)
    assert seen == [2, 4, 0, 2]  # blocks of 256 bytes


def _fetch_repeatedly(directory: str, keys: int) -> None:
    cache = Cache(Path(directory), limit=2000)  # so small that entries are trimmed all the time
    for round in range(60):
        text = f"content of {round % keys} " * 20
        place = cache.fetch(content_key(str(round % keys)), ".txt", writer(text))
        with contextlib.suppress(FileNotFoundError):  # another process trims at any time
            assert place.read_text() == text


@pytest.mark.slow
def test_processes_that_race_see_whole_entries_only(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    racers = [context.Process(target=_fetch_repeatedly, args=(str(tmp_path), 12)) for _ in range(3)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(60)
    assert [racer.exitcode for racer in racers] == [0, 0, 0]


def test_the_directory_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("RLX_CACHE_DIR", raising=False)
    assert cache_directory() == tmp_path / "rlx"
    monkeypatch.setenv("RLX_CACHE_DIR", str(tmp_path / "here"))
    assert cache_directory() == tmp_path / "here"
