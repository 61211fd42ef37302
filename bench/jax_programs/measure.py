"""Run one program some times and print what it gave and how long each run took, as JSON.

python bench/jax_programs/measure.py NAME [TIMES]             # by JAX
python -m rlx.jax bench/jax_programs/measure.py NAME [TIMES]  # the same by rlx
"""

import importlib
import json
import sys
import time
from pathlib import Path

started = time.perf_counter()
import jax  # noqa: E402
import numpy as np  # noqa: E402


def main():
    name, times = sys.argv[1], int((sys.argv[2:] or ["4"])[0])
    sys.path.insert(0, str(Path(__file__).parent))
    program = importlib.import_module(name)
    imported = time.perf_counter() - started
    seconds = []
    for _ in range(times):
        before = time.perf_counter()
        found = jax.tree_util.tree_map(np.asarray, jax.device_get(program.run()))
        seconds.append(time.perf_counter() - before)
    numbers = [leaf.tolist() for leaf in jax.tree_util.tree_leaves(found)]
    print(json.dumps({"import": imported, "seconds": seconds, "numbers": numbers}))


if __name__ == "__main__":
    main()
