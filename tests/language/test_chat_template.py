"""Chat templates of files: whatever one computes, the answer is a prompt or a typed error."""

from __future__ import annotations

import pytest

pytest.importorskip("jinja2")

from rlx.errors import FormatError, UnsupportedError
from rlx.language.chat_template import prompt

MESSAGES = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]

REFUSED = {
    "syntax": "{% for %}",
    "division": "{{ 1 / 0 }}",
    "type": "{{ messages + 1 }}",
    "missing": "{{ messages.a.b }}",
    "unknown filter": "{{ 'a' | nothing }}",
    "no trips left": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}"
    "{% endfor %}",
    "large range": "{% for a in range(10000000000) %}{% endfor %}",
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "repeated text": "{{ 'a' * 10000000000 }}",
    "repeated list": "{{ [1] * 10000000000 }}",
    "power": "{{ 10 ** 10 ** 10 }}",
    "format": "{{ '%10000000000d' % 1 }}",
    "format filter": "{{ '%10000000000d' | format(1) }}",
    "format method": "{{ '{:10000000000}'.format(1) }}",
    "padding filter": "{{ 'a' | center(10000000000) }}",
    "padding method": "{{ 'a'.ljust(10000000000) }}",
    "indents": "{{ [1] | tojson(indent=10000000000) }}",
    "padding of a time": "{{ strftime_now('%1000000000d') }}",
    "lorem ipsum": "{{ lipsum(n=100000000) }}",
    "doubling": "{% set n = namespace(x='a') %}{% for i in range(60) %}"
    "{% set n.x = n.x + n.x %}{% endfor %}",
    "classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "globals": "{{ raise_exception.__globals__.os }}",
    "files": "{% include '/etc/passwd' %}",
    "modules": "{% import 'os' as os %}{{ os.system('touch ran') }}",
    "changed messages": "{{ messages.append(1) }}",
    "own name": "{{ self._TemplateReference__context.environment }}",
}


@pytest.mark.whole
@pytest.mark.parametrize("template", REFUSED.values(), ids=REFUSED)
def test_template_that_fails_or_makes_too_much_is_refused(template: str) -> None:
    with pytest.raises(FormatError, match=r"tokenizer\.chat_template"):
        prompt(template, MESSAGES)


def test_template_that_refuses_messages_says_so() -> None:
    with pytest.raises(UnsupportedError, match="refuses: roles"):
        prompt("{{ raise_exception('roles') }}", MESSAGES)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{% for m in messages %}{{ m.role ~ ':' + m['content'] }}|{% endfor %}",
         "user:a|assistant:b|"),
        ("{% for m in messages %}{{ loop.index0 % 2 }}{% endfor %}", "01"),
        ("{% if add_generation_prompt %}{{ bos_token }}{% endif %}", "<s>"),
        ("{{ messages[1:] | map(attribute='content') | join }}", "b"),
        ("{{ (messages + messages) | length * 2 }}", "8"),
        ("{% macro f(x) %}{{ x.upper() | trim }}{% endmacro %}{{ f(' y ') }}", "Y"),
        ("{{ messages[0] | tojson }}", '{"role": "user", "content": "a"}'),
        ("{{ {'é': '<&>'} | tojson(indent=2) }}", '{\n  "é": "<&>"\n}'),
        ("{% for m in messages %}{{ m.content }}{% break %}{% endfor %}", "a"),
        ("{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.role }}"
         "{% endfor %}", "assistant"),
        ("{% generation %}{{ messages[0].role }}{% endgeneration %}", "user"),
        ("{{ strftime_now('%Y') | length }}{{ strftime_now('%-d %%') | length > 2 }}", "4True"),
    ],
)  # fmt: skip
def test_prompt(template: str, text: str) -> None:
    assert prompt(template, MESSAGES, bos_token="<s>") == text
    assert prompt(template, MESSAGES, bos_token="<s>") == text  # trips are counted anew
