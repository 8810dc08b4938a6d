"""Folders of images: PNG and JPEG files in the order of their names. Subfolders are named after classes."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ._columns import quoted
from ._errors import DataError, escaped
from ._schema import Schema

if TYPE_CHECKING:
    from PIL.Image import Image

Header = tuple[tuple[int, int], str]
Read = TypeVar("Read")
_SUFFIXES = (".png", ".jpg", ".jpeg")
_OTHERS = (".avif", ".bmp", ".gif", ".heic", ".jfif", ".tif", ".tiff", ".webp")
_FORMATS = ("PNG", "JPEG")  # no other decoder of the imaging library is used
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_EIGHT_BITS = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
_ORIENTATION, _ON_THEIR_SIDE = 0x0112, (5, 6, 7, 8)  # how a camera was held
_MOST_PIXELS = 50_000_000  # even a small file may claim to be a huge image


@dataclass(frozen=True)
class ImageFolder:
    """The image files of a folder, and their labels if they lie in subfolders named after classes."""

    files: tuple[Path, ...]
    names: tuple[str, ...]
    labels: np.ndarray | None

    def read(self, start: int, stop: int, image_shape: tuple[int, ...], resize: bool) -> np.ndarray:
        """Return the images from `start` to `stop` as uint8 rows, flattened channel first."""
        read = functools.partial(read_image, image_shape=image_shape, resize=resize)
        return np.stack(_each(read, self.files[start:stop]))

    def headers(self) -> list[Header]:
        """Return the width and height of every image, and its mode as the imaging library calls it."""
        return _each(_read_header, self.files)


def find_images(folder: Path, schema: Schema) -> ImageFolder:
    """Return the images in a folder, or in its subfolders named after the classes of a schema (their labels, or the
    names of these); other files are ignored."""
    own = images_in(folder)
    below = {part: found for part in subfolders(folder) if (found := images_in(part))}
    if own and below:
        raise DataError(f"{folder} holds images and a folder of images ({min(below).name})", "move them apart")
    labels = schema.labels or ()
    known = dict(zip(schema.class_names or (), labels, strict=False)) | {str(label): label for label in labels}
    wrong = [path.name for path in below if path.name not in known]
    if wrong:
        cure = f"name subfolders after classes: {escaped(quoted(labels))}" if labels else "move them out of it"
        raise DataError(f"{folder} has images in a subfolder {wrong[0]!r}", cure)
    if not (own or below):
        raise DataError(f"{folder} holds no {', '.join(_SUFFIXES)} files", "give a folder of images, or a .npz file")
    deeper = [path for part in below for path in subfolders(part) if images_in(path)]
    if deeper:
        raise DataError(f"{deeper[0]} is a folder of images inside that of a class", "move its images up")
    files = own or [path for found in below.values() for path in found]
    unwritable = [path for path in files if not _is_text(str(path))]
    if unwritable:
        raise DataError(f"the name {str(unwritable[0])!r} is not text in UTF-8", "rename the file or its folder")
    targets = np.array([known[path.parent.name] for path in files]) if below else None
    return ImageFolder(tuple(files), tuple(str(path.relative_to(folder)) for path in files), targets)


def images_in(folder: Path) -> list[Path]:
    """Return the image files of a folder itself. Those of other formats are an error, since they would be missed."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    others = [path for path in files if path.suffix.lower() in _OTHERS]
    if others:
        raise DataError(f"{others[0]} is neither PNG nor JPEG", "convert it, or take it out of the folder")
    return [path for path in files if path.suffix.lower() in _SUFFIXES]


def subfolders(folder: Path) -> list[Path]:
    """Return the folders in a folder, but for hidden ones."""
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def read_image(path: Path, image_shape: Sequence[int], resize: bool = False) -> np.ndarray:
    """Return an image as a uint8 row: grey, RGB or RGBA as the shape says, flattened channel first.

    An image of another size is refused, unless `resize`.
    """
    from PIL.Image import Resampling
    from PIL.ImageOps import exif_transpose

    *channels, height, width = image_shape
    with _opened(path) as opened:
        image = exif_transpose(opened)
        if image.size != (width, height) and not resize:
            raise DataError(
                f"{path} has {image.size[0]} × {image.size[1]} pixels and the network takes {width} × {height} "
                "(width × height)",
                "save it at that size, or pass {resize}",
            )
        picture = image.convert(_MODES[channels[0] if channels else 1])
        if picture.size != (width, height):
            picture = picture.resize((width, height), Resampling.LANCZOS)
        pixels = np.asarray(picture)
    return (np.moveaxis(pixels, -1, 0) if pixels.ndim == 3 else pixels).reshape(-1)


def _each(read: Callable[[Path], Read], files: Sequence[Path]) -> list[Read]:
    with warnings.catch_warnings(), ThreadPoolExecutor() as readers:
        warnings.simplefilter("ignore")  # about sizes, which are checked here, and harmless metadata
        return list(readers.map(read, files))


def _read_header(path: Path) -> Header:
    with _opened(path) as image:
        turned = image.format == "JPEG" and image.getexif().get(_ORIENTATION) in _ON_THEIR_SIDE
        width, height = image.size
        return ((height, width) if turned else (width, height)), image.mode


def _is_text(name: str) -> bool:
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Image]:
    """Open an image, or refuse it before anything is decoded. Errors of decoding are those of data as well."""
    from PIL import Image

    try:
        with Image.open(path, formats=_FORMATS) as image:
            if image.width * image.height > _MOST_PIXELS:
                what = f"{path} has {image.width} × {image.height} pixels"
                raise DataError(what, f"give images of at most {_MOST_PIXELS:,}")
            if image.mode not in _EIGHT_BITS:
                raise DataError(f"{path} has pixels of the kind {image.mode}", "save it with 8 bits per channel")
            yield image
    except DataError:
        raise
    except Image.DecompressionBombError:
        raise DataError(f"{path} has too many pixels", f"give images of at most {_MOST_PIXELS:,}") from None
    except (OSError, SyntaxError, ValueError, MemoryError) as error:  # what the decoders raise for damaged files
        reason = getattr(error, "strerror", None) or "damaged, or neither PNG nor JPEG"
        raise DataError(f"{path} cannot be read ({reason})", "save it again, or take it out of the folder") from None
