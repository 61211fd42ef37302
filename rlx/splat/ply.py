"""Scenes in the `.ply` layout that splatting tools share.

Per splat: position, normal (unused), `f_dc_*` and `f_rest_*` (harmonics, channel by channel),
the logit of the opacity, logarithms of scales, and a quaternion of any length. There the
harmonics are seen along the ray, here towards the camera, so that those of odd bands change sign.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.errors import FormatError, InputError, RlxError
from rlx.files import read_file
from rlx.limits import Budget, LoadLimits, loading
from rlx.splat.scene import Scene, parts_of, require_shapes

Array = NDArray[Any]

_DTYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2",
    "ushort": "u2", "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4",
    "float": "f4", "float32": "f4", "double": "f8", "float64": "f8",
}  # fmt: skip
_ORDERS = {"binary_little_endian": "<", "binary_big_endian": ">"}
_END = re.compile(rb"^end_header\r?\n", re.MULTILINE)
_C0 = 0.28209479177387814
_CERTAIN = 1e-6
"""Distance from 0 and 1 of the opacities that are written: theirs are logits."""


def read_ply(path: str | os.PathLike[str], *, limits: LoadLimits | None = None) -> Scene:
    """Return the scene of a `.ply` file; FormatError says what is wrong with it.

    A file that needs more than `limits` raises LimitError.
    """
    with loading(limits, str(path)) as budget:
        return _scene(path, _vertices(Path(path), budget))


def _scene(path: str | os.PathLike[str], table: Array) -> Scene:

    def columns(*names: str) -> Array:
        missing = [name for name in names if name not in (table.dtype.names or ())]
        if missing:
            raise FormatError(
                f"{path}: there is no property {missing[0]}",
                remedy="pass a file of Gaussian splats; meshes and point clouds have no scales",
            )
        return np.stack([table[name].astype(np.float32) for name in names], -1)

    rest = [name for name in table.dtype.names or () if name.startswith("f_rest_")]
    if len(rest) % 3:
        raise FormatError(
            f"{path}: there are {len(rest)} properties f_rest_*; each colour must have as many",
            remedy="pass a file of Gaussian splats",
        )
    first = columns("f_dc_0", "f_dc_1", "f_dc_2")[:, None, :]
    harmonics = first
    if rest:
        ordered = columns(*(f"f_rest_{i}" for i in range(len(rest))))
        more = np.swapaxes(ordered.reshape(len(table), 3, len(rest) // 3), 1, 2)
        harmonics = np.concatenate([first, more], 1)
    rotations = columns(*(f"rot_{i}" for i in range(4)))
    length = np.linalg.norm(rotations, axis=1, keepdims=True)
    return Scene(
        positions=columns("x", "y", "z"),
        scales=columns("scale_0", "scale_1", "scale_2"),
        rotations=rotations / np.where(length > 0, length, 1.0),
        opacities=0.5 + 0.5 * np.tanh(0.5 * columns("opacity")[:, 0]),
        colors=np.clip(0.5 + _C0 * first[:, 0], 0.0, 1.0),
        harmonics=np.ascontiguousarray(_mirrored(harmonics)),
    )


def write_ply(path: str | os.PathLike[str], scene: Scene) -> None:
    """Write a scene so that viewers of splats open it."""
    parts = {name: _numbers(name, part) for name, part in parts_of(scene).items()}
    require_shapes({name: part.shape for name, part in parts.items()})
    count, harmonics = len(parts["positions"]), _mirrored(parts["harmonics"])
    if harmonics.shape[1] < 16 and not np.abs(harmonics[:, :1]).max(initial=0.0) > 1e-8:
        colors = np.clip(parts["colors"], 0.0, 1.0)
        harmonics = np.concatenate([(colors[:, None] - 0.5) / _C0, harmonics[:, 1:]], 1)
    opacity = np.clip(parts["opacities"].astype(np.float64), _CERTAIN, 1.0 - _CERTAIN)
    columns = {
        **_named(("x", "y", "z"), parts["positions"]),
        **_named(("nx", "ny", "nz"), np.zeros((count, 3))),
        **_named(("f_dc_0", "f_dc_1", "f_dc_2"), harmonics[:, 0]),
        **_rest(harmonics),
        "opacity": np.log(opacity / (1.0 - opacity)),
        **_named(("scale_0", "scale_1", "scale_2"), parts["scales"]),
        **_named(("rot_0", "rot_1", "rot_2", "rot_3"), parts["rotations"]),
    }
    table = np.empty(count, [(name, "<f4") for name in columns])
    for name, column in columns.items():
        table[name] = column
    properties = "".join(f"property float {name}\n" for name in columns)
    header = (
        f"ply\nformat binary_little_endian 1.0\nelement vertex {count}\n{properties}end_header\n"
    )
    Path(path).write_bytes(header.encode("ascii") + table.tobytes())


def _numbers(name: str, part: Any) -> Array:
    try:
        return np.asarray(part, np.float32)
    except RlxError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} are no numbers", remedy="give arrays of f32") from error


def _mirrored(harmonics: Array) -> Array:
    """Return coefficients for the opposite direction: odd bands change their sign."""
    band = np.floor(np.sqrt(np.arange(harmonics.shape[1]))).astype(int)
    mirrored: Array = harmonics * np.where(band % 2 == 1, -1.0, 1.0)[None, :, None]
    return mirrored.astype(np.float32)


def _named(names: tuple[str, ...], values: Any) -> dict[str, Array]:
    return dict(zip(names, np.asarray(values).T, strict=True))


def _rest(harmonics: Array) -> dict[str, Array]:
    """Return the higher coefficients, channel by channel."""
    flat = np.swapaxes(harmonics[:, 1:], 1, 2).reshape(len(harmonics), 3 * harmonics.shape[1] - 3)
    return {f"f_rest_{i}": flat[:, i] for i in range(flat.shape[1])}


def _vertices(path: Path, budget: Budget) -> Array:
    """Read the element `vertex` of a file as a structured array."""
    try:
        data = read_file(path, budget)
    except OSError as error:
        raise FormatError(
            f"{path} cannot be read: {error.strerror or error}", remedy="check the path"
        ) from error
    found = _END.search(data)
    if not data.startswith((b"ply\n", b"ply\r\n")) or found is None:
        raise FormatError(f"{path}: this is no .ply file", remedy="pass a .ply file")
    header = data[: found.start()].decode("ascii", "replace")
    lines = [words for line in header.splitlines() if (words := line.split())]
    order = next((line[1] for line in lines if line[0] == "format" and len(line) > 1), "")
    if order not in _ORDERS:
        raise FormatError(
            f"{path}: format {order or '(none)'} is not read",
            remedy=f"convert the file to one of: {', '.join(_ORDERS)}",
        )
    count, fields = _layout(path, lines, _ORDERS[order])
    dtype = np.dtype(fields)
    start = found.end()
    if len(data) - start < count * dtype.itemsize:
        raise FormatError(
            f"{path}: {len(data) - start} bytes follow the header; {count} splats take "
            f"{count * dtype.itemsize}",
            remedy="the file is cut short: get it again",
        )
    return np.frombuffer(data, dtype, count, start)


def _layout(path: Path, lines: list[list[str]], order: str) -> tuple[int, list[tuple[str, str]]]:
    """Return how many vertices there are, and their properties; the vertices come first."""
    declared = [line for line in lines if line[0] in ("element", "property")]
    count = _vertex_count(path, declared)
    fields = list[tuple[str, str]]()
    for kind, *words in declared[1:]:
        if kind == "element":
            break
        if len(words) != 2 or words[0] not in _DTYPES:
            raise FormatError(
                f"{path}: '{' '.join([kind, *words])}' declares no number of a splat",
                remedy="pass a file of Gaussian splats",
            )
        fields.append((words[1], order + _DTYPES[words[0]]))
    names = [name for name, _ in fields]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise FormatError(
            f"{path}: property {twice[0]} is declared twice",
            remedy="pass a file of Gaussian splats",
        )
    return count, fields


def _vertex_count(path: Path, declared: list[list[str]]) -> int:
    """Return how many vertices the first element says that there are."""
    if not declared or declared[0][:2] != ["element", "vertex"]:
        raise FormatError(
            f"{path}: its first element is not `vertex`", remedy="pass a file of Gaussian splats"
        )
    words = declared[0][2:]
    if len(words) != 1 or not words[0].isdecimal():
        raise FormatError(
            f"{path}: the number of vertices is {' '.join(words) or 'missing'}",
            remedy="pass a file of Gaussian splats",
        )
    return int(words[0])
