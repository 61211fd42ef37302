"""A model of an all-reduce: a ring for the bytes, a tree for the latency."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Network:
    """What is between ranks."""

    name: str
    latency: float
    """Seconds of a message."""
    bandwidth: float
    """Bytes per second between two ranks."""

    def latency_seconds(self, ranks: int) -> float:
        return 2 * math.log2(ranks) * self.latency

    def byte_seconds(self, ranks: int, size: int) -> float:
        return 2 * (ranks - 1) / ranks * size / self.bandwidth

    def seconds(self, ranks: int, size: int) -> float:
        """Return the time of a sum of `size` bytes."""
        return self.latency_seconds(ranks) + self.byte_seconds(ranks, size)

    def efficiency(self, step: float, ranks: int, size: int) -> float:
        """Return the share of a step that is not exchange, if nothing of it is hidden."""
        return step / (step + self.seconds(ranks, size))


ETHERNET = Network("10 Gbit/s Ethernet", 20e-6, 1e9)
INFINIBAND = Network("200 Gbit/s InfiniBand", 2e-6, 2e10)


def measured(seconds: Mapping[int, float]) -> Network:
    """Return the network of this machine from the time of sums over two ranks, by size."""
    least, most = min(seconds), max(seconds)
    latency = seconds[least] / 2
    return Network("measured here", latency, most / (seconds[most] - seconds[least]))
