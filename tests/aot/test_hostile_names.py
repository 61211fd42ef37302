"""Names from outside in artifacts: no token of a generated file is theirs, and none of them runs.

A program is exported with innocent names and with hostile ones. All files must have the same
tokens, but for identifiers and the content of strings, compile strictly, and run.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import rlx
from rlx.errors import Source
from rlx.ir.graph import Graph
from rlx.ir.shape import Dim
from rlx.runtime.aot import Artifact
from tests.aot.building import STRICT, needs_compiler, require, run
from tests.c_lexer import Token, string_content, tokens
from tests.hostile_names import TEXTS, WORDS, drawn_names

Naming = Callable[[], str]

MODES: dict[str, dict[str, Any]] = {
    "plain": {},
    "openmp": {"threads": "openmp"},
    "callback": {"threads": "callback", "line_directives": True},
    "c99": {"vectors": "none", "math": "none"},
}


def innocent() -> Iterator[str]:
    return (f"name_{number}" for number in itertools.count())


def texts() -> Iterator[str]:
    """Yield all hostile texts and words; whatever comes after them is distinct."""
    yield from (*TEXTS, *WORDS)
    yield from (f'{text}"\n{number}' for number, text in enumerate(itertools.cycle(TEXTS)))


def words() -> Iterator[str]:
    """Yield words first: a name that is an identifier reaches more places."""
    yield from WORDS
    yield from texts()


def program(name: Naming, extent: str = "rows") -> Graph:
    """Return a program with names from `name` wherever one may be given."""
    g = Graph(name())
    n = Dim(extent, max=3)
    with g.attributed(Source(name(), 3, name()), name()):
        x, table = g.input(name(), (n, 4)), g.param(name(), (5, 1, 4))
        at = g.input(name(), (n,), "i64")
        kept, embedded = g.param(name(), (4, 4)), g.param(name(), (4,))
        body = Graph(name())
        with body.attributed(Source(name(), 5, name()), name()):
            carry, row = body.input(name(), (1, 4)), body.input(name(), (1, 4))
            body.set_outputs([body.tanh(body.matmul(row, body.constant(np.eye(4)[::-1], "f32")))
                              + carry, body.named(row * 2.0, name=name())])  # fmt: skip
        last, rows = g.scan(g.constant(np.ones((1, 4)), "f32"), table, body=body, length=5,
                            num_carries=1)  # fmt: skip
        y = g.named(g.matmul(x, kept), name=name()) + embedded + last
        z = g.gather(rows, at, axis=0)
        unused = g.input(name(), (2,))
        g.set_outputs([y, z, g.exp(unused)])
    return g


def export(directory: Path, graph: Graph, **options: Any) -> Artifact:
    values = {value.node.attrs["name"]: np.ones(value.type.static_shape, "f4")
              for value in graph.params}  # fmt: skip
    kept = dict(zip(values, ("argument", "file", "embed"), strict=True))
    return rlx.aot(graph, directory, params=values, weights=kept, emit_only=True, **options)


def compile_all(artifact: Artifact, *flags: str) -> None:
    """Compile all C strictly, the header as C++ too, and run the sample program."""
    place, name, compiler = artifact.directory, artifact.name, require("gcc")
    flags = (*STRICT, "-O0", *flags)
    run(compiler, "-std=c11", *flags, "-fPIC", "-shared", artifact.source, "-o", "lib.so", "-lm",
        cwd=place)  # fmt: skip
    run(require("g++"), "-x", "c++", "-std=c++20", *STRICT, "-Wno-shadow", "-fsyntax-only",
        artifact.header)  # fmt: skip
    run(compiler, *flags, "-Wno-shadow", "main.c", f"{name}.c", "-o", "sample", "-lm", cwd=place)
    ctypes.CDLL(str(place / "lib.so"))
    run(place / "sample", cwd=place)


def check_same_tokens(one: Artifact, other: Artifact) -> None:
    """Compare all C of two artifacts: token by token, but for the names in it."""
    for file in ("main.c", f"{one.name}.h", f"{one.name}.c", "CMakeLists.txt", f"{one.name}.pc"):
        contents = [(each.directory / file).read_text(encoding="utf-8") for each in (one, other)]
        if file.endswith((".c", ".h")):
            first, second = (list(map(blanked, tokens(text))) for text in contents)
            assert first == second, file
        else:
            assert contents[0] == contents[1]


def blanked(token: Token) -> tuple[str, str]:
    """Return a token without what may differ: names, their strings, and the hash of it all."""
    if token.kind in ("identifier", "string"):
        return token.kind, ""
    is_hash = token.kind == "number" and token.text.startswith("0x") and len(token.text) == 18
    return token.kind, "0x" if is_hash else token.text


def identifiers(artifact: Artifact) -> set[str]:
    """Return all identifiers in the C of an artifact."""
    files = (artifact.source, artifact.header, artifact.sample, artifact.info_header)
    found = (token for file in files for token in tokens(file.read_text(encoding="utf-8")))
    return {token.text for token in found if token.kind == "identifier"}


def names_in_c(artifact: Artifact) -> list[str]:
    """Return the names of tensors and extents that the library gives at run time."""
    after = [token.text for token in tokens(artifact.source.read_text(encoding="utf-8"))]
    places = (i for i in range(3, len(after)) if after[i - 3 : i] == [".", "name", "="])
    return [string_content(after[place]) for place in places]


@pytest.fixture(autouse=True)
def _in_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a library runs when it is loaded, runs here."""
    monkeypatch.chdir(tmp_path)


@needs_compiler
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("naming", [texts, words])
def test_artifact_has_the_tokens_of_one_with_innocent_names(
    tmp_path: Path, mode: str, naming: Callable[[], Iterator[str]]
) -> None:
    options = {"name": "model", "output_names": ["first", "second", "third"], **MODES[mode]}
    plain = export(tmp_path / "plain", program(innocent().__next__), **options)
    chosen = naming()
    graph = program(chosen.__next__, "int")
    options["output_names"] = [next(chosen) for _ in range(3)]
    artifact = export(tmp_path / "hostile", graph, **options)
    check_same_tokens(plain, artifact)
    leaves = [str(leaf.node.name) for leaf in (*graph.inputs, *graph.params)]
    shown = [*leaves[:3], *options["output_names"], *leaves[3:], "model"]
    assert sorted(names_in_c(artifact)) == sorted(shown)
    manifest = json.loads(artifact.manifest_path.read_text())
    assert [each["name"] for each in manifest["inputs"]] == leaves[:3]
    if mode != "openmp":  # the same code but for a pragma
        compile_all(artifact, *(["-std=c99"] if mode == "c99" else []))
    assert not list(tmp_path.rglob("ran"))


@pytest.mark.slow
@pytest.mark.whole
@needs_compiler
@pytest.mark.parametrize("threads", [None, "callback"])
def test_every_identifier_of_generated_code_may_be_a_name(
    tmp_path: Path, threads: str | None
) -> None:
    found = sorted(identifiers(export(tmp_path / "a", program(innocent().__next__), name="model",
                                      threads=threads)))  # fmt: skip
    assert {"model_arena_name_4", "run_phase" if threads is None else "run_all"} <= set(found)
    g = Graph("model")
    inputs = [g.input(name, (2,)) for name in found]
    extents = [name for name in found if not name.startswith("_")][::7]
    sized = [g.input(f"x_{name}", (Dim(name, max=2, min=2),)) for name in extents]
    g.set_outputs([g.concat(*inputs, axis=0), g.exp(g.concat(*sized, axis=0))])
    artifact = rlx.aot(g, tmp_path / "b", threads=threads, emit_only=True,
                       output_names=["memcpy", "MODEL_OK"])  # fmt: skip
    compile_all(artifact, "-Wno-shadow")  # an argument may have the name of a type of the header


@needs_compiler
@pytest.mark.parametrize("name", ["model", "rlx_info", "int", "x", "M", "INT8", "run", "at", 'a"b'])
def test_identifiers_of_an_artifact_are_its_own(tmp_path: Path, name: str) -> None:
    g = Graph(name)
    names = (name, f"{name}_arena_x", "x", f"{name.upper()}_OK", f"{name.upper()}_X_BYTES",
             f"{name}_run", f"{name.upper()}_H", "stack", "x_bytes", "max_n", "N")  # fmt: skip
    shape = (Dim("n", max=2), Dim("n_bytes", max=2))
    inputs = [g.input(each, shape) for each in dict.fromkeys(names)]
    g.set_outputs([g.exp(g.concat(*inputs, axis=0))])
    compile_all(rlx.aot(g, tmp_path, emit_only=True))


@needs_compiler
@pytest.mark.parametrize("threads", [None, "openmp", "callback"])
def test_extents_may_be_called_as_variables_are(tmp_path: Path, threads: str | None) -> None:
    names = ("arena", "weights", "constants", "status", "part", "parts", "frame", "used",
             "context", "parallel_for", "i", "count", "memcpy", "n", "N")  # fmt: skip
    g = Graph("named")
    inputs = [g.input(f"x_{name}", (Dim(name, max=4, min=2), 3)) for name in names]
    g.set_outputs([g.tanh(g.concat(*inputs, axis=0)), g.exp(inputs[0] @ g.param("w", (3, 3)))])
    compile_all(rlx.aot(g, tmp_path, emit_only=True, threads=threads))


@needs_compiler
def test_function_with_hostile_keys_exports(tmp_path: Path) -> None:
    keys = [*TEXTS, *WORDS]

    def function(params: dict[str, Any], x: Any) -> dict[str, Any]:
        return {key: value + x for key, value in params.items()}

    params = {key: np.ones(2, "f4") for key in keys}
    artifact = rlx.aot(rlx.jit(function), tmp_path, example_inputs=(params, np.ones(2, "f4")),
                       param_argnums=(0,), weights="embed", emit_only=True)  # fmt: skip
    compile_all(artifact)
    assert not list(tmp_path.rglob("ran"))


@needs_compiler
@pytest.mark.slow
@settings(max_examples=3, deadline=None, phases=[Phase.generate])
@given(st.lists(drawn_names.filter(str.strip), min_size=60, max_size=80, unique=True))
def test_drawn_names_are_text(names: list[str]) -> None:
    """Many names for one artifact: compilers are slow."""
    place = Path(tempfile.mkdtemp(dir=Path.cwd()))
    plain = export(place / "plain", program(innocent().__next__), name="model")
    chosen = itertools.chain(names, (f"{names[0]}{i}" for i in itertools.count()))
    artifact = export(place / "drawn", program(chosen.__next__, "int"), name="model")
    check_same_tokens(plain, artifact)
    g = Graph("model")
    g.set_outputs([g.exp(g.concat(*(g.input(name, (2,)) for name in names), axis=0))])
    wide = rlx.aot(g, place / "wide", emit_only=True)
    assert set(names_in_c(wide)) >= {n.encode("utf-8", "backslashreplace").decode() for n in names}
    compile_all(wide)
    assert not list(place.rglob("ran"))


def test_object_and_its_c_have_the_tokens_of_innocent_names(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    made = []
    for place, naming in (("plain", innocent()), ("hostile", texts())):
        graph = program(naming.__next__, "rows" if place == "plain" else "int")
        values = {v.node.attrs["name"]: np.ones(v.type.static_shape, "f4") for v in graph.params}
        made.append(rlx.aot(graph, tmp_path / place, name="model", params=values, backend="llvm"))
    paths: Sequence[Path] = [artifact.api for artifact in made if artifact.api is not None]
    first, second = (list(map(blanked, tokens(path.read_text()))) for path in paths)
    assert first == second
