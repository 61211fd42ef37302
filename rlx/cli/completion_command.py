"""`rlx completion`: a completion script for a shell, made from the parser itself."""

from __future__ import annotations

from argparse import Action, ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Iterator, Mapping

from rlx.cli.output import show
from rlx.cli.parser import make_parser
from rlx.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Option:
    """`--stage`, what it may be set to, and its help."""

    names: tuple[str, ...]
    choices: tuple[str, ...]
    help: str


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand: its purpose, options, and words for its positional argument."""

    name: str
    help: str
    options: tuple[Option, ...]
    words: tuple[str, ...]


def execute(arguments: Namespace) -> int:
    show(_SCRIPTS[arguments.shell]())
    return 0


def commands() -> tuple[Command, ...]:
    """Return every subcommand of the parser."""
    (subparsers,) = (a for a in make_parser()._actions if isinstance(a, _SubParsersAction))
    purposes = {choice.dest: choice.help or "" for choice in subparsers._choices_actions}
    return tuple(_command(name, p, purposes) for name, p in subparsers.choices.items())


def bash_script() -> str:
    """Return a bash function and its registration; files complete where no word is known."""
    lines = [
        "_rlx() {",
        '  local word="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"',
        f'  local words="{" ".join(command.name for command in commands())} --help"',
        '  if [ "$COMP_CWORD" -gt 1 ]; then',
        '    case "${COMP_WORDS[1]} $previous" in',
        *(f"      {line}" for line in _bash_choices()),
        "      *)",
        '        case "${COMP_WORDS[1]}" in',
        *(
            f'          {command.name}) words="{" ".join(_words(command))}" ;;'
            for command in commands()
        ),
        "        esac ;;",
        "    esac",
        "  fi",
        '  COMPREPLY=($(compgen -W "$words" -- "$word"))',
        "}",
        "complete -o default -F _rlx rlx",
    ]
    return "\n".join(lines)


def zsh_script() -> str:
    """Return a zsh completion function."""
    lines = [
        "#compdef rlx",
        "_rlx() {",
        "  if (( CURRENT == 2 )); then",
        "    local -a commands=(",
        *(f"      {_quoted(f'{c.name}:{c.help}')}" for c in commands()),
        "    )",
        "    _describe command commands",
        "    return",
        "  fi",
        "  case $words[2] in",
    ]
    for command in commands():
        lines.append(f"    {command.name})")
        specs = [_zsh_spec(option) for option in command.options]
        positional = f"({' '.join(command.words)})" if command.words else "_files"
        specs.append(_quoted(f"*:argument:{positional}"))
        lines.append("      shift words; (( CURRENT-- ))")
        lines.append(f"      _arguments {' '.join(specs)} ;;")
    return "\n".join([*lines, "  esac", "}", "compdef _rlx rlx"])


def fish_script() -> str:
    """Return fish's `complete` commands."""
    lines = []
    for command in commands():
        lines.append(
            f"complete -c rlx -n __fish_use_subcommand -a {command.name} -d {_quoted(command.help)}"
        )
        seen = _quoted(f"__fish_seen_subcommand_from {command.name}")
        if command.words:
            lines.append(f"complete -c rlx -n {seen} -f -a {_quoted(' '.join(command.words))}")
        lines += [f"complete -c rlx -n {seen} {_fish_option(o)}" for o in command.options]
    return "\n".join(lines)


def _command(name: str, parser: ArgumentParser, purposes: Mapping[str, str]) -> Command:
    options = tuple(_option(a) for a in parser._actions if a.option_strings)
    words = [str(w) for a in parser._actions if not a.option_strings for w in a.choices or ()]
    return Command(name, purposes[name], options, tuple(words))


def _option(action: Action) -> Option:
    choices = tuple(map(str, action.choices or ()))
    return Option(tuple(action.option_strings), choices, action.help or "")


def _words(command: Command) -> Iterator[str]:
    yield from command.words
    for option in command.options:
        yield from option.names


def _bash_choices() -> Iterator[str]:
    for command in commands():
        for option in command.options:
            if option.choices:
                pattern = " | ".join(f'"{command.name} {name}"' for name in option.names)
                yield f'{pattern}) words="{" ".join(option.choices)}" ;;'


def _zsh_spec(option: Option) -> str:
    described = f"{option.names[-1]}[{option.help.replace('[', '(').replace(']', ')')}]"
    return _quoted(
        f"{described}:value:({' '.join(option.choices)})" if option.choices else described
    )


def _fish_option(option: Option) -> str:
    flags = [f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names]
    values = f" -x -a {_quoted(' '.join(option.choices))}" if option.choices else ""
    return f"{' '.join(flags)}{values} -d {_quoted(option.help)}"


def _quoted(text: str) -> str:
    """Quote for any of the three shells: none of our texts needs more than that."""
    return "'" + text.replace("'", "") + "'"


_SCRIPTS = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
