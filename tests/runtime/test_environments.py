"""Where something is missing or forbidden: work goes on, and says once what is lost."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import rlx
from rlx.errors import ToolchainError, UnsupportedError
from rlx.runtime import cache_place, toolchain
from rlx.runtime.cache import Cache, content_key
from rlx.runtime.toolchain import find_toolchain, has_toolchain

ROOT = Path(__file__).parents[2]
KEY = content_key("source")
PROGRAM = """
import warnings
import numpy as np
import rlx
{before}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for factor in (2, 3):
        f = rlx.jit(lambda x: x * factor + {constant}, backend="{backend}")
        assert np.asarray(f(np.ones(3))).tolist() == [factor + {constant}] * 3
print(len([w for w in caught if "rlx goes on without" in str(w.message)]))
print(*(w.message for w in caught))
"""
LIMITED = """
import resource, sys
sys.dont_write_bytecode = True  # cut off, it would stay with the modules, for all processes
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
"""
BACKENDS = [
    pytest.param("llvm", marks=pytest.mark.skipif(not toolchain.has_llvm(), reason="no llvmlite")),
    pytest.param("c", marks=pytest.mark.skipif(not has_toolchain(), reason="no C compiler")),
]


def run_program(
    backend: str, environment: dict[str, str], before: str = ""
) -> tuple[int, str, dict[str, str]]:
    """Run a program in an environment; return how often it warned, and of what."""
    text = PROGRAM.format(backend=backend, before=before, constant=len(environment) + 1)
    whole = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, env=whole, capture_output=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-3000:]
    count, _, words = done.stdout.decode(errors="replace").partition("\n")
    return int(count), words, environment


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_cache_that_cannot_be_written_is_done_without_and_said_once(
    backend: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no directory")
    directory = str(tmp_path / "file" / "cache")
    count, words, _ = run_program(backend, {"RLX_CACHE_DIR": directory})
    assert count == 1
    assert directory in words
    assert "RLX_CACHE_DIR" in words


def test_files_that_may_not_grow_leave_llvm_working(tmp_path: Path) -> None:
    if not toolchain.has_llvm():
        pytest.skip("there is no llvmlite")
    environment = {"RLX_CACHE_DIR": str(tmp_path), "RLX_CC": "/nonexistent/cc"}
    count, words, _ = run_program("llvm", environment, LIMITED)
    assert count == 1
    assert "File too large" in words
    assert not [path for path in tmp_path.glob("??/*") if path.suffix in (".o", ".rlxi")]


@pytest.mark.skipif(not has_toolchain(), reason="there is no C compiler")
def test_c_without_any_room_for_files_is_a_typed_error(tmp_path: Path) -> None:
    text = PROGRAM.format(backend="c", before=LIMITED, constant=9)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RLX_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", text],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert "rlx.errors.ToolchainError" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("utf8", ["0", "1"])
def test_a_unicode_path_in_the_c_locale_holds_the_cache(
    backend: str, utf8: str, tmp_path: Path
) -> None:
    directory = tmp_path / "ünïcødé"
    environment = {
        "RLX_CACHE_DIR": str(directory), "LC_ALL": "C", "PYTHONUTF8": utf8,
        "PYTHONCOERCECLOCALE": "0",
    }  # fmt: skip
    assert run_program(backend, environment)[0] == 0
    assert list(directory.glob("??/*.rlxi"))


def test_without_a_home_the_cache_is_among_temporary_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("RLX_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    directory = cache_place.cache_directory()
    assert directory.parts[-3:] == (f"home-{cache_place.user()}", ".cache", "rlx")


@pytest.fixture
def fresh() -> Iterator[None]:
    """Nothing was given up, refused or swept yet in this process."""
    caches = (cache_place._refusal, cache_place.sweep)
    for cached in caches:
        cached.cache_clear()
    yield
    cache_place._given_up.clear()
    for cached in caches:
        cached.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_entries_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        place = Cache(tmp_path / "cache").fetch(KEY, ".so", lambda path: path.write_text("code"))
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "cache").rglob("*")}
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700
    assert len(modes) == 4  # a folder, an entry, its seal, the notes
    assert all(mode == (0o700 if path.is_dir() else 0o600) for path, mode in modes.items()), modes
    assert place.read_text() == "code"


@pytest.mark.usefixtures("fresh")
@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owner here")
def test_a_cache_of_another_user_is_neither_read_nor_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path / "cache")
    cache.fetch(KEY, ".so", lambda path: path.write_text("planted"))
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        place = cache.fetch(KEY, ".so", lambda path: path.write_text("mine"))
    assert tmp_path not in place.parents
    monkeypatch.setattr(os, "getuid", lambda: owner)
    assert (tmp_path / "cache" / KEY[:2] / f"{KEY}.so").read_text() == "planted"


@pytest.mark.usefixtures("fresh")
@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_a_cache_that_others_may_write_is_closed_and_a_public_one_refused(tmp_path: Path) -> None:
    loose, public = tmp_path / "loose", tmp_path / "public"
    for directory, mode in ((loose, 0o777), (public, 0o1777)):
        directory.mkdir()
        directory.chmod(mode)
    Cache(loose).fetch(KEY, ".so", lambda path: path.write_text("x"))
    assert stat.S_IMODE(loose.stat().st_mode) == 0o755
    with pytest.warns(RuntimeWarning, match="open to everybody"):
        Cache(public).fetch(KEY, ".so", lambda path: path.write_text("x"))
    assert list(public.iterdir()) == []
    assert stat.S_IMODE(public.stat().st_mode) == 0o1777


@pytest.mark.usefixtures("fresh")
def test_a_full_disk_is_said_once_and_entries_are_kept_for_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.replace

    def full(self: Path, target: Path) -> Path:
        if tmp_path in Path(target).parents:
            raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", full)
    cache, made = Cache(tmp_path), []

    def make(path: Path) -> None:
        made.append(path)
        path.write_text("x")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first = cache.fetch(KEY, ".so", make)
        assert cache.fetch(KEY, ".so", make) == first
        cache.fetch(content_key("other"), ".so", make)
        cache.keep(content_key("third"), ".o", b"y")
    assert len(caught) == 1
    assert len(made) == 3  # twice for the first, which was begun in the full directory


@pytest.mark.usefixtures("fresh")
def test_folders_that_a_killed_process_left_are_removed(tmp_path: Path) -> None:
    script = (
        "import os, signal; from pathlib import Path; from rlx.runtime.cache import *;"
        f"Cache(Path({str(tmp_path)!r})).fetch('{KEY}', '.so',"
        " lambda path: os.kill(os.getpid(), signal.SIGKILL))"
    )
    subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
        timeout=600,
    )
    (left,) = tmp_path.glob("??/.making-*")
    other = left.with_name(".making-of-another")
    other.mkdir()
    an_hour_ago = time.time() - 3700
    os.utime(left, (an_hour_ago, an_hour_ago))
    Cache(tmp_path).fetch(KEY, ".so", lambda path: path.write_text("x"))
    assert list(tmp_path.glob("??/.making-*")) == [other]


def test_a_dump_directory_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RLX_DUMP", str(tmp_path / "file" / "dump"))
    with pytest.warns(RuntimeWarning, match="RLX_DUMP") as caught:
        assert np.asarray(rlx.jit(lambda x: x - 1)(np.ones(3))).tolist() == [0, 0, 0]
    assert len([w for w in caught if "RLX_DUMP" in str(w.message)]) == 1


@pytest.mark.parametrize("value", ['gcc "', " ", "''"])
def test_a_malformed_cc_is_a_toolchain_error(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLX_CC", raising=False)
    monkeypatch.setenv("CC", value)
    with pytest.raises(ToolchainError, match="CC"):
        find_toolchain()


def test_a_cc_that_is_no_compiler_is_a_toolchain_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLX_CC", raising=False)
    for value in (sys.executable, "/", "true"):
        monkeypatch.setenv("CC", value)
        with pytest.raises(ToolchainError, match=f"[`']{re.escape(value)}[ `']"):
            rlx.jit(lambda x: x + 1, backend="c")(np.ones(3))


@pytest.mark.parametrize("has_compiler", [True, False])
def test_llvm_without_llvmlite_names_what_to_install(
    has_compiler: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "has_llvm", lambda: False)
    monkeypatch.setattr(toolchain, "has_toolchain", lambda: has_compiler)
    with pytest.raises(ToolchainError, match="pip install llvmlite") as caught:
        rlx.jit(lambda x: x + 1, backend="llvm")(np.ones(3))
    assert ("backend='c'" in str(caught.value)) == has_compiler


def test_c_without_a_compiler_and_llvmlite_names_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RLX_CC", "CC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "has_llvm", lambda: False)
    with pytest.raises(ToolchainError, match=r"install gcc or clang.*pip install llvmlite"):
        rlx.jit(lambda x: x + 1, backend="c")(np.ones(3))


@pytest.mark.parametrize("value", ["abc", "0", "-2", "1.5"])
def test_a_number_of_threads_that_is_none_is_an_error(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_NUM_THREADS", value)
    with pytest.raises(UnsupportedError, match=f"RLX_NUM_THREADS='{value}'"):
        rlx.jit(lambda x: x + 1)(np.ones(3))


_HIDE = """
import mmap, os, signal, sys

for module in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[module] = None
names = {
    os: ["fork", "register_at_fork", "getuid", "geteuid", "sched_getaffinity", "sysconf", "killpg",
         "O_NONBLOCK", "O_CLOEXEC", "O_NOFOLLOW", "O_DIRECTORY", "getloadavg", "mkfifo"],
    signal: ["pthread_sigmask", "SIG_BLOCK", "SIG_SETMASK", "SIGKILL", "SIGHUP", "SIGALRM",
             "SIGCHLD", "setitimer", "alarm"],
    mmap: [name for name in dir(mmap) if name.startswith(("MAP_", "PROT_", "MADV_"))],
}
for module, hidden in names.items():
    for name in hidden:
        if hasattr(module, name):
            delattr(module, name)
"""
_RUN = """
import numpy as np
import rlx
import rlx.numpy as rnp

square = np.full((600, 600), 0.01, np.float32)
for x in (square[:3, :3], square):
    compiled = rlx.jit(lambda x: rnp.tanh(x @ x), backend=sys.argv[1])
    np.testing.assert_allclose(compiled(x), np.tanh(x @ x), rtol=1e-4)
artifact = rlx.aot(compiled, sys.argv[2], name="square", example_inputs=(square,))
assert artifact.library.exists()
print("done")
"""


@pytest.mark.slow  # a process compiles with a new cache
@pytest.mark.skipif(sys.platform == "win32", reason="nothing is left to hide")
@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_programs_are_compiled_run_and_exported(backend: str, tmp_path: Path) -> None:
    environment = {**os.environ, "RLX_CACHE_DIR": str(tmp_path / "cache"), "RLX_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", _HIDE + _RUN, backend, str(tmp_path / "made")],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.stdout == "done\n", done.stderr
