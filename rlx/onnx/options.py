"""What programs written for ONNX Runtime set and ask besides running models.

A program that exchanges its import finds these names and nothing changes for it. Of the options a
session here takes the number of threads; the others tune a runtime that rlx does not have.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class GraphOptimizationLevel(enum.IntEnum):
    """How much a runtime rewrites a graph; here every level means all of it."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Whether nodes run side by side; here each node uses all threads, one after the other."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


@dataclass
class SessionOptions:
    """Options of a session: `intra_op_num_threads` is taken (0: all cores), the rest only kept."""

    intra_op_num_threads: int = 0
    inter_op_num_threads: int = 0
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    log_severity_level: int = 2
    log_verbosity_level: int = 0
    logid: str = ""
    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_profiling: bool = False
    optimized_model_filepath: str = ""
    use_deterministic_compute: bool = True
    config_entries: dict[str, str] = field(default_factory=dict)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry of the configuration; none of them changes anything."""
        self.config_entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """Return an entry that was kept."""
        return self.config_entries[key]


def get_available_providers() -> list[str]:
    """Return what sessions run on: the processor."""
    return ["CPUExecutionProvider"]


def get_all_providers() -> list[str]:
    """Return what sessions could run on: the processor."""
    return get_available_providers()


def get_device() -> str:
    """Return the kind of device that sessions run on."""
    return "CPU"


def set_default_logger_severity(severity: int) -> None:
    """Nothing: sessions write no log."""
    del severity


def disable_telemetry_events() -> None:
    """Nothing: no events are sent anywhere."""


def enable_telemetry_events() -> None:
    """Nothing: no events are sent anywhere, nor can they be."""
