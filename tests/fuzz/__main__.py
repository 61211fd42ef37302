"""`python -m tests.fuzz`: see `tests.fuzz.campaign`, which worker processes import by its name."""

from __future__ import annotations

import os

from tests.fuzz.campaign import main

if __name__ == "__main__":
    os.environ.setdefault("RLX_NUM_THREADS", "2")
    raise SystemExit(main())
