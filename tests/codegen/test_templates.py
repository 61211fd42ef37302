"""Templates of generated files print nothing bare that may come from outside."""

from __future__ import annotations

import ast
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
from jinja2 import Environment, FileSystemLoader, TemplateAssertionError, nodes

import rlx
from rlx.codegen.aot import view
from rlx.codegen.c.printed import FIELDS, PRINTED
from rlx.codegen.c.templates import environment
from rlx.codegen.text import Emitted
from rlx.errors import InternalError
from rlx.report.page import report_environment

ROOT = Path(rlx.__file__).parent
CODE, REPORT = ROOT / "codegen/templates", ROOT / "report/templates"

CALLS_OF_VERBATIM = {
    "codegen/aot/artifact_view.py": {"_about", "_arguments", "_memory"},
    "codegen/aot/emit.py": {"emit_artifact"},
    "codegen/aot/freestanding.py": {"_renamed", "without_libm"},
    "codegen/aot/view.py": {
        *("", "_factor_text", "_literal", "_step_view", "extent_text", "filled", "size_text"),
        "tensor_view",
    },
    "codegen/c/emit.py": {
        "_view",
        "emit_source",
        "entry_signature",
        "kernel",
        "kernel_prototype",
    },
    "codegen/c/prototypes.py": {"_prototype"},
    "codegen/c/slots.py": {"_target"},
    "codegen/c/templates.py": {"strict_environment"},
}
"""By module, the functions that declare what they print to be safe: a new one escapes first."""


@pytest.mark.parametrize(
    "source",
    ["{{ a + b }}", "{{ a ~ b }}", "{{ a | upper }}", "{{ a | safe }}", "{{ a() }}",
     "{{ '%s' % a }}", "{{ 'x' + a if a else 'y' }}", "{{ [a] | join(',') }}", "{{ name() }}",
     "{{ name | first }}", "{% filter upper %}{{ name }}{% endfilter %}"],
)  # fmt: skip
def test_template_that_makes_text_by_itself_is_refused_when_it_is_loaded(source: str) -> None:
    with pytest.raises(TemplateAssertionError):
        environment().from_string(source)


@pytest.mark.parametrize(
    "source",
    ["{{ t.name }}", "{{ t.shape }}", "{{ symbol.name }}", "{{ a }}", "{{ t['name'] }}",
     "{{ t.name if a else 'x' }}", "{{ 'x' if a else t.note }}", "{{ a.flags | join(' ') }}",
     "{% for x in y %}{{ x }}{% endfor %}", "{% macro m(x) %}{{ x }}{% endmacro %}"],
)  # fmt: skip
def test_template_that_prints_a_name_bare_is_refused_when_it_is_loaded(source: str) -> None:
    with pytest.raises(TemplateAssertionError, match="is printed bare"):
        environment().from_string(source)


@pytest.mark.parametrize(
    "source",
    ["{{ a.name }}", "{{ a.name if a else '' }}", "{{ a.run_names | join(', ') }}",
     "{% for name in a.run_names %}{{ name }}{% endfor %}",
     "{% set name = a.name %}{{ name }}"],
)  # fmt: skip
def test_text_in_a_declared_field_is_refused_when_it_is_printed(source: str) -> None:
    template = environment().from_string(source)
    for value in ("x", 1.5, True, None):
        with pytest.raises(InternalError, match="without an escape"):
            template.render(a={"name": value, "run_names": [value]})


@pytest.mark.parametrize(
    ("source", "shown"),
    [("{{ a | c_string }}", '"x\\""'), ("{{ a | c_comment }}", 'x"'), ("{{ 3 }}", "3"),
     ("{{ 'own' if a else 'words' }}", "own"), ("{{ '' }}", ""), ("{{ a | length }}", "2")],
)  # fmt: skip
def test_template_prints_its_own_words_and_what_is_escaped(source: str, shown: str) -> None:
    assert environment().from_string(source).render(a='x"') == shown


@pytest.mark.parametrize("path", sorted(CODE.iterdir()), ids=lambda path: path.name)
def test_every_template_of_code_loads(path: Path) -> None:
    environment().get_template(path.name)


def test_every_declared_field_is_printed_by_a_template() -> None:
    """A field that no template prints any more would let a later one print it unseen."""
    text = "\n".join(path.read_text() for path in CODE.iterdir())
    plain = Environment(loader=FileSystemLoader(CODE)).parse(text)
    shown = set()
    for node in plain.find_all((nodes.Name, nodes.Getattr)):
        shown.add(node.name if isinstance(node, nodes.Name) else path_of(node))
    assert shown >= PRINTED


def path_of(node: nodes.Node) -> str:
    """Return a chain of fields without its subscripts."""
    if isinstance(node, nodes.Name):
        return node.name
    if isinstance(node, nodes.Getitem):
        return path_of(node.node)
    return f"{path_of(node.node)}.{node.attr}" if isinstance(node, nodes.Getattr) else ""


@pytest.mark.parametrize(
    ("called", "record"),
    [("t", view.TensorView), ("constant", view.ConstantView), ("symbol", view.SymbolView),
     ("step", view.StepView), ("status", view.StatusView),
     ("a.arguments", view.TensorView), ("a.constants", view.ConstantView)],
)  # fmt: skip
def test_declared_fields_are_escaped_text_or_integers(called: str, record: type) -> None:
    types = typing.get_type_hints(record)
    allowed = (Emitted, int, tuple[int, ...], tuple[Emitted, ...])
    assert {types[field] for field in FIELDS[called].split()} <= set(allowed)


def test_report_prints_values_that_its_environment_escapes() -> None:
    made = report_environment()
    assert made.autoescape is True
    assert set(made.filters) == {"join"}
    for path in REPORT.glob("*.j2"):
        tree = made.parse(path.read_text())
        for output in tree.find_all(nodes.Output):
            for node in output.nodes:
                joined = isinstance(node, nodes.Filter) and node.name == "join"
                assert joined or isinstance(
                    node, nodes.TemplateData | nodes.Name | nodes.Getattr | nodes.Const
                ), f"{path.name}:{node.lineno}"
        assert not list(tree.find_all((nodes.ScopedEvalContextModifier, nodes.MarkSafe)))


def test_files_that_the_report_includes_are_no_templates() -> None:
    for path in REPORT.iterdir():
        if path.suffix != ".j2":
            assert not any(mark in path.read_text() for mark in ("{{", "{%", "{#")), path.name
            assert "innerHTML" not in path.read_text(), path.name


def test_all_templates_are_in_the_folders_that_are_checked() -> None:
    assert {path.parent for path in ROOT.rglob("*.j2")} == {CODE, REPORT}
    loaders = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.rglob("*.py"))
               if "PackageLoader(" in path.read_text()]  # fmt: skip
    assert loaders == ["codegen/c/templates.py", "report/page.py"]


def test_functions_that_declare_text_to_be_safe() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        source = path.read_text()
        if path != ROOT / "codegen/text.py" and ("verbatim" in source or "Emitted" in source):
            names = set(uses_of_verbatim(ast.parse(source), ""))
            if names:
                found[path.relative_to(ROOT).as_posix()] = names
    assert found == CALLS_OF_VERBATIM


def uses_of_verbatim(tree: ast.AST, function: str) -> Iterator[str]:
    """Yield the name of the function around each use; "" for the module itself."""
    for node in ast.iter_child_nodes(tree):
        inner = node.name if isinstance(node, ast.FunctionDef) else function
        made = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Emitted"
        if made or (isinstance(node, ast.Name | ast.Attribute) and name_of(node) == "verbatim"):
            yield inner
        yield from uses_of_verbatim(node, inner)


def name_of(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr
