"""Folders of images: PNG and JPEG files in the order of their names. Subfolders are named after classes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ._columns import quoted
from ._errors import DataError, escaped
from ._schema import Schema

_SUFFIXES = (".png", ".jpg", ".jpeg")
_FORMATS = ("PNG", "JPEG")  # no other decoder of the imaging library is used
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_EIGHT_BITS = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
_MOST_PIXELS = 50_000_000  # even a small file may claim to be a huge image


@dataclass(frozen=True)
class ImageFolder:
    """The image files of a folder, and their labels if they lie in subfolders named after classes."""

    files: tuple[Path, ...]
    names: tuple[str, ...]
    labels: np.ndarray | None

    def read(self, start: int, stop: int, image_shape: tuple[int, ...], resize: bool) -> np.ndarray:
        """Return the images from `start` to `stop` as uint8 rows, flattened channel first."""
        return np.stack([read_image(path, image_shape, resize) for path in self.files[start:stop]])


def find_images(folder: Path, schema: Schema) -> ImageFolder:
    """Return the images in a folder, or in its subfolders named after the classes of a schema (their labels, or the
    names of these); other files are ignored."""
    own = _images(folder)
    below = sorted(path for path in folder.iterdir() if path.is_dir() and _images(path))
    if own and below:
        raise DataError(f"{folder} holds images and a folder of images ({below[0].name})", "move them apart")
    labels = schema.labels or ()
    known = dict(zip(schema.class_names or (), labels, strict=False)) | {str(label): label for label in labels}
    wrong = [path.name for path in below if path.name not in known]
    if wrong:
        cure = f"name subfolders after classes: {escaped(quoted(labels))}" if labels else "move them out of it"
        raise DataError(f"{folder} has images in a subfolder {wrong[0]!r}", cure)
    if not (own or below):
        raise DataError(f"{folder} holds no {', '.join(_SUFFIXES)} files", "give a folder of images, or a .npz file")
    files = own or [path for part in below for path in _images(part)]
    targets = np.array([known[path.parent.name] for path in files]) if below else None
    return ImageFolder(tuple(files), tuple(str(path.relative_to(folder)) for path in files), targets)


def read_image(path: Path, image_shape: Sequence[int], resize: bool = False) -> np.ndarray:
    """Return an image as a uint8 row: grey, RGB or RGBA as the shape says, flattened channel first.

    An image of another size is refused, unless `resize`.
    """
    from PIL import Image

    *channels, height, width = image_shape
    mode = _MODES[channels[0] if channels else 1]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about sizes, which are checked here, and harmless metadata
            with Image.open(path, formats=_FORMATS) as image:
                _check_image(path, image.size, image.mode, (width, height), resize)
                picture = image.convert(mode)
                if picture.size != (width, height):
                    picture = picture.resize((width, height), Image.Resampling.LANCZOS)
                pixels = np.asarray(picture)
    except DataError:
        raise
    except Image.DecompressionBombError:
        raise DataError(f"{path} has too many pixels", f"give images of at most {_MOST_PIXELS:,}") from None
    except (OSError, SyntaxError, ValueError, MemoryError) as error:  # what the decoders raise for damaged files
        reason = getattr(error, "strerror", None) or "damaged, or neither PNG nor JPEG"
        raise DataError(f"{path} cannot be read ({reason})", "save it again, or take it out of the folder") from None
    return (np.moveaxis(pixels, -1, 0) if pixels.ndim == 3 else pixels).reshape(-1)


def _images(folder: Path) -> list[Path]:
    images = (path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES)
    return sorted(path for path in images if path.is_file() and not path.name.startswith("."))


def _check_image(path: Path, size: tuple[int, int], mode: str, wanted: tuple[int, int], resize: bool) -> None:
    """Refuse an image that cannot be used, before anything is decoded."""
    if size[0] * size[1] > _MOST_PIXELS:
        raise DataError(f"{path} has {size[0]} × {size[1]} pixels", f"give images of at most {_MOST_PIXELS:,}")
    if mode not in _EIGHT_BITS:
        raise DataError(f"{path} has pixels of the kind {mode}", "save it with 8 bits per channel")
    if size != wanted and not resize:
        raise DataError(
            f"{path} has {size[0]} × {size[1]} pixels and the network takes {wanted[0]} × {wanted[1]} (width × height)",
            "save it at that size, or pass {resize}",
        )
