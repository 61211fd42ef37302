"""Ops of other packages: their modules are found by the entry points that they install.

[project.entry-points."rlx.ops"]
my_ops = "my_package.ops"
"""

from __future__ import annotations

import functools

from rlx.ir.op import OPS, OpDef


@functools.cache
def load_extensions() -> None:
    """Import every module that an installed package lists under `rlx.ops`."""
    from importlib.metadata import entry_points  # takes long to import

    for entry in entry_points(group="rlx.ops"):
        entry.load()


def find_op(name: str) -> OpDef | None:
    """Return the op of a name; modules of ops that are installed are imported for it."""
    if name not in OPS:
        load_extensions()
    return OPS.get(name)
