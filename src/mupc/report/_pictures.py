"""Pictures inside a page."""

import base64
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def png_uri(png: bytes) -> str:
    """Return an address that holds a PNG picture itself."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def pixels_as_png(pixels: "np.ndarray") -> bytes:
    """Return a PNG file of uint8 pixels: (height, width) in grey, or (height, width, 3) in colour."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "png", optimize=True)
    return buffer.getvalue()
