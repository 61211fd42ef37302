"""`jax.devices()` and what programs ask of it: the one device that there is."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx
from rlx.dataclass import dataclass


@dataclass(frozen=True)
class Device:
    """A device as programs print and compare it."""

    id: int = 0
    platform: str = "cpu"
    device_kind: str = "cpu"
    process_index: int = 0
    host_id: int = 0

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"

    def memory_stats(self) -> None:
        """None, as for JAX's processors."""


THE_DEVICE = Device()


def devices(backend: str | None = None) -> list[Device]:
    """The one device."""
    del backend
    return [THE_DEVICE]


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: int | None = None
) -> list[Device]:
    """The one device."""
    del process_index, backend, host_id
    return [THE_DEVICE]


def device_count(backend: str | None = None) -> int:
    """1."""
    return len(devices(backend))


local_device_count = device_count


def process_index(backend: str | None = None) -> int:
    """0: there is one process."""
    del backend
    return 0


def process_count(backend: str | None = None) -> int:
    """1."""
    del backend
    return 1


def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of all processes: 0."""
    return [process_index(backend)]


host_id, host_count, host_ids = process_index, process_count, process_indices


def default_backend() -> str:
    """The name of the one kind of device."""
    return THE_DEVICE.platform


def device_put(x: Any, device: Any = None, **_: Any) -> Any:
    """`x` as arrays: there is one device."""
    del device
    return rlx.tree_map(rlx.numpy.asarray, x)


def device_get(x: Any) -> Any:
    """`x` with plain NumPy arrays, over the same memory."""
    return rlx.tree_map(np.asarray, x)


def block_until_ready(x: Any) -> Any:
    """`x`: calls have finished when they return."""
    return x


def effects_barrier() -> None:
    """Return at once: calls have finished when they return, with their effects."""


def copy_to_host_async(x: Any) -> Any:
    """`x`: it is there."""
    return x
