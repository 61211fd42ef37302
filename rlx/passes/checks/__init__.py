"""Checks as results: a program that fails becomes one that says how it failed."""

from rlx.passes.checks.sweep import Functionalized as Functionalized
from rlx.passes.checks.sweep import functionalize as functionalize
