"""A content-addressed cache of files that take long to make.

The key is a digest of everything that the content depends on. An entry is written to a private
file and renamed into place, so that readers see all of it or nothing, however many processes
write and whenever they are killed. Each entry has a digest in a file of its own: a damaged one
is made again. A directory that cannot be written, or that belongs to another user, is not used
(`cache_place`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.dataclass import dataclass
from rlx.errors import ToolchainError
from rlx.homes import later
from rlx.runtime.cache_place import (
    MAKING,
    PRIVATE_FILE,
    give_up,
    has_given_up,
    is_ours,
    make_private,
    refusal,
    sweep,
)
from rlx.runtime.cache_place import cache_directory as cache_directory

if TYPE_CHECKING:
    import tempfile
else:
    (tempfile,) = later("tempfile")

_DEFAULT_LIMIT = 2 * 1024**3
_SEAL = ".sha256"
_ADDED = "added"
"""A file that is as many blocks long as were stored since the last trim; it is never read."""
_BLOCK = 256
_SHARE_ADDED = 16
"""Trimming looks at every entry, so it waits until so large a share of the limit was stored."""


def content_key(*parts: str) -> str:
    """Return the digest of `parts`; ("ab", "c") and ("a", "bc") differ."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
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
        return next((at for at in self._places(key, suffix) if _read(at) is not None), None)

    def read(self, key: str, suffix: str) -> bytes | None:
        """Return the content of the file of `key`, or None as `find` does."""
        found = (_read(place) for place in self._places(key, suffix))
        return next((content for content in found if content is not None), None)

    def keep(self, key: str, suffix: str, content: bytes) -> None:
        """Store a file for other processes; a cache that cannot be written is none."""
        if self._refuge() is not None:
            return
        try:
            self._store(self.directory, key, suffix, lambda path: path.write_bytes(content))
        except OSError as error:
            give_up(self.directory, str(error) or repr(error))

    def replace(self, key: str, suffix: str, make: Callable[[Path], object]) -> Path:
        """Return the file of `key`, written by `make(path)` whether or not there was one."""
        refuge = self._refuge()
        try:
            return self._store(refuge or self.directory, key, suffix, make)
        except OSError as error:
            if refuge is not None:
                raise _nowhere(refuge, error) from error
            refuge = give_up(self.directory, str(error) or repr(error))
        try:
            return self._store(refuge, key, suffix, make)
        except OSError as error:
            raise _nowhere(refuge, error) from error

    def _refuge(self) -> Path | None:
        """Return the directory to write to if this one cannot be used."""
        reason = refusal(self.directory)
        if reason or has_given_up(self.directory):
            return give_up(self.directory, reason)
        return None

    def _store(
        self, directory: Path, key: str, suffix: str, make: Callable[[Path], object]
    ) -> Path:
        place = _place(directory, key, suffix)
        make_private(directory)
        make_private(place.parent)
        sweep(directory)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=MAKING) as private:
            made = Path(private) / place.name
            make(made)
            size = made.stat().st_size
            _publish(made, place)  # from here on another process may delete it
        if directory == self.directory and self._added(size) > self._share():
            self.trim(keep=place)
        return place

    def _share(self) -> int:
        return self.limit // _SHARE_ADDED

    def _added(self, size: int) -> int:
        """Note that `size` bytes were stored; return about how many were since the last trim."""
        with open(self.directory / _ADDED, "ab", opener=_privately, buffering=0) as notes:
            notes.write(b"." * -(-size // _BLOCK))
            return os.fstat(notes.fileno()).st_size * _BLOCK

    def _places(self, key: str, suffix: str) -> Iterator[Path]:
        """Yield where the file of `key` may be: here, or where this process goes instead."""
        if not refusal(self.directory):
            yield _place(self.directory, key, suffix)
        if has_given_up(self.directory):
            yield _place(give_up(self.directory, ""), key, suffix)

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


def _place(directory: Path, key: str, suffix: str) -> Path:
    return directory / key[:2] / f"{key}{suffix}"


def _read(place: Path) -> bytes | None:
    try:
        if not is_ours(place):
            return None
        content = place.read_bytes()
        if _seal_of(place).read_text(encoding="utf-8") != _digest(content):
            return None
    except (OSError, UnicodeDecodeError):
        return None
    with contextlib.suppress(OSError):
        os.utime(place)  # recently used; a read-only cache still serves
    return content


def _privately(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE_FILE)


def _nowhere(directory: Path, error: OSError) -> ToolchainError:
    return ToolchainError(
        f"cannot write compiled code in {directory}: {error}",
        remedy="name a directory with room in RLX_CACHE_DIR",
    )


def _publish(made: Path, place: Path) -> None:
    """Rename an entry into place, its seal first: a lone seal is harmless.

    Two makers of one key may differ in bytes (a linker's build id). The second one can
    leave a seal that does not fit for an instant; a reader in that instant makes the entry again.
    """
    seal = _seal_of(made)
    seal.write_text(_digest(made.read_bytes()), encoding="utf-8")
    seal.chmod(PRIVATE_FILE)
    made.chmod(PRIVATE_FILE)
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
