"""All ops, one file per family. Every op is an attribute of this package."""

from __future__ import annotations

from rlx.ir.ops.elementwise import tanh as tanh
from rlx.ir.ops.leaf import constant as constant
from rlx.ir.ops.leaf import input as input
from rlx.ir.ops.leaf import param as param
