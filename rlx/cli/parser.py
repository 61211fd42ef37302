"""The arguments of every command, and their help.

Light on purpose: `rlx --help` loads no NumPy and no compiler. What a command does is in
`rlx.cli.<command>_command`.
"""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter, _SubParsersAction
from collections.abc import Callable
from pathlib import Path

import rlx
from rlx.cli.arguments import (
    named_extent,
    named_file,
    named_limit,
    named_shape,
    positive,
    seed,
    weights_choice,
)

STAGES = ("graph", "passes", "lowered", "schedule", "plan", "kernels", "c", "llvm", "asm")
COMPILERS = ("auto", "c", "llvm")
BACKENDS = (*COMPILERS, "reference")
SHELLS = ("bash", "zsh", "fish")

_OVERVIEW = """\
rlx compiles tensor programs to one native function on one block of memory.

SRC, which most commands take, is one of
  model.onnx           an ONNX model; --shape x=f32[1,8] gives extents that it leaves open
  model.pt2            a program written by torch.export.save
  model.stablehlo      StableHLO as text or bytecode, or an export of JAX (.mlir, too)
  model.rlx            a graph written by rlx.ir.serialize.save, or its text form
  package.module:name  a Python function that returns a Graph (or a pair of a Graph and its
  path/to/file.py:name params), a Graph itself, or a function of arrays; the arrays are
                       described by --shape x=f32[8,128] or given by --input x=x.npy; with
                       --jax a function written for JAX
"""

_EXAMPLES = {
    "": """
examples:
  $ rlx doctor
  $ rlx inspect model.rlx --stage schedule
  $ rlx run model.rlx --input x=x.npy --output y.npz
""",
    "compile": """
examples:
  $ rlx compile model.rlx -o build
  $ rlx compile model.rlx -o build_blas --name mlp --params weights.npz
  $ rlx compile model.rlx -o build_mixed --params weights.npz --weights file --weights b1=embed
""",
    "run": """
examples:
  $ rlx run model.rlx --input x=x.npy --params weights.npz
  $ rlx run model.rlx --input inputs.npz --params weights.npz --output y.npz
  $ rlx run model.rlx --random 0 --nan-check
  $ rlx inspect model.rlx --stage c > edited.c
  $ rlx run model.rlx --random 0 --code edited.c
""",
    "generate": """
examples:
  $ rlx generate model.gguf --prompt "Once upon a time" --max-tokens 64
  $ rlx generate model.gguf --chat --prompt "Why is the sky blue?" --temperature 0.8 --seed 1
""",
    "chat": """
examples:
  $ rlx chat model.gguf --temperature 0.8
  $ rlx chat SmolLM2-135M-Instruct --quantize q8_0 --system "Answer in one sentence."
  $ rlx chat SmolLM2-135M-Instruct --adapters adapters --max-tokens 64
""",
    "embed": """
examples:
  $ rlx embed model.gguf --pooling mean --text "The sky is blue." --text "Grass is green."
  $ rlx embed model.gguf --pooling last --text "The sky is blue." --output vectors.npy
""",
    "serve": """
examples:
  $ rlx serve model.gguf --port 8000 --slots 16
""",
    "inspect": """
stages, in the order in which a program passes through them:
  graph     the program as it was given        plan     the arena: offsets and lifetimes
  passes    what each pass did, and how long   kernels  the kernels in the loop language
  lowered   the graph after all passes         c        the C translation unit
  schedule  the kernel calls, in order         llvm     LLVM IR; asm: machine code as text

examples:
  $ rlx inspect model.rlx --stage graph
  $ rlx inspect model.rlx --stage c --kernel softmax
  $ rlx inspect model.rlx --lines > debug.c
  $ rlx inspect model.rlx --why
  $ rlx inspect model.rlx --html report.html
  $ rlx inspect model.rlx --html measured.html --measure
""",
    "bench": """
The peaks are measured on this machine first, with a loop of fused multiply-adds in registers
and a copy of large arrays; a share of 1.00 in a column means that the kernel reaches it.

examples:
  $ rlx bench model.rlx
  $ rlx bench model.rlx --repeats 50 --top 10 --backend c
""",
    "profile": """
A trace holds every run and its kernels with start, duration, FLOPs, bytes and lines of the
program; https://ui.perfetto.dev and chrome://tracing show it.

examples:
  $ rlx profile model.rlx
  $ rlx profile model.rlx --repeats 3 --trace trace.json
""",
    "tune": """
Later compilations on this machine use the schedules that were faster. With -o they are written to
a file instead, which rlx.Schedules.load reads for rlx.compile(..., schedules=).

examples:
  $ rlx tune model.rlx --seconds 0.2
  $ rlx tune model.rlx --seconds 0.2 -o model.schedules
""",
    "doctor": """
The exit code is 0 if graphs can be compiled and run here, 1 if something needed is missing.

examples:
  $ rlx doctor
""",
    "rebuild": """
Edit the C in an artifact's directory, then:

examples:
  $ rlx rebuild build
""",
    "completion": """
examples:
  $ rlx completion bash
  $ rlx completion fish
""",
}


def make_parser() -> ArgumentParser:
    """Return the parser of the whole command line."""
    parser = ArgumentParser(
        prog="rlx",
        description=_OVERVIEW,
        epilog=_EXAMPLES[""],
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"rlx {rlx.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (purpose, add_arguments) in _COMMANDS.items():
        command = _command(commands, name, purpose)
        add_arguments(command)
        command.add_argument(
            "--traceback", action="store_true", help="show where in Python an error was raised"
        )
    return parser


def _command(
    commands: _SubParsersAction[ArgumentParser], name: str, purpose: str
) -> ArgumentParser:
    return commands.add_parser(
        name,
        help=purpose,
        description=purpose[0].upper() + purpose[1:] + ".",
        epilog=_EXAMPLES[name],
        formatter_class=RawDescriptionHelpFormatter,
    )


def _add_source(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="SRC", help="a graph or model file, or module:function")
    parser.add_argument("--jax", action="store_true", help="SRC is a function written for JAX")
    parser.add_argument(
        "--shape",
        metavar="NAME=DTYPE[..]",
        action="append",
        default=[],
        type=named_shape,
        help="type of an argument of a Python function, as x=f32[8,128] or x=f32[n<=64,128]",
    )
    parser.add_argument(
        "--precision",
        choices=("f32", "bf16", "f16", "strict", "finite"),
        default="f32",
        help="bf16, f16: products in 16 bits; strict: convolutions by their formula; finite: values"
        " are assumed finite, so products with known zeros are left out; default: f32",
    )


def _add_without(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--without",
        metavar="PASS",
        action="append",
        default=[],
        help="leave a pass out, such as fuse (repeatable); `rlx inspect --stage passes` lists them",
    )


def _add_limit(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--limit",
        metavar="NAME=N",
        action="append",
        default=[],
        type=named_limit,
        help="limit for loading a file: N bytes, nodes, elements, nesting or seconds",
    )


def _add_arrays(parser: ArgumentParser) -> None:
    _add_limit(parser)
    parser.add_argument(
        "--input",
        metavar="NAME=FILE",
        action="append",
        default=[],
        type=named_file,
        help="an input, as x=x.npy, or several by name from a .npz",
    )
    parser.add_argument(
        "--params",
        metavar="FILE",
        action="append",
        default=[],
        help="params by name: a .npz, a .safetensors, or a module:function that returns a dict",
    )


def _add_extent(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--extent",
        metavar="NAME=N",
        action="append",
        default=[],
        type=named_extent,
        help="extent of a symbol for random inputs; default: its maximum",
    )


def _add_backend(parser: ArgumentParser, choices: tuple[str, ...] = COMPILERS) -> None:
    parser.add_argument(
        "--backend",
        choices=choices,
        default="auto",
        help="auto (default) is llvm if llvmlite is installed, else c",
    )


def _add_threads(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--threads", type=positive, metavar="N", help="default: RLX_NUM_THREADS, else all cores"
    )


def _add_compile(parser: ArgumentParser) -> None:
    _add_source(parser)
    _add_without(parser)
    _add_arrays(parser)
    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, required=True, help="directory for the files"
    )
    parser.add_argument("--name", help="prefix of every symbol; default: the graph's name")
    _add_code(parser)
    _add_tools(parser)
    parser.add_argument(
        "--weights",
        metavar="[NAME=]HOW",
        action="append",
        default=[],
        type=weights_choice,
        help="where params are: file (default with --params), embed (constants in the code) or "
        "argument (the caller writes them); of all params, or of the one named",
    )
    parser.add_argument(
        "--lines",
        action="store_true",
        help="the C with #line directives: with -g, a debugger steps through your program",
    )


def _add_code(parser: ArgumentParser) -> None:
    """Add the options of generated code: target, size, vectors, math library."""
    parser.add_argument(
        "--threads",
        choices=("none", "openmp", "callback"),
        default="none",
        help="callback: the caller passes a parallel_for; default: none",
    )
    parser.add_argument(
        "--target",
        default="portable",
        help="portable (default), native, x86-64-v3, a core such as cortex-m4, wasm32, or a triple "
        "such as aarch64-linux-gnu",
    )
    parser.add_argument(
        "--optimize",
        choices=("speed", "size"),
        help="size keeps code and memory small; default: what suits the target",
    )
    parser.add_argument(
        "--vectors",
        choices=("auto", "none"),
        default="auto",
        help="none writes plain C99, for any compiler",
    )
    parser.add_argument(
        "--math",
        choices=("libm", "none"),
        default="libm",
        help="none uses neither libm nor headers of a C library",
    )


def _add_tools(parser: ArgumentParser) -> None:
    """Add the options of compilers and linked libraries."""
    parser.add_argument("--cc", metavar="COMMAND", help="the C compiler for the target")
    parser.add_argument(
        "--emit-only", action="store_true", help="write the text and compile nothing"
    )
    parser.add_argument(
        "--backend",
        choices=("auto", "c", "llvm"),
        default="auto",
        help="c compiles C; llvm makes objects; auto (default): llvm where there is no C compiler",
    )
    parser.add_argument(
        "--blas",
        metavar="NAME",
        default="none",
        help="BLAS library for large products and linear systems: a name or a path; system: the "
        "one that Python uses; auto: that one, but not for products; default: none",
    )


def _add_run(parser: ArgumentParser) -> None:
    _add_source(parser)
    _add_without(parser)
    _add_arrays(parser)
    _add_backend(parser, BACKENDS)
    _add_threads(parser)
    parser.add_argument("--output", metavar="FILE", type=Path, help=".npz, or .npy for one output")
    parser.add_argument(
        "--random",
        metavar="SEED",
        type=seed,
        help="draw random inputs and params where none are given",
    )
    _add_extent(parser)
    special = parser.add_mutually_exclusive_group()
    special.add_argument(
        "--nan-check",
        action="store_true",
        help="stop at the first kernel that makes a NaN or infinity from finite numbers",
    )
    special.add_argument(
        "--code",
        metavar="FILE.c",
        type=Path,
        help="run this C: an edited copy of the output of `rlx inspect --stage c`",
    )


def _add_inspect(parser: ArgumentParser) -> None:
    _add_source(parser)
    _add_without(parser)
    _add_arrays(parser)
    _add_backend(parser)
    parser.add_argument("--stage", choices=STAGES, help="print this stage; default: schedule")
    parser.add_argument("--kernel", metavar="NAME", help="only kernels whose name contains this")
    parser.add_argument(
        "--target",
        help="show what is made for this target, as `rlx compile` names it; default: this machine",
    )
    parser.add_argument(
        "--lines",
        action="store_true",
        help="the C with #line directives: with -g, a debugger steps through your program",
    )
    parser.add_argument(
        "--why",
        action="store_true",
        help="print what was fused, what was not and why, and how kernels were chosen",
    )
    parser.add_argument("--html", metavar="FILE", type=Path, help="write everything as one page")
    parser.add_argument(
        "--measure", action="store_true", help="run it on random inputs: times in the page"
    )
    _add_extent(parser)


def _add_bench(parser: ArgumentParser) -> None:
    _add_source(parser)
    _add_without(parser)
    _add_arrays(parser)
    _add_backend(parser)
    parser.add_argument(
        "--repeats", type=positive, default=20, metavar="N", help="number of runs; default: 20"
    )
    parser.add_argument("--top", type=positive, metavar="N", help="only the N slowest kernels")
    _add_extent(parser)


def _add_profile(parser: ArgumentParser) -> None:
    _add_bench(parser)
    parser.add_argument(
        "--trace", metavar="FILE.json", type=Path, help="write the runs, for ui.perfetto.dev"
    )


def _add_tune(parser: ArgumentParser) -> None:
    _add_source(parser)
    _add_arrays(parser)
    _add_backend(parser)
    parser.add_argument(
        "--seconds", type=float, default=60.0, metavar="S", help="time to measure; default: 60"
    )
    _add_threads(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="write the schedules to this file and not to the cache",
    )


def _add_doctor(_: ArgumentParser) -> None:
    """`doctor` takes no arguments."""


def _add_rebuild(parser: ArgumentParser) -> None:
    parser.add_argument(
        "directory", metavar="DIR", type=Path, help="output directory of `rlx compile`"
    )
    parser.add_argument("--cc", metavar="COMMAND", help="the C compiler for the target")


def _add_completion(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS)


def _add_generate(parser: ArgumentParser) -> None:
    _add_model(parser)
    parser.add_argument("--prompt", metavar="TEXT", required=True, help="text to continue")
    parser.add_argument(
        "--chat", action="store_true", help="format the prompt by the model's chat template"
    )
    _add_sampling(parser)


def _add_chat(parser: ArgumentParser) -> None:
    _add_model(parser)
    parser.add_argument("--system", metavar="TEXT", help="system message")
    _add_sampling(parser)


def _add_sampling(parser: ArgumentParser) -> None:
    """Add the options of sampling."""
    parser.add_argument(
        "--max-tokens",
        type=positive,
        default=256,
        metavar="N",
        help="length of an answer; default: 256",
    )
    parser.add_argument(
        "--temperature",
        type=float,
        default=0.0,
        metavar="T",
        help="default: 0, which takes the likeliest token",
    )
    parser.add_argument(
        "--top-k",
        type=int,
        default=40,
        metavar="K",
        help="sample among the K likeliest tokens; default: 40; 0: all",
    )
    parser.add_argument(
        "--top-p",
        type=float,
        default=1.0,
        metavar="P",
        help="sample among the likeliest tokens whose probabilities sum to P; default: 1",
    )
    parser.add_argument(
        "--min-p",
        type=float,
        default=0.0,
        metavar="P",
        help="leave out tokens below P times the largest probability; default: 0",
    )
    parser.add_argument(
        "--repetition-penalty",
        type=float,
        default=1.0,
        metavar="R",
        help="reduce logits of tokens seen by the factor R; default: 1",
    )
    parser.add_argument(
        "--typical-p",
        type=float,
        default=1.0,
        metavar="P",
        help="sample among the most typical tokens whose probabilities sum to P; default: 1",
    )
    parser.add_argument(
        "--presence-penalty",
        type=float,
        default=0.0,
        metavar="R",
        help="subtract R from logits of tokens seen; default: 0",
    )
    parser.add_argument(
        "--frequency-penalty",
        type=float,
        default=0.0,
        metavar="R",
        help="subtract R for each time a token was seen; default: 0",
    )
    parser.add_argument(
        "--stop",
        action="append",
        metavar="TEXT",
        help="end the answer at this text; may be repeated",
    )
    guesses = parser.add_mutually_exclusive_group()
    guesses.add_argument(
        "--draft", metavar="MODEL", type=Path, help="smaller model for speculative decoding"
    )
    guesses.add_argument(
        "--lookup", action="store_true", help="speculative decoding from repetitions in the text"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--grammar", metavar="FILE", type=Path, help="grammar of the answer, in GBNF")
    form.add_argument("--json-schema", metavar="FILE", type=Path, help="JSON schema of the answer")
    _add_keep(parser)


def _add_keep(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--keep",
        type=int,
        metavar="N",
        help="when the context is full, keep its first N tokens and the newer half of the others; "
        "default: end the answer",
    )


def _add_text_model(parser: ArgumentParser, backends: tuple[str, ...]) -> None:
    """Add the arguments of all commands that run language models."""
    parser.add_argument(
        "model", metavar="MODEL", type=Path, help="a GGUF file, or a folder of safetensors"
    )
    _add_limit(parser)
    parser.add_argument(
        "--quantize", metavar="TYPE", help="quantize the weights of a folder: q8_0, q4_k, and so on"
    )
    parser.add_argument(
        "--context",
        type=positive,
        metavar="N",
        help="context length in tokens; default: 2048, or the model's",
    )
    parser.add_argument(
        "--accuracy",
        choices=("exact", "int8"),
        default="exact",
        help="activations in products with packed weights: f32 (exact, the default) or int8",
    )
    _add_backend(parser, backends)
    _add_threads(parser)


def _add_model(parser: ArgumentParser) -> None:
    """Add the arguments of commands that generate text."""
    _add_text_model(parser, COMPILERS)
    parser.add_argument(
        "--adapters",
        metavar="PATH",
        type=Path,
        help="LoRA adapters: a folder from peft, a GGUF file, or a safetensors file of rlx",
    )
    parser.add_argument(
        "--cache-dtype",
        choices=("f32", "f16", "bf16"),
        help="dtype of the key-value cache; default: f32; f16 with --accuracy int8",
    )
    parser.add_argument(
        "--seed", type=seed, default=0, metavar="SEED", help="seed of sampling; default: 0"
    )


def _add_embed(parser: ArgumentParser) -> None:
    _add_text_model(parser, BACKENDS)
    parser.add_argument(
        "--text", action="append", required=True, metavar="TEXT", help="a text; may be repeated"
    )
    parser.add_argument(
        "--pooling",
        choices=("none", "mean", "cls", "last", "rank"),
        help="how rows become one vector; default: as the model says",
    )
    parser.add_argument("--query", metavar="TEXT", help="score the texts for it, with a reranker")
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="write an array; default: print lines of JSON"
    )


def _add_serve(parser: ArgumentParser) -> None:
    _add_model(parser)
    _add_keep(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to bind; default: 127.0.0.1")
    parser.add_argument(
        "--port", type=positive, default=8000, metavar="N", help="port to bind; default: 8000"
    )
    parser.add_argument(
        "--slots", type=positive, default=8, metavar="N", help="concurrent answers; default: 8"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=600.0,
        metavar="S",
        help="time limit of an answer; default: 600",
    )


_COMMANDS: dict[str, tuple[str, Callable[[ArgumentParser], None]]] = {
    "compile": (
        "write C, a header, libraries and weights for programs without Python",
        _add_compile,
    ),
    "run": ("run a program on arrays from files", _add_run),
    "inspect": ("read any stage between graph and machine code", _add_inspect),
    "bench": ("time every kernel, with the machine's peak for comparison", _add_bench),
    "profile": ("time every kernel, and write a trace of the runs", _add_profile),
    "tune": ("measure schedules of products and convolutions and keep the fastest", _add_tune),
    "doctor": ("report what is installed, what is missing, and how to install it", _add_doctor),
    "rebuild": ("compile edited C of an artifact again, in place", _add_rebuild),
    "generate": ("continue a text with a language model", _add_generate),
    "chat": ("talk with a language model, a line at a time", _add_chat),
    "embed": ("turn texts into vectors with a language model", _add_embed),
    "serve": ("serve a language model over OpenAI's HTTP API", _add_serve),
    "completion": ("print a completion script for a shell", _add_completion),
}
