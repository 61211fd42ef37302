"""Calls of compiled graphs: the fast path of tensors, and params that are laid out once."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from rlx.errors import UnsupportedError  # noqa: E402
from rlx.runtime.executable import Executable  # noqa: E402
from rlx.runtime.gateway import find_gateway  # noqa: E402
from rlx.runtime.tensor_gateway import TensorCall  # noqa: E402
from rlx.torch import variant  # noqa: E402  imports torch
from rlx.torch.backend import compile_module  # noqa: E402
from rlx.torch.program import CompiledGraph  # noqa: E402

nn = torch.nn


@pytest.fixture(autouse=True, params=["fast", "slow"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    torch._dynamo.reset()
    torch.manual_seed(0)
    if request.param == "slow":
        monkeypatch.setattr(variant, "make_tensor_call", lambda *_: None)
    elif find_gateway("tensor_gateway", wait=True) is None:
        pytest.skip("there is no C compiler")
    return str(request.param)


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[CompiledGraph]:
    """The graphs that the test compiles."""
    made: list[CompiledGraph] = []
    whole = CompiledGraph.__post_init__

    def note(self: CompiledGraph) -> None:
        whole(self)
        made.append(self)

    monkeypatch.setattr(CompiledGraph, "__post_init__", note)
    return made


def close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


RESIDENT = {"resident": True}


def net() -> Any:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).eval()


def fast_calls(graph: CompiledGraph, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that grows by whether the fast path took each call."""
    taken: list[bool] = []
    program = graph._only
    assert program is not None
    assert program._fast is not None
    whole: TensorCall = program._fast

    class Watched:
        ready = property(lambda _: whole.ready, lambda _, to: setattr(whole, "ready", to))
        remember = staticmethod(whole.remember)

        def __call__(self, *values: Any) -> Any:
            found = whole(*values)
            taken.append(found is not None)
            return found

    monkeypatch.setattr(program, "_fast", Watched())
    monkeypatch.setattr(graph, "fast", program.direct)
    return taken


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.mul_(2),
        lambda p: p.data.mul_(2),
        lambda p: setattr(p, "data", 2 * p.data),
        lambda p: p.detach().numpy().__imul__(2),
        lambda p: p.copy_(torch.ones_like(p)),
    ],
    ids=["in_place", "data", "replaced", "numpy", "copied"],
)
@pytest.mark.parametrize("resident", [False, True])
def test_changes_of_params_are_seen(change: Callable[[Any], Any], resident: bool) -> None:
    model, x = net(), torch.randn(5, 6)
    run = torch.compile(model, backend=compile_module, options={"resident": resident})
    with torch.no_grad():
        for _ in range(2):
            for _ in range(3):
                close(run(x), model(x))
            change(model[0].weight)
        close(run(x), model(x))


def test_params_are_laid_out_once_for_each_version(monkeypatch: pytest.MonkeyPatch) -> None:
    set_params: list[str] = []
    whole = Executable.set_param

    def note(self: Executable, name: str, value: Any) -> None:
        set_params.append(name)
        whole(self, name, value)

    monkeypatch.setattr(Executable, "set_param", note)
    model, x = net(), torch.randn(5, 6)
    run = torch.compile(model, backend=compile_module, options=RESIDENT)
    with torch.no_grad():
        for _ in range(4):
            run(x)
        assert len(set_params) == 4
        model[2].bias += 1
        for _ in range(2):
            run(x)
        assert len(set_params) == 5


def test_a_param_that_changes_at_each_call_is_read_at_each(graphs: list[CompiledGraph]) -> None:
    model, x = net(), torch.randn(5, 6)
    run = torch.compile(model, backend=compile_module, options=RESIDENT)
    with torch.no_grad():
        for _ in range(7):
            close(run(x), model(x))
            model[0].weight += 0.1
    (graph,) = graphs
    program = graph._only
    assert program is not None
    assert len(program.residents) == 3
    assert len(program.inputs) == 2


def test_a_table_is_read_in_place(graphs: list[CompiledGraph]) -> None:
    model, x = nn.Embedding(10, 4), torch.tensor([[1, 2], [3, 9]])
    with torch.no_grad():
        close(torch.compile(model, backend=compile_module, options=RESIDENT)(x), model(x))
    assert graphs[0]._only is not None
    assert not graphs[0]._only.residents


def test_by_default_params_are_read_at_each_call(graphs: list[CompiledGraph]) -> None:
    """Also one element past PyTorch's count of changes."""
    model, x = net(), torch.randn(5, 6)
    run = torch.compile(model, backend=compile_module)
    with torch.no_grad():
        close(run(x), model(x))
        model[0].weight.data[1, 2] = 7.0
        model[2].bias.detach().numpy()[1] = -3.0
        close(run(x), model(x))
    assert graphs[0]._only is not None
    assert not graphs[0]._only.residents


def test_params_of_inference_tensors_are_read_at_each_call() -> None:
    with torch.inference_mode():
        model, x = net(), torch.randn(5, 6)
        run = torch.compile(model, backend=compile_module)
        for _ in range(3):
            close(run(x), model(x))
            model[0].weight[0, 0] += 1


@pytest.mark.parametrize(
    "x",
    [
        torch.randn(5, 6), torch.randn(6, 5).T, torch.randn(5, 12)[:, ::2],
        torch.randn(1, 6).expand(5, 6), torch.randn(10, 6)[::2], torch.randn(31)[1:].view(5, 6),
    ],
    ids=["rows", "columns", "every_other", "broadcast", "some_rows", "offset"],
)  # fmt: skip
def test_tensors_of_any_strides_come_in(x: Any) -> None:
    def apply(x: Any) -> Any:
        return x.t() * 2, x.sum(0)

    run = torch.compile(apply, backend=compile_module)
    for each in (torch.randn(5, 6), x, x):
        found, expected = run(each), apply(each)
        close(found, expected)
        assert found[0].stride() == expected[0].stride()


@pytest.mark.parametrize(
    "dtype",
    ["float32", "float64", "float16", "bfloat16", "int64", "int8", "uint8", "bool", "complex64"],
)
@pytest.mark.parametrize("shape", [(), (0, 3), (3,), (1, 2, 1), (200, 200)])
def test_dtypes_and_shapes(dtype: str, shape: tuple[int, ...]) -> None:
    x = (3 * torch.randn(shape)).to(getattr(torch, dtype))

    def apply(x: Any) -> Any:
        return torch.cat([x.flatten(), x.flatten()]), x.unsqueeze(0), None, x

    run = torch.compile(apply, backend=compile_module)
    for _ in range(3):
        torch.testing.assert_close(run(x), apply(x), rtol=0, atol=0)


def test_views_with_a_negative_bit_are_values() -> None:
    z = torch.randn(4, dtype=torch.complex64)
    run = torch.compile(lambda x: x * 2, backend=compile_module)
    for each in (torch.randn(4), z.conj().imag, z.conj().imag):
        close(run(each), each * 2)


def test_results_keep_their_values() -> None:
    run = torch.compile(lambda x: (x + 1, x.sum()), backend=compile_module)
    kept = [(i, run(torch.full((200, 200), float(i)))) for i in range(5)]
    torch._dynamo.reset()
    for i, (whole, total) in kept:
        assert (whole == i + 1).all()
        assert total == 40000 * i
    whole.add_(1)
    assert (whole == 6).all()


def test_threads_with_params_of_their_own() -> None:
    models = [net() for _ in range(3)]
    x = torch.randn(5, 6)
    run = torch.compile(lambda model, x: model(x), backend=compile_module)
    wrong: list[Any] = []
    with torch.no_grad():
        expected = [model(x) for model in models]
        run(models[0], x)

    def work(number: int) -> None:
        with torch.no_grad():
            for _ in range(20):
                if not torch.allclose(run(models[number], x), expected[number], atol=1e-5):
                    wrong.append(number)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_calls_are_fast_from_the_second_on(
    graphs: list[CompiledGraph], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    if path == "slow":
        return
    model, x = net(), torch.randn(5, 6)
    run = torch.compile(model, backend=compile_module, options=RESIDENT)
    with torch.no_grad():
        run(x)
        taken = fast_calls(graphs[0], monkeypatch)
        for _ in range(3):
            run(x)
        assert taken == [True] * 3
        model[0].bias += 1
        run(x)
        run(x)
        assert taken == [True] * 3 + [False, True]


def test_training_steps_read_params_at_each_call(graphs: list[CompiledGraph]) -> None:
    model = net().train()
    other = copy.deepcopy(model)
    run = torch.compile(model, backend=compile_module)
    for seed in range(4):
        torch.manual_seed(seed)
        x = torch.randn(5, 6)
        for call, owner in ((run, model), (other, other)):
            owner.zero_grad()
            call(x).square().sum().backward()
            with torch.no_grad():
                for param in owner.parameters():
                    param -= 0.1 * param.grad
        for found, expected in zip(model.parameters(), other.parameters(), strict=True):
            close(found, expected)
    assert all(graph._only and not graph._only.residents for graph in graphs)


def stepped(function: Callable[..., Any], *leaves: Any) -> Any:
    """Return `function`, compiled, after a step, from which on AOTAutograd's wrappers are left."""
    run = torch.compile(function, backend=compile_module)
    sum(each.sum() for each in run(*leaves)).backward()
    for leaf in leaves:
        leaf.grad = None
    return run


def leaf(*shape: int) -> Any:
    return torch.randn(shape, requires_grad=True)


def test_steps_pass_the_wrappers_of_aot_autograd() -> None:
    x, w = leaf(3, 4), leaf(4, 5)
    run = stepped(lambda x, w: (torch.tanh(x @ w), (x.detach() > 0).float(), (w * 2).exp()), x, w)
    tanh, positive, power = run(x, w)
    assert tanh.grad_fn.name() == "_CompiledBackward"
    assert not positive.requires_grad
    for _ in range(2):
        power.sum().backward(retain_graph=True)  # the cotangent of `tanh` is zero
    close(w.grad, 4 * (2 * w.detach()).exp())
    assert x.grad is None or not x.grad.any()


@pytest.mark.parametrize("trains", [False, True])
def test_calls_that_change_buffers_pass_the_wrappers(*, trains: bool) -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Dropout(0.0))
    other = copy.deepcopy(model)
    run = torch.compile(model, backend=compile_module)
    for _ in range(3):
        x = torch.randn(5, 6)
        with torch.set_grad_enabled(trains):
            found, expected = run(x), other(x)
        close(found, expected)
        if trains:
            found.square().sum().backward()
            expected.square().sum().backward()
    for ours, theirs in zip(model.buffers(), other.buffers(), strict=True):
        close(ours, theirs)
        assert ours._version  # PyTorch counts the change
    if trains:
        assert found.grad_fn.name() == "_CompiledBackward"
        for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
            close(ours.grad, theirs.grad)


def test_results_of_steps_are_changed_in_place_as_in_eager_mode() -> None:
    x = leaf(2, 3, 4)
    run = stepped(lambda x: (torch.tanh(x).permute(2, 0, 1) * 2,), x)
    (y,) = run(x)
    y.mul_(3).sum().backward()
    close(x.grad, 6 * (1 - torch.tanh(x.detach()) ** 2))


def test_what_a_step_has_saved_may_not_change() -> None:
    x, w = leaf(3, 4), leaf(4, 5)
    run = stepped(lambda x, w: (x @ w,), x, w)
    (y,) = run(x, w)
    with torch.no_grad():
        w += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("is_first", [False, True])
def test_second_derivatives_are_an_error_and_not_zero(*, is_first: bool) -> None:
    x = leaf(3)
    function = lambda x: (x**3,)  # noqa: E731
    run = torch.compile(function, backend=compile_module) if is_first else stepped(function, x)
    (gradient,) = torch.autograd.grad(run(x)[0].sum(), x, create_graph=True)
    close(gradient, 3 * x**2)
    with pytest.raises((RuntimeError, UnsupportedError), match=r"double backward|second deriv"):
        (gradient + x).sum().backward()


@pytest.mark.parametrize("is_first", [False, True])
def test_cotangents_may_be_a_batch(*, is_first: bool) -> None:
    x = leaf(3)
    function = lambda x: (x**3,)  # noqa: E731
    run = torch.compile(function, backend=compile_module) if is_first else stepped(function, x)
    (found,) = torch.autograd.grad(run(x)[0], x, torch.eye(3), is_grads_batched=True)
    close(found, torch.diag(3 * x.detach() ** 2))


def attended(x: Any) -> Any:
    return (nn.functional.scaled_dot_product_attention(x, 2 * x, x.sin(), is_causal=True),)


def compiled_autograd(**options: Any) -> Any:
    return torch._dynamo.compiled_autograd._enable(torch.compile(fullgraph=True, **options))


@pytest.mark.parametrize("backend", [compile_module, "eager"])
@pytest.mark.parametrize("is_first", [False, True])
def test_compiled_autograd_sees_into_backward_graphs(*, is_first: bool, backend: Any) -> None:
    """Those that were partitioned for rules of ours are right by PyTorch's operators, too."""
    x = leaf(1, 2, 5, 8)
    run = torch.compile(attended, backend=compile_module) if is_first else stepped(attended, x)
    with compiled_autograd(backend=backend):
        run(x)[0].square().sum().backward()
    close(x.grad, torch.autograd.grad(attended(x)[0].square().sum(), x)[0])


def test_compiled_autograd_of_earlier_calls_names_the_remedy() -> None:
    x = leaf(3)
    (y,) = stepped(lambda x: (x**3,), x)(x)
    with (
        compiled_autograd(backend=compile_module),
        pytest.raises(torch._dynamo.exc.Unsupported, match="enable it before the forward call"),
    ):
        y.square().sum().backward()


def test_a_step_in_a_frame_that_dynamo_broke() -> None:
    x = leaf(3, 4)
    run = stepped(lambda x: (torch.tanh(x),), x)

    def train(x: Any) -> Any:
        (y,) = run(x)
        torch._dynamo.graph_break()
        y.sum().backward()
        return x.grad * 2

    compiled = torch.compile(train, backend=compile_module)
    for _ in range(3):
        x.grad = None
        close(compiled(x), 2 * (1 - torch.tanh(x.detach()) ** 2))


@pytest.mark.parametrize("changes", [False, True])
def test_cotangents_may_be_negative_views(*, changes: bool) -> None:
    """With the memory of such a view read as it is, gradients had the opposite sign."""
    x, count = leaf(3), torch.zeros(1)
    imaginary = torch.randn(3, dtype=torch.complex64).conj().imag
    assert imaginary.is_neg()

    def function(x: Any, count: Any) -> Any:
        if changes:  # AOTAutograd's wrappers write it back
            count.add_(1)
        return (x * 2,)

    run = torch.compile(function, backend=compile_module)
    for _ in range(3):
        close(torch.autograd.grad(run(x, count)[0], x, imaginary)[0], 2 * imaginary)


@pytest.mark.parametrize("changes", [False, True])
def test_tangents_are_refused_and_not_dropped(*, changes: bool) -> None:
    x, count = torch.randn(3), torch.zeros(1)

    def function(x: Any, count: Any) -> Any:
        if changes:
            count.add_(1)
        return (x**3,)

    run = torch.compile(function, backend=compile_module)
    for _ in range(2):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, torch.ones(3))
            with pytest.raises(UnsupportedError, match="forward-mode"):
                run(dual, count)
            close(run(x, count)[0], x**3)
    if not changes:  # which PyTorch refuses there
        (_, tangent) = torch.func.jvp(lambda x: run(x, count)[0], (x,), (torch.ones(3),))
        close(tangent, 3 * x**2)
