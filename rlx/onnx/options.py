"""Options and queries of ONNX Runtime's interface.

A program that exchanges its import finds these names and nothing changes for it. Of the options a
session here takes the number of threads; the others tune a runtime that rlx does not have.
"""

from __future__ import annotations

import enum
import warnings
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from rlx.dataclass import dataclass
from rlx.errors import UnsupportedError


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


class ExecutionOrder(enum.IntEnum):
    """The order of nodes; here it is chosen for memory."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


@dataclass(slots=True)
class SessionOptions:
    """Options of a session: `intra_op_num_threads` is taken (0: all cores), and the extents that
    `add_free_dimension_override_by_name` gives; the rest is only kept. What asks for a file or for
    code that rlx does not have is an UnsupportedError."""

    intra_op_num_threads: int = 0
    inter_op_num_threads: int = 0
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    execution_order: ExecutionOrder = ExecutionOrder.DEFAULT
    log_severity_level: int = 2
    log_verbosity_level: int = 0
    logid: str = ""
    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_profiling: bool = False
    profile_file_prefix: str = "onnxruntime_profile_"
    optimized_model_filepath: str = ""
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True
    config_entries: dict[str, str] = field(default_factory=dict)
    dims: dict[str, int] = field(default_factory=dict)
    """Extents of open dimensions, by their names."""

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry of the configuration; none of them changes anything."""
        self.config_entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """Return an entry that was kept."""
        return self.config_entries[key]

    def add_free_dimension_override_by_name(self, dim_name: str, dim_value: int) -> None:
        """Give an open dimension its extent, as `dims=` of a session does."""
        self.dims[dim_name] = int(dim_value)

    def add_provider(self, provider_name: str, provider_options: Any = None) -> None:
        """Take the processor's provider; there is no other."""
        del provider_options
        check_providers([provider_name])

    def has_providers(self) -> bool:
        return False

    def register_custom_ops_library(self, path: str) -> None:
        """Raise UnsupportedError: such libraries are compiled against ONNX Runtime."""
        raise UnsupportedError(
            f"{path}: libraries of operators are compiled against ONNX Runtime",
            remedy="write the operators as functions of the model, or as rlx ops",
        )

    def add_initializer(self, name: str, value: Any) -> None:
        """Raise UnsupportedError: weights are those of the model."""
        del value
        raise UnsupportedError(
            f"initializer {name!r} is given by options",
            remedy="put the weights into the model, or give them to rlx.compile(params=...)",
        )

    def check(self) -> None:
        """Raise UnsupportedError for an option that asks for a file which rlx does not write."""
        if self.enable_profiling:
            raise UnsupportedError(
                "enable_profiling: sessions write no profiles",
                remedy="leave it False; rlx bench model.onnx gives the time of each kernel",
            )
        if self.optimized_model_filepath:
            raise UnsupportedError(
                f"optimized_model_filepath {self.optimized_model_filepath!r}: what rlx compiles is "
                "no ONNX model",
                remedy="leave it empty; rlx inspect model.onnx shows what is compiled",
            )


@dataclass(slots=True)
class RunOptions:
    """Options of a run, kept and without effect."""

    log_severity_level: int = 2
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False
    config_entries: dict[str, str] = field(default_factory=dict)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keep an entry of the configuration; none of them changes anything."""
        self.config_entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """Return an entry that was kept."""
        return self.config_entries[key]


def check_providers(providers: Sequence[Any] | None) -> None:
    """Warn, as ONNX Runtime does, of providers that are not there: the processor computes."""
    names = [each if isinstance(each, str) else each[0] for each in providers or ()]
    for name in names:
        if name not in get_available_providers():
            warnings.warn(
                f"provider {name!r} is not available, rlx computes on the processor; "
                f"available: {', '.join(get_available_providers())}",
                stacklevel=3,
            )


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


def set_default_logger_verbosity(verbosity: int) -> None:
    """Nothing: sessions write no log."""
    del verbosity


def disable_telemetry_events() -> None:
    """Nothing: no events are sent anywhere."""


def enable_telemetry_events() -> None:
    """Nothing: no events are sent anywhere, nor can they be."""
