"""Memory planning: liveness, placement, the plan and its text."""

from rlx.passes.memory import report as report
