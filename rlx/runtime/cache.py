"""A content-addressed cache of files that take long to make.

The key is a digest of everything that the content depends on. An entry is written to a private
file and renamed into place, so that readers see all of it or nothing, however many processes
write and whenever they are killed. Each entry carries its own digest beside it: a damaged one
is made again. The directory is `RLX_CACHE_DIR`, else `$XDG_CACHE_HOME/rlx`, else `~/.cache/rlx`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_DEFAULT_LIMIT = 2 * 1024**3
_SEAL = ".sha256"
_ADDED = "added"
"""A file with the sizes of what was stored since the last trim, a line each."""
_SHARE_ADDED = 16
"""Trimming looks at every entry, so it waits until so large a share of the limit was stored."""


def cache_directory() -> Path:
    """Return the directory of this environment; it need not exist."""
    named = os.environ.get("RLX_CACHE_DIR")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "rlx"


def content_key(*parts: str) -> str:
    """Return the digest of `parts`; it tells ("ab", "c") from ("a", "bc")."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Cache:
    """Files by key. `limit` bounds the bytes kept; the least recently used go first.

    Between two trims the files may exceed it by a sixteenth.
    """

    directory: Path
    limit: int = _DEFAULT_LIMIT

    def fetch(self, key: str, suffix: str, make: Callable[[Path], object]) -> Path:
        """Return the file of `key`, calling `make(path)` to write it where there is none."""
        return self.find(key, suffix) or self.replace(key, suffix, make)

    def find(self, key: str, suffix: str) -> Path | None:
        """Return the file of `key`, or None where there is none or it is damaged."""
        place = self._place(key, suffix)
        return place if self._read(place) is not None else None

    def read(self, key: str, suffix: str) -> bytes | None:
        """Return the content of the file of `key`, or None as `find` does."""
        return self._read(self._place(key, suffix))

    def replace(self, key: str, suffix: str, make: Callable[[Path], object]) -> Path:
        """Return the file of `key`, written by `make(path)` whether or not there was one."""
        place = self._place(key, suffix)
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".making-") as private:
            made = Path(private) / place.name
            make(made)
            _publish(made, place)
        if self._added(place.stat().st_size) > self.limit // _SHARE_ADDED:
            self.trim(keep=place)
        return place

    def _added(self, size: int) -> int:
        """Note that `size` bytes were stored; return how many were since the last trim."""
        with (self.directory / _ADDED).open("a+") as notes:
            notes.write(f"{size}\n")
            notes.seek(0)
            return sum(int(line) for line in notes if line.strip().isdigit())

    def _place(self, key: str, suffix: str) -> Path:
        return self.directory / key[:2] / f"{key}{suffix}"

    def _read(self, place: Path) -> bytes | None:
        try:
            content = place.read_bytes()
            if _seal_of(place).read_text() != _digest(content):
                return None
        except (OSError, UnicodeDecodeError):
            return None
        with contextlib.suppress(OSError):
            os.utime(place)  # recently used; a read-only cache still serves
        return content

    def trim(self, *, keep: Path | None = None) -> None:
        """Delete the least recently used entries until the rest fits the limit."""
        (self.directory / _ADDED).unlink(missing_ok=True)
        entries = sorted(_entries(self.directory), key=lambda entry: entry[1].st_mtime)
        total = sum(status.st_size for _, status in entries)
        for path, status in entries:
            if total <= self.limit:
                return
            if path != keep:
                _remove(path)
                total -= status.st_size


def _publish(made: Path, place: Path) -> None:
    """Rename an entry into place, its seal first: a lone seal is harmless.

    Two makers of one key may differ in bytes (a linker's build id). Whoever comes second can
    leave a seal that does not fit for an instant; a reader in that instant makes the entry again.
    """
    seal = _seal_of(made)
    seal.write_text(_digest(made.read_bytes()))
    seal.replace(_seal_of(place))
    made.replace(place)


def _seal_of(place: Path) -> Path:
    return place.with_name(place.name + _SEAL)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _entries(directory: Path) -> list[tuple[Path, os.stat_result]]:
    found = []
    for path in directory.glob("??/*"):
        if path.suffix != _SEAL and path.is_file():
            with contextlib.suppress(OSError):  # another process may have just removed it
                found.append((path, path.stat()))
    return found


def _remove(path: Path) -> None:
    for victim in (path, _seal_of(path)):
        with contextlib.suppress(OSError):
            victim.unlink()
