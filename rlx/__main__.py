"""`python -m rlx`: the command line."""

import sys

from rlx.cli.main import main

sys.exit(main())
