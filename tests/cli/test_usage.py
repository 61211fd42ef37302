"""Exit codes, error blocks, help that runs, completion scripts that parse."""

from __future__ import annotations

import ast
import io
import re
import shlex
import shutil
import subprocess
import sys
import time
from argparse import _SubParsersAction
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import rlx
from rlx.cli import progress as progress_module
from rlx.cli.main import main
from rlx.cli.output import show
from rlx.cli.parser import SHELLS, make_parser
from rlx.cli.progress import progress
from rlx.errors import GraphError, Source
from tests.language.folder import load_file, write_folder
from tests.language.test_peft import random_factors, write_adapters
from tests.language.tiny import random_weights, write_model

Capture = pytest.CaptureFixture[str]


def helps() -> dict[str, str]:
    """Return the epilog of every command."""
    parser = make_parser()
    (commands,) = (a for a in parser._actions if isinstance(a, _SubParsersAction))
    found = {name: str(command.epilog) for name, command in commands.choices.items()}
    return {"rlx": str(parser.epilog), **found}


def examples(text: str) -> list[str]:
    return re.findall(r"^  \$ rlx (.*)$", text, re.MULTILINE)


def run_example(line: str) -> int:
    """Run one example; `> file` is the shell's part."""
    command, _, target = line.partition(" > ")
    output = io.StringIO()
    with redirect_stdout(output):
        code = main(shlex.split(command))
    if target:
        Path(target).write_text(output.getvalue())
    return code


LANGUAGE = ("generate", "chat", "embed", "serve")


@pytest.mark.parametrize(
    "command",
    [pytest.param(n, marks=pytest.mark.slow if n in LANGUAGE else ()) for n in helps()],
)
def test_examples_of_the_help_run(
    command: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del workspace
    lines = examples(helps()[command])
    assert lines, f"the help of {command} has no examples"
    if command == "rebuild":
        assert run_example("compile model.rlx -o build") == 0
    if command == "serve":
        pytest.importorskip("starlette")
        monkeypatch.setattr(pytest.importorskip("uvicorn"), "run", lambda *_, **__: None)
    if command in LANGUAGE:
        monkeypatch.setattr("sys.stdin", io.StringIO("hello\n\nand\n"))
        folder = write_folder(Path("SmolLM2-135M-Instruct"), random_weights())
        factors = random_factors(load_file(folder / "model.safetensors"))
        write_adapters(Path("adapters"), factors)
        pytest.importorskip("tokenizers")
        pytest.importorskip("jinja2")
        write_model(Path("model.gguf"), "llama", random_weights(), packed=True)
    if command == "rlx":
        lines = [line.replace("--input", "--params weights.npz --input") for line in lines]
    for line in lines:
        assert run_example(line) == 0, line


@pytest.mark.slow
def test_examples_of_the_documentation_run(workspace: Path) -> None:
    del workspace
    page = Path(__file__).parents[2] / "docs" / "command_line.md"
    lines = re.findall(r"^\$ rlx (.*)$", page.read_text(), re.MULTILINE)
    assert len(lines) > 10
    for line in lines:
        assert run_example(line) == 0, line


def test_no_command_is_wrong_usage(capsys: Capture) -> None:
    assert main([]) == 2
    assert "COMMAND" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ["inspect", "model.rlx", "--stage", "soup"],
        ["run", "model.rlx", "--input", "x"],
        ["inspect", "model.rlx", "--shape", "x=f32"],
        ["inspect", "model.rlx", "--shape", "x=f32[1.5]"],
        ["bench", "model.rlx", "--repeats", "0"],
        ["run", "model.rlx", "--extent", "n=many"],
        ["run", "model.rlx", "--nan-check", "--code", "edited.c"],
        ["compile", "model.rlx"],
    ],
)
def test_wrong_usage_exits_with_two(command: list[str], capsys: Capture) -> None:
    assert main(command) == 2
    assert capsys.readouterr().err.startswith("usage: rlx")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["run", "model.rlx", "--params", "weights.npz"], "input not given: x: f32[4, 6]"),
        (["run", "model.rlx", "--input", "x=x.npy"], "params not given: w1: f32[6, 8]"),
        (["run", "model.rlx", "--input", "x=absent.npy"], "absent.npy: No such file"),
        (["run", "model.rlx", "--input", "x=model.rlx"], "model.rlx: arrays are read from"),
        (["run", "model.rlx", "--random", "0", "--extent", "n=3"], "no symbol is called 'n'"),
        (["run", "model.rlx", "--random", "0", "--output", "y.csv"], "y.csv: outputs are written"),
        (["run", "model.rlx", "--random", "0", "--input", "y=x.npy"], "unknown 'y'"),
        (["inspect", "model.rlx", "--stage", "c", "--kernel", "soup"], "no kernel's name contains"),
        (["inspect", "model.rlx", "--stage", "plan", "--kernel", "s"], "not made of kernels"),
        (["rebuild", "absent"], "there is no directory absent"),
        (["rebuild", "."], "holds 0 artifacts"),
        (["compile", "model.rlx", "-o", "x.npy"], "cannot make the output directory x.npy"),
        (["compile", "model.rlx", "-o", "b", "--target", "vax"], "vax"),
    ],
)
def test_errors_are_one_block_and_exit_with_one(
    command: list[str], words: str, workspace: Path, capsys: Capture
) -> None:
    del workspace
    assert main(command) == 1
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.startswith("rlx: ")
    assert all(line.startswith("  ") for line in captured.err.splitlines()[1:])


def test_a_damaged_array_file_is_named(workspace: Path, capsys: Capture) -> None:
    (workspace / "x.npy").write_bytes(b"\x93NUMPY garbage")
    assert main(["run", "model.rlx", "--input", "x=x.npy"]) == 1
    assert "x.npy: not an array file" in capsys.readouterr().err


def test_traceback_is_shown_on_request(workspace: Path, capsys: Capture) -> None:
    del workspace
    assert main(["run", "model.rlx", "--traceback"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_nan_check_stops_at_the_op_and_its_line(workspace: Path, capsys: Capture) -> None:
    (workspace / "bad.py").write_text(
        "import rlx\n"
        "def build():\n"
        "    g = rlx.Graph('bad')\n"
        "    x = g.input('x', (3,))\n"
        "    g.set_outputs([g.log(x - 2.0)])\n"
        "    return g\n"
    )
    assert main(["run", "bad.py:build", "--random", "0", "--nan-check"]) == 1
    error = capsys.readouterr().err
    assert "log: makes a NaN from finite operands" in error
    assert "bad.py:5 in build" in error


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_lists_every_command(shell: str, capsys: Capture) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for command in helps():
        assert command in script
    assert "--nan-check" in script or "-l nan-check" in script


@pytest.mark.parametrize(
    ("shell", "check"), [("bash", ["-n"]), ("zsh", ["-n"]), ("fish", ["--no-execute"])]
)
def test_completion_scripts_parse(
    shell: str, check: list[str], tmp_path: Path, capsys: Capture
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert main(["completion", shell]) == 0
    script = tmp_path / f"rlx.{shell}"
    script.write_text(capsys.readouterr().out)
    subprocess.run([shell, *check, str(script)], check=True, timeout=10)


def test_bash_completes_the_values_of_an_option(tmp_path: Path, capsys: Capture) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "rlx.bash"
    script.write_text(capsys.readouterr().out)
    asked = (
        f"source {script}; COMP_WORDS=(rlx inspect m.rlx --stage s); COMP_CWORD=4; _rlx; "
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", asked], capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stdout == "schedule\n"


def test_the_module_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "rlx", "inspect", "nowhere.rlx"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("rlx: InputError\n")


def test_help_loads_no_numpy() -> None:
    program = (
        "import sys; from rlx.cli.main import main; main(['--help']); "
        "print([name for name in ('numpy', 'llvmlite', 'cffi', 'jinja2') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.endswith("[]\n")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_shows_on_a_terminal_what_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "PATIENCE", 0.02)
    terminal = _Terminal()
    with progress("compiling", terminal):
        end = time.monotonic() + 60
        while not terminal.getvalue() and time.monotonic() < end:
            time.sleep(0.01)
    assert re.search(r"compiling \.\.\. \d+ s", terminal.getvalue())
    assert terminal.getvalue().endswith("\x1b[K")


def test_progress_is_silent_when_quick_or_redirected(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, file = _Terminal(), io.StringIO()
    with progress("compiling", terminal):
        pass
    monkeypatch.setattr(progress_module, "PATIENCE", 0.0)
    with progress("compiling", file):
        time.sleep(0.01)
    assert terminal.getvalue() == file.getvalue() == ""


BROKEN_MODULES = [
    ("import nothing_like_this", "raised ModuleNotFoundError: No module named 'nothing_like_this'"),
    ("import sys\nsys.exit(7)", "ended the process with sys.exit(7)"),
    ("import sys\nsys.exit()", "ended the process with sys.exit()"),
]


@pytest.mark.parametrize(("text", "message"), BROKEN_MODULES, ids=[m[1] for m in BROKEN_MODULES])
@pytest.mark.parametrize("place", ["broken.py:build", "broken:build"])
def test_a_module_that_does_not_load_is_one_error_at_its_line(
    workspace: Path, capsys: Capture, text: str, message: str, place: str
) -> None:
    (workspace / "broken.py").write_text(text + "\n")
    sys.modules.pop("broken", None)
    assert main(["inspect", place]) == 1
    shown = capsys.readouterr().err
    assert message in shown
    assert "broken.py:" in shown
    assert "Traceback" not in shown


def test_a_function_that_exits_is_an_error(workspace: Path, capsys: Capture) -> None:
    (workspace / "leaves.py").write_text("import sys\n\ndef build():\n    sys.exit(0)\n")
    assert main(["run", "leaves.py:build", "--random", "0"]) == 1
    assert "ended the process with sys.exit(0)" in capsys.readouterr().err


def test_a_seed_below_zero_is_wrong_usage(workspace: Path, capsys: Capture) -> None:
    assert workspace.exists()
    assert main(["run", "model.rlx", "--random", "-1"]) == 2
    assert "'-1' is not a seed; it must be a number, 0 or more" in capsys.readouterr().err


def test_code_that_is_no_text_is_an_error(workspace: Path, capsys: Capture) -> None:
    (workspace / "edited.c").write_bytes(b"\xff\xfe\x00int")
    assert main(["run", "model.rlx", "--random", "0", "--code", "edited.c"]) == 1
    shown = capsys.readouterr().err
    assert "edited.c is not C in UTF-8" in shown
    assert "save the file as UTF-8 text" in shown


@pytest.mark.parametrize("extent", ["99999999999999", "99999999999999999999999", "20000000000000"])
def test_a_shape_beyond_all_memory_is_an_error(
    workspace: Path, capsys: Capture, extent: str
) -> None:
    (workspace / "twice.py").write_text("def twice(x):\n    return x * 2\n")
    source = ["twice.py:twice", "--shape", f"x=f32[{extent}]", "--backend", "reference"]
    assert main(["run", *source, "--random", "0"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("rlx: UnsupportedError")


def test_an_error_of_the_command_itself_names_no_line_of_python(workspace: Path) -> None:
    (workspace / "twice.py").write_text("def twice(x):\n    return x * 2\n")
    source = ["twice.py:twice", "--shape", "x=f32[99999999999999]", "--random", "0"]
    command = [sys.executable, "-m", "rlx", "run", *source]
    done = subprocess.run(
        command, cwd=workspace, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 1
    assert "takes 399999999999996 bytes" in done.stderr
    assert "runpy" not in done.stderr


def test_the_version_is_reported(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"rlx {rlx.__version__}\n"


def test_commands_print_through_one_function() -> None:
    bare = []
    for path in sorted(Path(rlx.cli.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
                bare.append(f"{path.name}:{node.lineno}")
    assert [place.split(":")[0] for place in bare] == ["output.py"]


def test_output_spells_out_what_controls_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show("a\x1b]0;t\x07\r\u202eb\ud800\nfamilie \U0001f468\u200d\U0001f469 é")
    shown = "a\\x1b]0;t\\x07\\r\\u202eb\\ud800\nfamilie \U0001f468\u200d\U0001f469 é\n"
    assert capsys.readouterr().out == shown


def test_error_spells_out_what_controls_a_terminal() -> None:
    error = GraphError("no \x1b[2J", source=Source("\x1b[31m.py", 1, "f\x07"))
    assert "\x1b" not in str(error)
    assert "\\x1b[2J" in str(error)
