"""One module per library: each turns a workload's graph into its own terms and calls it."""

from __future__ import annotations

import importlib

from bench.peers.session import Prepare, PrepareProgram

PEERS = ("rlx", "rlx_c", "bound", "jax", "torch", "onnxruntime", "openvino")


def load_peer(name: str) -> Prepare:
    """Import the module of a peer; ImportError where its library is missing."""
    prepare: Prepare = importlib.import_module(f"bench.peers.{name}_peer").prepare
    return prepare


def load_program_peer(name: str) -> PrepareProgram:
    """Import the module of a peer that runs programs."""
    module = importlib.import_module(f"bench.peers.{name}_peer")
    prepare: PrepareProgram = module.prepare_program
    return prepare
