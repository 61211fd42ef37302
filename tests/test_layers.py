"""Imports go one way down the pipeline; packages with a foreign border keep it to themselves."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

import rlx

ROOT = Path(rlx.__file__).parent

LAYERS = (
    (
        "dataclass",
        "errors",
        "garbage",
        "homes",
        "homes_lists",
        "locks",
        "progress",
        "public_names",
        "signal_safe_lock",
    ),
    ("limits",),
    ("files",),
    ("safetensors_file",),
    ("ir",),
    ("gguf",),
    ("cores", "target"),
    ("passes",),
    ("codegen",),
    ("runtime",),
    ("tracing",),
    ("numpy",),
    ("transforms",),
    ("custom", "debug", "ffi", "random", "tree_util"),
    ("blocks", "distributed", "nn", "optim", "quantization", "report", "sparse", "splat"),
    ("onnx", "optimize", "scipy"),
    ("lax",),
    ("jaxpr", "stablehlo", "torch"),
    ("jax",),
    ("language",),
    ("cli", "__main__"),
)
"""A module imports from its own row and those above it."""

BORDERS = {
    "llvmlite": ("codegen/llvm",),
    "cffi": ("runtime",),
    "mpi4py": ("distributed",),
    "onnx": ("onnx",),
    "jax": ("jaxpr", "stablehlo"),
    "jaxlib": ("stablehlo",),
    "torch": ("torch",),
    "functorch": ("torch",),
    "sympy": ("torch",),
    "jinja2": ("codegen", "language", "report"),
    "tokenizers": ("language",),
    "starlette": ("language",),
    "uvicorn": ("cli",),
}
"""Foreign packages, and the only places that may import them."""


@functools.cache
def trees() -> Mapping[Path, ast.Module]:
    """Return the syntax of every source file."""
    return {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}


@functools.cache
def modules() -> Sequence[tuple[Path, list[str]]]:
    """Return every source file with the absolute names it imports, lazily or not."""
    found = []
    for path, tree in trees().items():
        names = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.append(node.module)
        found.append((path.relative_to(ROOT), names))
    return found


def module_name(path: Path) -> str:
    """Return the name by which the source file at `path` in the package is imported."""
    return ".".join(["rlx", *path.with_suffix("").parts]).removesuffix(".__init__")


def import_graph() -> dict[str, set[str]]:
    """Return for every module those that it imports: lazily or not, for annotations alone, too.

    What an `__init__` imports for annotations is the public face of what is inside and not
    counted, nor is the package of a submodule.
    """
    named = {module_name(path.relative_to(ROOT)): tree for path, tree in trees().items()}
    faces = {module_name(p.relative_to(ROOT)) for p in trees() if p.name == "__init__.py"}
    return {
        name: set(_imported(tree, set(named), annotations=name not in faces))
        for name, tree in named.items()
    }


def _imported(node: ast.AST, known: set[str], *, annotations: bool) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if not annotations and isinstance(child, ast.If) and _is_for_annotations(child):
            continue
        names: list[str] = []
        if isinstance(child, ast.Import):
            names = [alias.name for alias in child.names]
        elif isinstance(child, ast.ImportFrom) and child.module:
            inner = [f"{child.module}.{alias.name}" for alias in child.names]
            names = [name if name in known else child.module for name in inner]
        yield from (name for name in names if name in known)
        yield from _imported(child, known, annotations=annotations)


def _is_for_annotations(block: ast.If) -> bool:
    return "TYPE_CHECKING" in ast.unparse(block.test)


def circle_in(graph: dict[str, set[str]]) -> list[str]:
    """Return modules of which each imports the next, and the last the first; none if there are."""
    done: set[str] = set()

    def search(name: str, path: list[str]) -> list[str]:
        if name in path:
            return path[path.index(name) :]
        if name in done:
            return []
        for other in sorted(graph[name]):
            if found := search(other, [*path, name]):
                return found
        done.add(name)
        return []

    return next((found for name in sorted(graph) if (found := search(name, []))), [])


def layer(name: str) -> int:
    for number, row in enumerate(LAYERS):
        if name in row:
            return number
    raise AssertionError(f"rlx.{name} is in no layer")


@pytest.mark.slow
def test_no_module_imports_from_a_later_stage() -> None:
    wrong = []
    for path, names in modules():
        own = path.parts[0].removesuffix(".py")
        if own == "__init__":
            continue  # the public face names everything
        for name in names:
            parts = name.split(".")
            if parts[0] == "rlx" and len(parts) > 1 and layer(parts[1]) > layer(own):
                wrong.append(f"{path} imports {name}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_modules_import_each_other_without_circles() -> None:
    assert not circle_in(import_graph())


PUBLIC = ("custom", "errors", "files", "limits", "numpy", "public_names", "splat", "tracing")
"""Modules of rlx that the ops of Gaussian splatting, and its scenes and files, are made with."""


def test_splatting_uses_what_any_package_of_ops_can() -> None:
    used = {
        (path.as_posix(), name)
        for path, names in modules()
        for name in names
        if path.parts[0] == "splat" and name.startswith("rlx.")
    }
    assert {(path, name) for path, name in used if name.split(".")[1] not in PUBLIC} == set()
    of_tracing = {path for path, name in used if name.startswith("rlx.tracing")}
    assert of_tracing == {"splat/render.py", "splat/scene.py"}


def test_nothing_in_the_core_names_splatting() -> None:
    naming = {
        path.relative_to(ROOT).as_posix()
        for path in trees()
        if re.search(r"rlx[./]splat|gaussian_splat|splatting", path.read_text())
    }
    assert {path for path in naming if not path.startswith("splat/")} == set()


DECLARED_TOGETHER = {"rlx.ir.index_maps": "rlx.ir.ops"}
"""Modules that are counted as part of a folder: bodies of ops are checked by index maps of ops."""


def folder_graph(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return for every folder of a package, or module next to them, those that it imports from."""

    def folder(name: str) -> str:
        inside = ".".join(name.split(".")[:3])
        return DECLARED_TOGETHER.get(inside, inside)

    faces = {module_name(p.relative_to(ROOT)) for p in trees() if p.name == "__init__.py"}
    found: dict[str, set[str]] = {folder(name): set() for name in graph}
    for name, used in graph.items():
        found[folder(name)] |= {folder(other) for other in used - faces} - {folder(name)}
    return found


@pytest.mark.slow
def test_folders_import_each_other_in_one_direction() -> None:
    assert not circle_in(folder_graph(import_graph()))


def test_a_circle_is_found_where_there_is_one() -> None:
    tree = {"a": {"b", "d"}, "b": {"c"}, "c": {"b"}, "d": set[str]()}
    assert circle_in(tree) == ["b", "c"]
    assert not circle_in({**tree, "c": {"d"}})


def test_imports_for_annotations_are_imports() -> None:
    tree = ast.parse("if TYPE_CHECKING:\n    from a.b import C\ndef f():\n    import a.c\n")
    assert set(_imported(tree, {"a.b", "a.c"}, annotations=True)) == {"a.b", "a.c"}
    assert set(_imported(tree, {"a.b", "a.c"}, annotations=False)) == {"a.c"}


@pytest.mark.parametrize(
    "entry", ["transforms.jit", "transforms.differentiate", "numpy", "nn", "optim"]
)
def test_traced_arrays_have_their_methods_whatever_is_imported_first(entry: str) -> None:
    code = (
        f"import rlx.{entry}\nfrom rlx.tracing.tracer import Tracer\n"
        "assert all(hasattr(Tracer, n) for n in ('__add__', '__radd__', 'sum', 'at', 'T'))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    "entry", ["ir.index_maps", "codegen.kernels.build", "codegen.lower", "passes.effects"]
)
def test_a_module_that_ops_are_declared_with_may_be_imported_first(entry: str) -> None:
    """`import rlx` declares no ops: what reads their declarations may be the first to ask."""
    subprocess.run([sys.executable, "-c", f"import rlx, rlx.{entry}"], check=True, timeout=60)


def test_foreign_packages_stay_behind_their_border() -> None:
    wrong = []
    for path, names in modules():
        for name in names:
            places = BORDERS.get(name.split(".")[0])
            if places and not any(path.as_posix().startswith(place) for place in places):
                wrong.append(f"{path} imports {name}")
    assert not wrong, "\n".join(wrong)


def names_of(statement: ast.stmt) -> list[str]:
    """Return the names that a statement of a module declares."""
    match statement:
        case ast.ClassDef(name=name):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case _:
            return []


@functools.cache
def places_of_names() -> Mapping[str, Sequence[str]]:
    """Return where rlx, its tests and benchmarks declare a name, but for `_` around it."""
    found: dict[str, list[str]] = {}
    for folder in ("rlx", "tests", "bench"):
        for path in sorted((ROOT.parent / folder).rglob("*.py")):
            for statement in ast.parse(path.read_text()).body:
                for name in names_of(statement):
                    found.setdefault(name.strip("_"), []).append(str(path))
    return found


@pytest.mark.parametrize("name", ["Program", "Parts", "Layout", "Carried", "Bound", "Target"])
def test_a_common_word_is_the_name_of_one_thing(name: str) -> None:
    declared = places_of_names().get(name, ())
    assert len(declared) <= 1, declared


def test_there_is_no_drawer_for_everything() -> None:
    banned = {"utils.py", "helpers.py", "common.py", "misc.py"}
    assert not [path for path, _ in modules() if path.name in banned]
