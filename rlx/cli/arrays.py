"""Inputs and params of commands: read from files, returned by functions, or random."""

from __future__ import annotations

import lzma
import math
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import IO, BinaryIO

import numpy as np

from rlx.cli.arguments import NamedExtent, NamedFile
from rlx.errors import FormatError, InputError, UnsupportedError
from rlx.files import open_file
from rlx.ir.shape import Symbol
from rlx.limits import Budget, loading
from rlx.runtime.signature import Argument, Array, Signature, concrete
from rlx.safetensors_file import read_safetensors


def read_inputs(files: Sequence[NamedFile]) -> dict[str, Array]:
    """Read every `--input`; a name given twice is an error."""
    found: dict[str, Array] = {}
    for file in files:
        arrays = read_arrays(file.path)
        named = arrays if file.name is None else {file.name: _single(arrays, file.path)}
        for name, array in named.items():
            if name in found:
                raise InputError(
                    f"input {name!r} is given twice, the second time by {file.path}",
                    remedy="give each input once",
                )
            found[name] = array
    return found


def read_arrays(path: Path) -> dict[str, Array]:
    """Read `.npy` (one array, without a name), `.npz` or `.safetensors`."""
    if path.suffix == ".safetensors":
        return read_safetensors(path).arrays
    if path.suffix not in (".npy", ".npz"):
        raise FormatError(
            f"{path}: arrays are read from .npy, .npz and .safetensors files",
            remedy="convert it, for instance with numpy.save",
        )
    with loading(None, str(path)) as budget, open_file(path) as file:
        try:
            return _archive(file, budget) if path.suffix == ".npz" else {"": _array(file, budget)}
        except (FormatError, RecursionError):
            raise
        except _UNREADABLE as error:
            raise FormatError(
                f"{path}: not an array file: {error}",
                remedy="write it again, for instance with numpy.save",
            ) from error


_UNREADABLE = (
    ValueError, TypeError, EOFError, LookupError, SyntaxError, NotImplementedError, TokenError,
    RuntimeError, OSError, struct.error, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip
"""What NumPy and zipfile raise for files that are not what they claim to be."""


def _archive(file: BinaryIO, budget: Budget) -> dict[str, Array]:
    """Return the arrays of an `.npz`, whose decompressed sizes are within the budget."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        budget.charge_nodes(len(members))
        budget.charge_bytes(sum(member.file_size for member in members), "decompressed")
        found = {}
        for member in members:
            with archive.open(member) as content:
                found[member.filename.removesuffix(".npy")] = _array(content, budget)
        return found


def _array(file: IO[bytes], budget: Budget) -> Array:
    """Return the array of an `.npy`; what its header claims is charged before it is allocated."""
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"version {version} of the format")
    shape, is_fortran, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    if min(shape, default=0) < 0:
        raise ValueError(f"shape {shape} has a negative extent")
    size = math.prod(shape) * dtype.itemsize
    budget.charge_bytes(size, "an array")
    data = file.read(size)
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes of data, of {size}")
    if dtype == np.bool_ and any(byte > 1 for byte in data):
        raise ValueError("a bool is neither 0 nor 1")
    flat = np.frombuffer(data, dtype) if size else np.empty(0, dtype)
    return flat.reshape(shape, order="F" if is_fortran else "C").copy()


_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def write_outputs(path: Path, outputs: Sequence[Array]) -> None:
    """Write one array to `.npy`, or all of them to `.npz` as `output_0`, `output_1`, ..."""
    if path.suffix == ".npy":
        if len(outputs) != 1:
            raise InputError(
                f"{path} holds one array; there are {len(outputs)} outputs: use .npz",
                remedy="let the name end in .npz",
            )
        np.save(path, outputs[0])
    elif path.suffix == ".npz":
        np.savez(path, **{f"output_{i}": array for i, array in enumerate(outputs)})  # type: ignore[arg-type]  # stubs take array names for allow_pickle
    else:
        raise FormatError(
            f"{path}: outputs are written to .npz or .npy files",
            remedy="let the name end in .npz or .npy",
        )


def random_inputs(
    signature: Signature, extents: Sequence[NamedExtent], seed: int
) -> dict[str, Array]:
    """Return inputs for every argument; symbols take their maximum unless `extents` says."""
    binding = bind_extents(signature.symbols, extents)
    random = np.random.default_rng(seed)
    return {argument.name: random_array(argument, binding, random) for argument in signature.inputs}


def random_params(signature: Signature, seed: int) -> dict[str, Array]:
    """Return a random value for every param."""
    random = np.random.default_rng(seed + 1)
    return {argument.name: random_array(argument, {}, random) for argument in signature.params}


def random_array(
    argument: Argument, binding: Mapping[str, int], random: np.random.Generator
) -> Array:
    """Return floats of [0, 1) scaled to keep sums near 1; 0 or 1 for integers, valid as indices."""
    dtype, shape = argument.type.dtype, concrete(argument.type.shape, binding)
    try:
        if dtype.is_float or dtype.is_complex:
            scale = 1.0 / np.sqrt(max(1, shape[0])) if len(shape) > 1 else 1.0
            return np.asarray(random.random(shape) * scale).astype(dtype.numpy)
        return np.asarray(random.integers(0, 2, shape)).astype(dtype.numpy)
    except (MemoryError, ValueError) as error:
        raise UnsupportedError(
            f"{argument.name!r} of type {argument.type} is too large to fill: {error}",
            remedy="give smaller extents, with --shape or --extent",
        ) from error


def bind_extents(symbols: Sequence[Symbol], extents: Sequence[NamedExtent]) -> dict[str, int]:
    """Return a value for every symbol: as given, else its maximum."""
    given = {extent.name: extent.value for extent in extents}
    unknown = given.keys() - {symbol.name for symbol in symbols}
    if unknown:
        known = ", ".join(symbol.name for symbol in symbols) or "none"
        raise InputError(
            f"no symbol is called {sorted(unknown)[0]!r} (there are: {known})",
            remedy="name a symbol of the program, or leave the option out",
        )
    unbounded = [s.name for s in symbols if s.max is None and s.name not in given]
    if unbounded:
        raise InputError(
            f"extent {unbounded[0]} has no maximum", remedy=f"pass --extent {unbounded[0]}=N"
        )
    return {s.name: given.get(s.name, s.max or 0) for s in symbols}


def _single(arrays: Mapping[str, Array], path: Path) -> Array:
    if len(arrays) != 1:
        raise InputError(
            f"{path} holds {len(arrays)} arrays ({', '.join(arrays)})",
            remedy="pass the file without a name, and its arrays go to inputs by name",
        )
    return next(iter(arrays.values()))
