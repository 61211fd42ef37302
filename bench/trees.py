"""Ensembles of decision trees, compared with ONNX Runtime.

    python -m bench.trees [model ...] [--rows 1 1000 8000] [--threads 1]

Models of scikit-learn, LightGBM and XGBoost of drawn data with 20 features (two of them categories
of LightGBM's), written by their converters (`skl2onnx`, `onnxmltools`). Both run in one process, in
turns; times are the least processor time of a call on one thread, or of the clock on several.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench.quantized_models import session_of
from bench.session_times import least_seconds
from bench.text import print_table

SECONDS = 1.5
"""Of calls, of both peers together."""
_FEATURES = 20


def _data() -> tuple[Any, Any]:
    r = np.random.default_rng(0)
    x = r.normal(size=(8000, _FEATURES)).astype(np.float32)
    x[:, 0], x[:, 1] = r.integers(0, 30, len(x)), r.integers(0, 6, len(x))
    y = x[:, 2] * x[:, 3] + np.sin(x[:, 4]) + 0.3 * (x[:, 0] % 5) + 0.1 * r.normal(size=len(x))
    return x, y


def _sklearn(kind: str, **options: Any) -> Callable[[Any, Any], Any]:
    def made(x: Any, y: Any) -> Any:
        from skl2onnx import to_onnx
        from sklearn import ensemble

        model = getattr(ensemble, kind)(random_state=0, **options)
        wanted = {"target_opset": {"": 15, "ai.onnx.ml": 3}}
        return to_onnx(model.fit(x, y > 0 if "Classifier" in kind else y), x[:1], **wanted)

    return made


def _boosted(package: str, kind: str, fit: dict[str, Any] | None = None, **options: Any) -> Any:
    def made(x: Any, y: Any) -> Any:
        import importlib

        import onnxmltools
        from onnxmltools.convert.common.data_types import FloatTensorType

        model = getattr(importlib.import_module(package), kind)(**options)
        model.fit(x, np.digitize(y, [-0.5, 0.8]) if "Classifier" in kind else y, **(fit or {}))
        convert = getattr(onnxmltools, f"convert_{package}")
        types = [("X", FloatTensorType([None, _FEATURES]))]
        return convert(model, initial_types=types, target_opset=15)

    return made


MODELS: dict[str, Callable[[Any, Any], Any]] = {
    "sklearn random forest, 200 trees": _sklearn("RandomForestClassifier", n_estimators=200),
    "sklearn gradient boosting, 100": _sklearn("GradientBoostingRegressor"),
    "sklearn isolation forest, 100": _sklearn("IsolationForest", n_estimators=100),
    "lightgbm, 100": _boosted("lightgbm", "LGBMRegressor", verbose=-1),
    "lightgbm, 60 for each of 3 classes": _boosted(
        "lightgbm", "LGBMClassifier", n_estimators=60, verbose=-1
    ),
    "lightgbm, 100 with categories": _boosted(
        "lightgbm", "LGBMRegressor", {"categorical_feature": [0, 1]}, verbose=-1
    ),
    "lightgbm, 300 of 127 leaves": _boosted(
        "lightgbm", "LGBMRegressor", n_estimators=300, num_leaves=127, verbose=-1
    ),
    "xgboost, 100": _boosted("xgboost", "XGBRegressor"),
    "xgboost, 60 for each of 3 classes": _boosted("xgboost", "XGBClassifier", n_estimators=60),
}
"""How a model is made of data."""


def _numbers(results: Any) -> list[Any]:
    """Return results as arrays; those of classifiers may be maps from labels."""
    return [
        np.array([list(row.values()) for row in result]) if isinstance(result, list) else result
        for result in results
    ]


def measured(model: Any, x: Any, threads: int) -> tuple[dict[str, float], float]:
    """Return the least seconds of a call by peer, and the largest difference."""
    clock = time.process_time if threads == 1 else time.perf_counter
    sessions = {peer: session_of(peer, model, threads) for peer in ("rlx", "ort")}
    found, expected = (_numbers(each.run(None, {"X": x})) for each in sessions.values())
    difference = max(
        float(np.abs(a.astype(float) - b.astype(float)).max())
        for a, b in zip(found, expected, strict=True)
    )
    calls = max(1, 400 // len(x))
    best = least_seconds(sessions, {"X": x}, SECONDS, clock=clock, repeats=1, calls=calls)
    return best, difference


def rows_of(names: list[str], counts: list[int], threads: int) -> Iterator[list[str]]:
    x, y = _data()
    for name in names:
        model = MODELS[name](x, y).SerializeToString()
        for count in counts:
            best, difference = measured(model, x[:count], threads)
            times = [f"{best[peer] * 1e6:.0f}" for peer in ("rlx", "ort")]
            yield [
                name,
                str(count),
                *times,
                f"{best['rlx'] / best['ort']:.2f}",
                f"{difference:.0e}",
            ]


COLUMNS = ["model", "rows", "rlx us", "ONNX Runtime us", "rlx / ONNX Runtime", "difference"]


def main() -> None:
    parser = argparse.ArgumentParser(description="measure trees next to ONNX Runtime")
    parser.add_argument("models", nargs="*", default=[*MODELS])
    parser.add_argument("--rows", type=int, nargs="*", default=[1, 1000, 8000])
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print_table(COLUMNS, rows_of(options.models, options.rows, options.threads))


if __name__ == "__main__":
    main()
