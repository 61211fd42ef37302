"""The manifest: what an artifact takes, gives and contains, as JSON for other tools."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rlx.codegen.aot.layout import ArtifactLayout, Keep, Space, Tensor
from rlx.codegen.aot.weights import layout_hash
from rlx.codegen.entry import describe
from rlx.codegen.lower import Program
from rlx.codegen.lower.graph import all_thunks
from rlx.codegen.schedule import Phase
from rlx.errors import FormatError, RlxError
from rlx.ir.dtype import DType
from rlx.ir.types import TensorType

FORMAT = "rlx artifact"
FORMAT_VERSION = 1


def manifest_of(
    program: Program,
    layout: ArtifactLayout,
    view: Mapping[str, Any],
    threads: str | None,
    target: str,
) -> dict[str, Any]:
    """Return the manifest as plain data."""
    name = view["name"]
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "abi_version": view["abi_version"],
        "rlx_version": view["version"],
        "name": name,
        "source_hash": view["source_hash"],
        "target": target,
        "threads": threads,
        "libraries": list(view["libraries"]),
        "flags": list(view["flags"]),
        "arena": {"bytes": layout.arena_bytes, "alignment": view["alignment"]},
        "stack_bytes": view["stack_bytes"],
        "weights": {
            "bytes": layout.weights_bytes,
            "layout_hash": f"0x{layout_hash(layout.weights):016x}",
        },
        "symbols": [{"name": s.name, "min": s.min, "max": s.max} for s in view["symbols"]],
        "inputs": [_tensor(t) for t in layout.inputs],
        "outputs": [_tensor(t) for t in layout.outputs],
        "params": [_tensor(t) for t in layout.params],
        "unused": list(layout.unused),
        "setup": _thunks(program, Phase.SETUP),
        "run": _thunks(program, Phase.RUN),
    }


def format_manifest(manifest: Mapping[str, Any]) -> str:
    return json.dumps(manifest, indent=2) + "\n"


def parse_manifest(text: str) -> dict[str, Any]:
    """Return the manifest in `text`, or raise FormatError."""
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"the manifest is not JSON: {error}", remedy="give the .json file that rlx.aot wrote"
        ) from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise FormatError(
            "not the manifest of an rlx artifact", remedy="give the .json file that rlx.aot wrote"
        )
    if manifest.get("format_version") != FORMAT_VERSION:
        raise FormatError(
            f"the manifest has format version {manifest.get('format_version')}; "
            f"this rlx reads version {FORMAT_VERSION}",
            remedy="export the program again with this version",
        )
    return manifest


def weights_of(manifest: Mapping[str, Any]) -> tuple[tuple[Tensor, ...], int]:
    """Return what the weights file of an artifact holds, and its size."""
    try:
        kept = [p for p in manifest["params"] if p["keep"] == Keep.FILE.value]
        tensors = tuple(_file_tensor(p) for p in kept)
        size, expected = int(manifest["weights"]["bytes"]), manifest["weights"]["layout_hash"]
    except (KeyError, TypeError, ValueError, RlxError) as error:
        raise FormatError(
            f"the manifest is damaged: {error!r}",
            remedy="copy it again, or export the program again",
        ) from error
    if f"0x{layout_hash(tensors):016x}" != expected:
        raise FormatError(
            "the manifest is damaged: its params do not match their hash",
            remedy="copy it again, or export the program again",
        )
    return tensors, size


def _tensor(tensor: Tensor) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": tensor.name,
        "c_name": tensor.c_name,
        "dtype": str(tensor.type.dtype),
        "shape": [e if isinstance(e, int) else str(e) for e in tensor.type.shape],
        "place": tensor.space.value,
        "offset": tensor.offset,
        "bytes": tensor.bytes,
        "donated": tensor.donated,
    }
    if tensor.ranks is not None:
        facts["ranks"] = asdict(tensor.ranks)
    if tensor.keep is not None:
        facts["keep"] = tensor.keep.value
    if tensor.initial is not None:
        facts["initial"] = {"place": tensor.initial[0].value, "offset": tensor.initial[1]}
    return facts


def _file_tensor(facts: Mapping[str, Any]) -> Tensor:
    type = TensorType(DType(facts["dtype"]), tuple(int(extent) for extent in facts["shape"]))
    initial = facts.get("initial")
    offset = facts["offset"] if initial is None else initial["offset"]
    return Tensor(facts["name"], facts["c_name"], type, Space.WEIGHTS, int(offset), Keep.FILE)


def _thunks(program: Program, phase: Phase) -> Sequence[dict[str, str]]:
    return [
        {
            "kernel": program.kernels[thunk.kernel_key].name,
            "node": describe(thunk.node, thunk.number),
        }
        for thunk in all_thunks(program.schedule.phase(phase))
    ]
