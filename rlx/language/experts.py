"""Monitoring of the experts that gates choose, and of their residency in memory.

    program = ExpertMonitor(graph, num_experts=64, params=params)
    program.set_resident([True] * 16 + [False] * 48)
    outputs = program.run(feeds)
    program.take_stats()        # calls and tokens of resident experts, and of others
    program.take_capture()      # what every gate chose, in order
    pool.refresh(program.take_capture())

On a CPU placement changes no number. A layer is three products of chosen matrices: gate, up, down.
`host_weights` are where the weights of experts that are not resident are read instead: for each
layer the stacks of its products, f32 `[E, K, N]`, which stay where the caller has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import InputError, UnsupportedError
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.passes.rewrite import bodies_of
from rlx.runtime.compile import compile as compile_graph

Array = NDArray[Any]


_PRODUCTS = (ops.grouped_matmul, ops.grouped_dequant_matmul)


@dataclass(frozen=True, slots=True)
class ResidencyStats:
    """Experts that had tokens in one run, and their tokens: resident ones, and others."""

    resident_calls: int = 0
    resident_tokens: int = 0
    other_calls: int = 0
    other_tokens: int = 0


class ExpertMonitor:
    """A compiled graph with the choices of its gates; `products_per_layer` are consecutive."""

    def __init__(
        self,
        graph: Graph,
        *,
        num_experts: int,
        products_per_layer: int = 3,
        host_weights: Sequence[Sequence[Any]] = (),
        params: Mapping[str, Any] | None = None,
        backend: str = "auto",
        threads: int | None = None,
    ) -> None:
        self.num_experts = num_experts
        self._host: dict[int, Array] = {}
        """The weights of a product, by its number, that are stored elsewhere."""
        for layer, stacks in enumerate(host_weights):
            for matrix, stack in enumerate(stacks):
                ordinal = layer * products_per_layer + matrix
                self._host[ordinal] = np.ascontiguousarray(stack, np.float32)
        self._per_layer = products_per_layer
        self._count = len(graph.outputs)
        self._gates: list[Value] = []
        self._products: list[Value] = []
        watched, image = Graph(graph.name), dict[Value, Value]()
        for node in graph.nodes:
            watched.copy_node(node, image)
            _require_no_products_within(node)
            if node.op in _PRODUCTS:
                self._products.append(image[node.operands[2]])
                image[node.result] = self._placed(watched, node, image)
            elif node.op is ops.topk and node.operands[0].shape[-1] == num_experts:
                self._gates.append(image[node.results[1]])
        outputs = [image[output] for output in graph.outputs]
        donated = {watched.leaf(name): outputs[at] for name, at in graph.donations.items()}
        watched.set_outputs([*outputs, *self._gates, *self._products], donated=donated)
        self.program = compile_graph(watched, params=params, backend=backend, threads=threads)
        self._masks: list[Array] | None = None
        self._mask: Array | None = None
        self._stats: ResidencyStats | None = None
        self._capture: list[Array] = []

    def set_resident(self, mask: Sequence[bool]) -> None:
        """Say which experts are resident in every layer."""
        self._mask, self._masks = self._checked(mask), None

    def set_resident_per_layer(self, masks: Sequence[Sequence[bool]]) -> None:
        """Say which experts are resident in each layer; further layers have them all."""
        self._mask, self._masks = None, [self._checked(mask) for mask in masks]

    def run(self, feeds: Mapping[str, Any]) -> tuple[Array, ...]:
        """Run, and remember what was chosen; return the outputs of the graph itself."""
        outputs = self.program.run({**feeds, **self._host_feeds()})
        chosen = outputs[self._count :]
        self._capture = [np.asarray(ids) for ids in chosen[: len(self._gates)]]
        self._stats = self._counted(chosen[len(self._gates) :])
        return outputs[: self._count]

    def take_capture(self) -> list[Array] | None:
        """Return the experts that each gate of the last run chose, once; None if there are none."""
        taken = [ids.reshape(-1).astype(np.uint32) for ids in self._capture]
        self._capture = []
        return taken or None

    def take_stats(self) -> ResidencyStats | None:
        """Return the accounts of the last run, once."""
        taken, self._stats = self._stats, None
        return taken

    def is_resident(self, layer: int, expert: int) -> bool:
        """True if an expert is resident in a layer; unlisted experts are."""
        mask = self._mask
        if self._masks is not None:
            mask = self._masks[layer] if layer < len(self._masks) else None
        return mask is None or bool(mask[expert])

    def _placed(self, graph: Graph, node: Node, image: Mapping[Value, Value]) -> Value:
        """Return a product whose rows of experts that are not resident use host weights."""
        ordinal, product = len(self._products) - 1, image[node.result]
        if ordinal not in self._host:
            return product
        x, experts = image[node.operands[0]], image[node.operands[2]]
        stack = self._host[ordinal]
        shape = (self.num_experts, x.shape[-1], product.shape[-1])
        if stack.shape != shape:
            raise InputError(
                f"host weights of product {ordinal} have shape {stack.shape}; "
                f"they must have {shape}",
                remedy="stack the matrices of all experts, as grouped_matmul takes them",
            )
        here = graph.input(f"resident_{ordinal}", (self.num_experts,), "bool")
        elsewhere = graph.input(f"host_weights_{ordinal}", shape)
        of_row = ops.reshape(ops.gather(here, experts, axis=0), shape=(x.shape[0], 1))
        result: Value = ops.where(of_row, product, ops.grouped_matmul(x, elsewhere, experts))
        return result

    def _host_feeds(self) -> dict[str, Array]:
        """Return the host weights, and which experts do not need them."""
        feeds: dict[str, Array] = {}
        for ordinal, stack in self._host.items():
            layer = ordinal // self._per_layer
            mask = [self.is_resident(layer, expert) for expert in range(self.num_experts)]
            feeds[f"resident_{ordinal}"] = np.array(mask)
            feeds[f"host_weights_{ordinal}"] = stack
        return feeds

    def _counted(self, products: Sequence[Array]) -> ResidencyStats:
        calls, tokens = [0, 0], [0, 0]
        for ordinal, experts in enumerate(products):
            counts = np.bincount(experts.astype(np.int64).reshape(-1), minlength=self.num_experts)
            for expert in np.flatnonzero(counts):
                other = not self.is_resident(ordinal // self._per_layer, int(expert))
                calls[other] += 1
                tokens[other] += int(counts[expert])
        return ResidencyStats(calls[0], tokens[0], calls[1], tokens[1])

    def _checked(self, mask: Sequence[bool]) -> Array:
        if len(mask) != self.num_experts:
            raise InputError(
                f"a mask of {len(mask)} experts; there are {self.num_experts}",
                remedy="say of every expert whether it is resident",
            )
        return np.asarray(mask, bool)


@dataclass(slots=True)
class ExpertPool:
    """Which experts of a layer are resident, by how often gates chose them."""

    num_experts: int
    budget: int
    every: int = 1
    """Steps between two refreshes."""
    resident: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.budget = min(self.budget, self.num_experts)
        self.resident = self.resident or list(range(self.budget))

    def hits(self, chosen: Sequence[int] | Array) -> Array:
        """Count how often each expert was chosen; numbers of no expert are left out."""
        ids = np.asarray(chosen, np.int64).reshape(-1)
        known = ids[(ids >= 0) & (ids < self.num_experts)]
        return np.bincount(known, minlength=self.num_experts)

    def target(self, counts: Sequence[int] | Array) -> list[int]:
        """Return the most chosen experts, as many as fit; of equals those of lower number."""
        found = np.asarray(counts)
        order = sorted(np.flatnonzero(found).tolist(), key=lambda e: (-int(found[e]), e))
        return order[: self.budget]

    def place(self, target: Sequence[int]) -> tuple[list[int], list[int]]:
        """Make `target` resident; return the experts that were added and removed."""
        promoted = [expert for expert in target if expert not in self.resident]
        demotable = sorted(expert for expert in self.resident if expert not in target)
        demoted = demotable[: len(promoted)]
        self.resident = [*target, *demotable[len(promoted) :]]
        return promoted, demoted

    def refresh(self, chosen: Sequence[int] | Array) -> tuple[list[int], list[int]]:
        """Place what was chosen most."""
        return self.place(self.target(self.hits(chosen)))

    def should_refresh(self, step: int, *, is_prefill: bool = False, forced: bool = False) -> bool:
        """True if placement is due: never where all fit, at prompts, and every so many steps."""
        if self.budget == self.num_experts:
            return False
        return forced or is_prefill or step % max(self.every, 1) == 0

    @property
    def mask(self) -> list[bool]:
        """Of every expert, whether it is resident."""
        return [expert in self.resident for expert in range(self.num_experts)]


def union(masks: Sequence[Sequence[bool]]) -> list[bool]:
    """Return the experts that are resident in any layer."""
    return [any(of_layer) for of_layer in zip(*masks, strict=True)]


def budget_of(
    free: int, reserve: int, expert_bytes: int, layers: int, *, most: int, num_experts: int
) -> int:
    """Return how many experts of every layer fit into memory."""
    cap = min(most, num_experts)
    if expert_bytes == 0 or layers == 0:
        return cap
    return min(cap, max(free - reserve, 0) // (expert_bytes * layers))


def _require_no_products_within(node: Node) -> None:
    """Refuse products in bodies of loops and branches, whose experts are in no output."""
    bodies = bodies_of(node.attrs)
    while bodies:
        for inner in bodies.pop().nodes:
            if inner.op in _PRODUCTS:
                raise UnsupportedError(
                    f"{node.op.name}: its body multiplies by matrices of experts, which an "
                    "ExpertMonitor counts outside of loops and branches alone",
                    remedy="monitor the graph of one step, and loop over its runs",
                    source=node.source,
                )
            bodies += bodies_of(inner.attrs)
