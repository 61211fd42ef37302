"""The part of ai.onnx.ml that is on tensors: linear models, scalers, encoders, trees."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import FormatError
from rlx.onnx.errors import ForeignDTypeError
from rlx.onnx.operators.scores import Labels, transformed
from rlx.onnx.registry import operator

_DOMAIN = "ai.onnx.ml"


@operator("ArrayFeatureExtractor", domain=_DOMAIN)
def array_feature_extractor(x: Any, places: Any) -> Any:
    rows = x if x.ndim > 1 else rnp.expand_dims(x, 0)
    return rnp.take(rows, places.reshape(-1), axis=-1)


@operator("Binarizer", domain=_DOMAIN)
def binarizer(x: Any, *, threshold: float = 0.0) -> Any:
    return rnp.astype(rnp.greater(x, threshold), x.dtype)


@operator("Scaler", domain=_DOMAIN)
def scaler(x: Any, *, offset: Any, scale: Any) -> Any:
    moved = rnp.subtract(rnp.astype(x, "f32"), np.asarray(offset, np.float32))
    return rnp.multiply(moved, np.asarray(scale, np.float32))


@operator("Imputer", domain=_DOMAIN)
def imputer(
    x: Any,
    *,
    imputed_value_floats: Any = None,
    imputed_value_int64s: Any = None,
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Any:
    if imputed_value_floats is None:
        missing = rnp.equal(x, replaced_value_int64)
        return rnp.where(missing, np.asarray(imputed_value_int64s, x.dtype), x)
    is_nan = np.isnan(replaced_value_float)
    missing = rnp.isnan(x) if is_nan else rnp.equal(x, replaced_value_float)
    return rnp.where(missing, np.asarray(imputed_value_floats, x.dtype), x)


@operator("Normalizer", domain=_DOMAIN)
def normalizer(x: Any, *, norm: str = "MAX") -> Any:
    """Rows of which the norm is zero stay as they are."""
    x = rnp.astype(x, "f32")
    if norm == "MAX":
        size = rnp.max(x, -1, keepdims=True)
    elif norm == "L1":
        size = rnp.sum(rnp.abs(x), -1, keepdims=True)
    else:
        size = rnp.sqrt(rnp.sum(rnp.square(x), -1, keepdims=True))
    return rnp.divide(x, rnp.where(rnp.equal(size, 0), 1, size))


@operator("LinearRegressor", domain=_DOMAIN)
def linear_regressor(
    x: Any, *, coefficients: Any, intercepts: Any = None, targets: int = 1,
    post_transform: str = "NONE",
) -> Any:  # fmt: skip
    if targets < 1 or len(coefficients) != targets * x.shape[-1]:
        raise FormatError(
            f"{len(coefficients)} coefficients for {targets} results of {x.shape[-1]} features",
            remedy="the model is malformed: export it again",
        )
    weights = np.asarray(coefficients, np.float32).reshape(targets, -1).T
    y = rnp.matmul(rnp.astype(x, "f32"), weights)
    y = y if intercepts is None else y + np.asarray(intercepts, np.float32)
    return transformed(y, post_transform)


@operator("LinearClassifier", domain=_DOMAIN)
def linear_classifier(
    x: Any, *, coefficients: Any, intercepts: Any = None, classlabels_ints: Any = None,
    classlabels_strings: Any = None, multi_class: int = 0, post_transform: str = "NONE",
) -> Any:  # fmt: skip
    del multi_class
    labels = Labels.of(classlabels_ints, classlabels_strings, 2)
    scores = linear_regressor(x, coefficients=coefficients, intercepts=intercepts,
                              targets=len(coefficients) // x.shape[-1])  # fmt: skip
    if scores.shape[-1] == 1 and labels.size == 2:
        best = rnp.astype(rnp.greater(scores[..., 0], 0), "i64")
        scores = rnp.concatenate([-scores, scores], -1)
    else:
        best = rnp.argmax(scores, -1)
    return labels.at(best), transformed(scores, post_transform)


@operator("OneHotEncoder", domain=_DOMAIN)
def one_hot_encoder(
    x: Any, *, cats_int64s: Any = None, cats_strings: Any = None, zeros: int = 1
) -> Any:
    if cats_strings:
        raise _strings()
    if not zeros:
        raise ForeignDTypeError(
            "zeros=0 asks for an error at an element that is not a category; a program raises none",
            remedy="write the model with zeros=1, or run it in rlx.onnx.InferenceSession",
        )
    known = np.asarray(cats_int64s, np.int64)
    return rnp.astype(rnp.equal(rnp.expand_dims(rnp.astype(x, "i64"), -1), known), "f32")


@operator("FeatureVectorizer", domain=_DOMAIN)
def feature_vectorizer(*inputs: Any, inputdimensions: Any = None) -> Any:
    del inputdimensions
    return rnp.concatenate([rnp.astype(x, "f32") for x in inputs], -1)


@operator("LabelEncoder", domain=_DOMAIN)
def first_label_encoder(
    x: Any, *, classes_strings: Any, default_int64: int = -1, default_string: str = "_Unused"
) -> Any:
    """The string of each number; the numbers of strings are found by NumPy, in sessions."""
    del default_int64
    count = len(classes_strings)
    known = rnp.logical_and(rnp.greater_equal(x, 0), rnp.less(x, count))
    labels = Labels(np.asarray((*classes_strings, default_string), object))
    return labels.at(rnp.where(known, x, count))


@operator("LabelEncoder", domain=_DOMAIN, since=2)
def label_encoder(
    x: Any,
    *,
    keys_int64s: Any = None,
    keys_floats: Any = None,
    keys_strings: Any = None,
    keys_tensor: Any = None,
    values_int64s: Any = None,
    values_floats: Any = None,
    values_strings: Any = None,
    values_tensor: Any = None,
    default_int64: int = -1,
    default_float: float = -0.0,
    default_string: str = "_Unused",
    default_tensor: Any = None,
) -> Any:
    """The value of the key that is equal, else the default; strings are put in after the run."""
    if keys_strings is not None:
        raise _strings()
    keys = _first(keys_int64s, keys_floats, keys_tensor)
    if values_strings is not None:
        numbers = _looked_up(x, keys, np.arange(len(keys)), len(keys))
        return Labels(np.asarray((*values_strings, default_string), object)).at(numbers)
    values = _first(values_int64s, values_floats, values_tensor)
    default = default_int64 if values.dtype.kind in "iu" else default_float
    if default_tensor is not None:
        default = default_tensor.item()
    return _looked_up(x, keys, values, default)


def _looked_up(x: Any, keys: Any, values: Any, default: Any) -> Any:
    """Return the value of the first key that is equal, by its place among the sorted ones."""
    xp: Any = np if isinstance(x, np.ndarray) else rnp
    keys, values = np.asarray(keys).astype(x.dtype), np.asarray(values)
    found: Any = xp.full(x.shape, np.asarray(default, values.dtype))
    is_nan = keys != keys
    if is_nan.any():
        found = xp.where(xp.isnan(x), values[is_nan][0], found)
    known, first = np.unique(keys[~is_nan], return_index=True)
    if not known.size:
        return found
    table = values[~is_nan][first]
    place = _place_of(xp, x, known)
    same = xp.equal(xp.take(known, place, mode="clip"), x)
    return xp.where(same, xp.take(table, place, mode="clip"), found)


def _place_of(xp: Any, x: Any, known: Any) -> Any:
    """Return where each element would be among sorted keys; at once where these are a range."""
    if known.dtype.kind in "iu" and int(known[-1]) - int(known[0]) == known.size - 1:
        return xp.clip(x, known[0], known[-1]) - known[0]
    return xp.searchsorted(known, x)


def _first(*given: Any) -> Any:
    value = next(v for v in given if v is not None)
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        raise _strings()
    if isinstance(value, np.ndarray):
        return value
    return np.asarray(value, np.int64 if all(isinstance(v, int) for v in value) else np.float32)


def _strings() -> ForeignDTypeError:
    return ForeignDTypeError(
        "keys or categories that are strings: rlx compiles numbers",
        remedy="use numbers as keys, or run the model in rlx.onnx.InferenceSession",
    )
