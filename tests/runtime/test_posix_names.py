"""rlx without the names that Python has on POSIX systems alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
