"""Image files: read by Pillow while a session runs."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from rlx.errors import FormatError, ToolchainError
from rlx.onnx.registry import Static, operator


@operator("ImageDecoder", on_host=True)
def image_decoder(encoded: Static, *, pixel_format: str = "RGB") -> Any:
    """Pixels `[height, width, channels]` of JPEG, PNG, BMP, TIFF, WebP, ... files."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError as error:
        raise ToolchainError(
            "the Pillow package is missing, which reads image files",
            remedy="install it with pip install pillow",
        ) from error
    try:
        with Image.open(io.BytesIO(encoded.tobytes())) as picture:
            pixels = np.asarray(picture.convert("L" if pixel_format == "Grayscale" else "RGB"))
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise FormatError(
            f"the bytes are no image file: {error}", remedy="give the bytes of the whole file"
        ) from None
    if pixel_format == "Grayscale":
        return pixels[:, :, None]
    return pixels[:, :, ::-1] if pixel_format == "BGR" else pixels
