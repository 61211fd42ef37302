"""Text graphs, serialized graphs and programs: of random programs, with words of them changed."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

from rlx.codegen.program_file import dumps_program, loads_program
from rlx.errors import RlxError
from rlx.ir.graph import Graph
from rlx.ir.parser import parse_graph
from rlx.ir.printer import format_graph
from rlx.ir.serialize import dumps, load
from rlx.ir.verify import verify
from rlx.limits import LoadLimits
from rlx.runtime.lower import lower_for
from rlx.target import detect_target
from tests.fuzz.check import trace
from tests.fuzz.files.case import Kind, Loaded, Rng, chosen
from tests.fuzz.generate import program
from tests.fuzz.mutations import damaged_bytes, damaged_json, damaged_words

_LIMITS = LoadLimits(nodes=20_000, elements=1 << 22, bytes=1 << 28, seconds=20.0)


def _graph(rng: Rng) -> Graph:
    """Return the graph of a random program that is a valid one."""
    while True:
        try:
            return trace(program(rng.randrange(1 << 30)))
        except RlxError:
            continue


def _damaged(text: bytes, rng: Rng) -> bytes:
    for _ in range(chosen(rng, (1, 0), (4, 1), (2, 2), (1, 5))):
        text = damaged_words(text, rng)
    return text


def drawn_text(rng: Rng) -> bytes:
    return _damaged(format_graph(_graph(rng), sources=rng.random() < 0.2).encode(), rng)


def loaded_text(path: Path, rng: Rng) -> Loaded:
    del rng
    graph = parse_graph(path.read_text(errors="replace"), file=str(path), limits=_LIMITS)
    verify(graph)
    assert parse_graph(format_graph(graph)) == graph
    return Loaded(graph)


def drawn_serialized(rng: Rng) -> bytes:
    text, data = parts_of_graph(dumps(_graph(rng)))
    if data and rng.random() < 0.3:
        data = damaged_bytes(data, rng)
    content = sealed_graph(_damaged(text, rng), data)
    return damaged_bytes(content, rng) if rng.random() < 0.1 else content


def loaded_serialized(path: Path, rng: Rng) -> Loaded:
    del rng
    graph = load(path, limits=_LIMITS)
    verify(graph)
    return Loaded(graph)


def parts_of_graph(content: bytes) -> tuple[bytes, bytes]:
    first, rest = content.split(b"\n", 1)
    _, _, text, data, _ = first.split()
    return rest[: int(text)], content[len(content) - int(data) :]


def sealed_graph(text: bytes, data: bytes) -> bytes:
    digest = hashlib.sha256(text + data).hexdigest()
    content = f"rlx-graph 1 {len(text)} {len(data)} {digest}\n".encode() + text
    return content + b"\n" * (-len(content) % 64) + data


def drawn_program(rng: Rng) -> bytes:
    """Return a program whose plan, or graph, is changed, with hashes that fit."""
    try:
        content = dumps_program(lower_for(_graph(rng), detect_target()))
    except RlxError:
        return drawn_program(random.Random(rng.random()))
    first, rest = content.split(b"\n", 1)
    graph, plan = rest[: int(first.split()[2])], rest[int(first.split()[2]) :]
    for _ in range(chosen(rng, (1, 0), (4, 1), (1, 3))):
        if rng.random() < 0.75:
            plan = json.dumps(damaged_json(json.loads(plan), rng)).encode()
        else:
            text, data = parts_of_graph(graph)
            graph = sealed_graph(damaged_words(text, rng), data)
    digest = hashlib.sha256(graph + plan).hexdigest()
    content = f"rlx-program 1 {len(graph)} {len(plan)} {digest}\n".encode() + graph + plan
    return damaged_bytes(content, rng) if rng.random() < 0.1 else content


def loaded_program(path: Path, rng: Rng) -> Loaded:
    del rng
    program = loads_program(path.read_bytes(), limits=_LIMITS)
    verify(program.graph)
    return Loaded(None)


TEXT = Kind("text", ".txt", drawn_text, loaded_text)
SERIALIZED = Kind("serialized", ".rlx", drawn_serialized, loaded_serialized)
PROGRAM = Kind("program", ".rlxp", drawn_program, loaded_program)
