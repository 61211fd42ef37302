"""The report's page of hostile names has the elements and attributes of an innocent one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from rlx.errors import Source
from rlx.ir.graph import Graph
from rlx.report.assembly import assembly_of
from rlx.report.data import report_data
from rlx.report.page import render_page
from rlx.report.stages import Stages
from rlx.target import named_target
from tests.aot.building import needs_compiler
from tests.hostile_names import TEXTS, WORDS

Tag = tuple[str, tuple[tuple[str, str | None], ...]]


class Elements(HTMLParser):
    """Collects start and end tags, comments and declarations, and the text of scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[Tag] = []
        self.scripts: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.found.append((f"/{tag}", ()))

    def handle_comment(self, data: str) -> None:
        self.found.append(("comment", ((data, None),)))

    def handle_decl(self, decl: str) -> None:
        self.found.append((decl, ()))

    def handle_data(self, data: str) -> None:
        in_script = self.found and self.found[-1][0] == "script"
        (self.scripts if in_script else self.text).append(data)


def page(name: Callable[[], str]) -> str:
    """Return the page of a program in which what can have a name has one of `name`."""
    g = Graph(name())
    with g.attributed(Source(name(), 3, name()), name()):
        x, w = g.input(name(), (4, 8)), g.param(name(), (8, 8))
        y = g.named(g.matmul(x, w), name=name())
    with g.attributed(Source(name(), 7, name()), name()):
        z = g.named(g.softmax(g.exp(g.matmul(y, g.param(name(), (8, 3)))), axis=-1), name=name())
    g.set_outputs([z, g.tanh(y)])
    return render_page(report_data(Stages.of(g, named_target("x86-64-v3"), None)))


def names(first: int, given: tuple[str, ...]) -> Callable[[], str]:
    return itertools.chain(given[first:], (f"{text}{i}" for i, text in enumerate(given))).__next__


@pytest.mark.parametrize("first", range(0, len(TEXTS), 6))
def test_page_has_the_elements_of_one_with_innocent_names(first: int) -> None:
    counter = itertools.count()
    plain = Elements(page(lambda: f"name_{next(counter)}"))
    made = Elements(page(names(first, (*TEXTS, *WORDS))))
    assert made.found == plain.found
    assert len(made.scripts) == len(plain.scripts) == 2
    assert made.scripts[1] == plain.scripts[1]  # the code; the first is data
    assert json.loads(made.scripts[0])["name"] == TEXTS[first]


def test_hostile_name_is_text_of_the_page() -> None:
    evil = "</title><script>alert(1)</script>"
    counter = itertools.chain([evil], (f"n{i}" for i in itertools.count()))
    assert evil in "".join(Elements(page(counter.__next__)).text)


@needs_compiler
@pytest.mark.parametrize("name", ["rlx_info", "../../x", "-o/tmp/evil", "long" * 100])
def test_files_of_a_compiler_have_names_of_ours(name: str) -> None:
    g = Graph(name)
    g.set_outputs([g.exp(g.input("x", (2,)))])
    stages = Stages.of(g, named_target("x86-64-v3"), None)
    assert "ret" in assembly_of(stages.program, g, named_target("x86-64-v3"), "x86-64-v3")
