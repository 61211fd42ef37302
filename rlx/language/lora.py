"""Low-rank adapters (LoRA, Hu et al., 2021) of the packed matrices of a decoder.

    adapters = Adapters.first(file, Lora(rank=8), seed=0)

A matrix `W` of `[N, K]` with an adapter gives `x @ W^T + scale * (x @ A) @ B`, for
`A[K, rank]` and `B[rank, N]`. `W` stays packed as it is, and only A and B learn.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import FormatError, InputError
from rlx.gguf import GgufFile
from rlx.language.model_file import ModelFile
from rlx.limits import LoadLimits
from rlx.safetensors_file import read_safetensors

Array = NDArray[Any]

_SETTINGS = "rlx.lora"
"""The key of a file's metadata that holds rank, alpha and targets."""

_MERGED = "q8_0"
"""What a merged matrix is stored as: what adapters add is less than a step of four bits."""


@dataclass(frozen=True, slots=True)
class Lora:
    """Which matrices of every layer have adapters, and how large these are."""

    rank: int = 8
    alpha: float = 16.0
    targets: tuple[str, ...] = ("attn_q", "attn_k", "attn_v", "attn_output")
    """Names of matrices in a layer, as the file has them."""

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise InputError(f"adapters of rank {self.rank}", remedy="use a rank of 1 or more")

    @property
    def scale(self) -> float:
        """What the adapters' product is multiplied by."""
        return self.alpha / self.rank


@dataclass(frozen=True, slots=True)
class Adapters:
    """The adapter matrices A and B of a file, by name: `blk.0.attn_q.lora_a`."""

    lora: Lora
    values: Mapping[str, Array]

    @classmethod
    def first(cls, file: ModelFile, lora: Lora | None = None, *, seed: int = 0) -> Adapters:
        """Return adapters that change nothing yet: A is random, B is 0."""
        lora = lora or Lora()
        random, values = np.random.default_rng(seed), dict[str, Array]()
        for name, info in file.tensors.items():
            matrix = name.removesuffix(".weight")
            if len(info.shape) != 2 or matrix.rpartition(".")[2] not in lora.targets:
                continue
            rows, columns = info.shape
            drawn = random.standard_normal((columns, lora.rank)) / np.sqrt(columns)
            values[f"{matrix}.lora_a"] = drawn.astype(np.float32)
            values[f"{matrix}.lora_b"] = np.zeros((lora.rank, rows), np.float32)
        if not values:
            raise InputError(
                f"{file.path} has no matrices called {', '.join(lora.targets)}",
                remedy="name targets as the file does: attn_q, attn_qkv, ffn_down and so on",
            )
        return cls(lora, values)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file."""
        from safetensors.numpy import save_file

        # The library writes the bytes of an array in the order in which they are in memory.
        values = {name: np.ascontiguousarray(value) for name, value in self.values.items()}
        save_file(values, path, metadata={_SETTINGS: json.dumps(asdict(self.lora))})

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, limits: LoadLimits | None = None) -> Adapters:
        """Read what `save` wrote; LimitError if the file needs more than `limits`."""
        try:
            file = read_safetensors(path, limits)
            settings = file.metadata.get(_SETTINGS)
            lora = _settings(json.loads(settings)) if settings else None
        except FormatError:
            raise
        except (OSError, ValueError, TypeError, LookupError) as error:
            raise FormatError(f"{path}: {error}", remedy="save the adapters again") from error
        if lora is None:
            raise FormatError(
                f"{path}: its metadata has no key {_SETTINGS!r}",
                remedy="read a file that Adapters.save wrote",
            )
        return cls(lora, file.arrays)

    def merged(self, file: GgufFile, path: str | os.PathLike[str]) -> None:
        """Write a copy of the model in which the matrices contain their adapters.

        These are stored as Q8_0: rounded to four bits again, most of what was learned is lost.
        """
        from rlx.gguf import encode, rewrite  # which running a model needs not

        names = sorted({name.rpartition(".")[0] for name in self.values})
        replaced: dict[str, tuple[str, Array]] = {}
        for name in names:
            kind = file.element_type(f"{name}.weight")
            merged = file.dequant_f32(f"{name}.weight") + self.change_of(name)
            if kind.blocks is None:
                replaced[f"{name}.weight"] = ("f32", merged)
                continue
            replaced[f"{name}.weight"] = (_MERGED, encode(merged, _MERGED))
        rewrite(file, path, replaced)

    def change_of(self, name: str) -> Array:
        """Return what the adapter of a matrix adds to it, `[N, K]`."""
        a, b = self.values[f"{name}.lora_a"], self.values[f"{name}.lora_b"]
        change: Array = self.lora.scale * (a @ b).T
        return change


def _settings(found: dict[str, Any]) -> Lora:
    return Lora(int(found["rank"]), float(found["alpha"]), tuple(map(str, found["targets"])))
