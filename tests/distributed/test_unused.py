"""Who uses no ranks pays nothing for them: no import, no link, no check."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp

X = np.ones((4, 3), np.float32)

TRAINED = """
import sys
import numpy as np, rlx, rlx.numpy as rnp

step = rlx.jit(rlx.grad(lambda w, x: rnp.sum(rnp.tanh(x @ w))), backend=sys.argv[1])
step(np.ones(3, np.float32), np.ones((4, 3), np.float32))
imported = [name for name in sys.modules if name.startswith(("mpi4py", "rlx.distributed"))]
assert not imported, imported
with open("/proc/self/maps") as maps:
    linked = [line for line in maps if "libmpi" in line]
assert not linked, linked
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")
@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_a_step_imports_and_links_nothing_of_mpi(backend: str) -> None:
    subprocess.run([sys.executable, "-c", TRAINED, backend], check=True, timeout=120)


def test_a_step_has_no_word_of_ranks_in_its_code() -> None:
    step = rlx.jit(rlx.grad(lambda w, x: rnp.sum(rnp.tanh(x @ w))))
    for text in (step.c_source(X[0], X), step.llvm_ir(X[0], X)):
        assert "MPI_" not in text
        assert "mpi.h" not in text
        assert "communicator" not in text


WITHOUT_MPI = """
import sys
sys.modules["mpi4py"] = None
from rlx.distributed import initialize, simulate
from rlx.errors import CommunicationError

assert simulate(lambda: 3, 2) == [3, 3]
try:
    initialize()
except CommunicationError as error:
    print(error)
"""


def test_ranks_are_simulated_where_there_is_no_mpi() -> None:
    words = [sys.executable, "-c", WITHOUT_MPI]
    done = subprocess.run(words, check=True, timeout=120, capture_output=True, text=True)
    assert "pip install rlx[mpi]" in done.stdout
