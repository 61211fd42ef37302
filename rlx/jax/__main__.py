"""`python -m rlx.jax program.py arguments`: run a program written for JAX on rlx.

Where JAX is installed the program imports it, and rlx compiles what `jax.jit` compiles; elsewhere
its imports of `jax` find the modules of `rlx.jax`. `RLX_JAX=look-alike` says that they always do.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from rlx.errors import InputError
from rlx.jax import door
from rlx.jax.configuration import config
from rlx.jax.importing import answer_imports

_TRUE = ("1", "true", "yes", "on", "t", "y")


def main() -> None:
    """Run the program named first, as Python would, after its imports of `jax` are provided for."""
    if len(sys.argv) < 2:
        raise InputError("no program is named", remedy="python -m rlx.jax program.py")
    if door.is_there() and os.environ.get("RLX_JAX") != "look-alike":
        door.install()
    else:
        answer_imports()
        config.jax_enable_x64 = os.environ.get("JAX_ENABLE_X64", "").lower() in _TRUE
    del sys.argv[0]
    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
