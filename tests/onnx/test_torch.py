"""Programs of torch.export, through ONNX, compute what PyTorch computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript", reason="torch.onnx writes models with it")
pytest.importorskip("onnx")

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

LONGEST = 16


def classifier() -> Any:
    """Return a small text classifier: embedding, a layer of attention, the mean, a head."""
    nn = torch.nn
    torch.manual_seed(0)

    class Classifier(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu")
            self.head = nn.Linear(16, 5)

        def forward(self, tokens: Any) -> Any:
            return self.head(self.layer(self.embed(tokens)).mean(1))

    return Classifier().eval()


def exported(model: Any) -> Any:
    """Return the model as torch.export has it, with any number of tokens, as a `ModelProto`."""
    length = torch.export.Dim("length", min=2, max=LONGEST)
    tokens = torch.zeros((1, 8), dtype=torch.int64)
    program = torch.export.export(model, (tokens,), dynamic_shapes={"tokens": {1: length}})
    return torch.onnx.export(program, dynamo=True, verbose=False).model_proto


def test_one_program_for_all_lengths_computes_what_torch_computes() -> None:
    model = classifier()
    length = rlx.Dim("length", max=LONGEST)
    graph = rlx.onnx.load(exported(model), dims={"tokens": (1, length)})
    run = rlx.compile(graph)
    assert "head.weight" in graph.param_values
    for count in (3, 8, LONGEST):
        tokens = np.arange(count)[None] % 50
        with torch.no_grad():
            expected = model(torch.from_numpy(tokens)).numpy()
        np.testing.assert_allclose(run(tokens)[0], expected, rtol=1e-5, atol=1e-5)
