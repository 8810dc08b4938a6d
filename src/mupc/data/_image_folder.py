"""Data sets that are folders of images, with a subfolder for each class."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

import numpy as np

from ..io import checks, counted, physical_memory
from ._columns import quoted
from ._dataset import Dataset, Split
from ._errors import DataError
from ._from_arrays import from_arrays
from ._images import ImageFolder, find_images, images_in, subfolders
from ._normalisation import DARK, PIXELS
from ._schema import Schema
from ._table import SplitOptions

PARTS = ("train", "test")
"""Subfolders of a folder that is divided already, each with subfolders of classes."""
ImageSize = int | Sequence[int]
_GREY = ("1", "L", "LA")


def is_folder(name: str) -> bool:
    """Whether a name is that of a folder."""
    return Path(name).expanduser().is_dir()


def holds_classes(name: str) -> bool:
    """Whether a name is that of a folder with subfolders of images."""
    return is_folder(name) and any(images_in(path) for path in subfolders(Path(name)))


def is_divided(name: str) -> bool:
    """Whether a folder has subfolders for training and test."""
    return all((Path(name).expanduser() / part).is_dir() for part in PARTS)


def load_image_folder(name: str, size: ImageSize | None = None, **options: Unpack[SplitOptions]) -> Dataset:
    """Return the data set in a folder, in grey if all images are, else in RGB.

    **Arguments:** the folder, the height and width to bring images to (None: they have the same), and how to split them
    if the folder is not divided.
    """
    parts, labels = _find(name)
    shape = _image_shape(parts, size)
    _check_room(name, sum(len(part.files) for part in parts) * math.prod(shape))
    splits = [(part.read(0, len(part.files), shape, size is not None), np.asarray(part.labels)) for part in parts]
    brightest = int(splits[0][0].max())
    if brightest <= DARK:
        cure = "scale them, so that white is 255"
        raise DataError(f"{name} has images whose brightest value is {brightest} of 255", cure)
    title = Path(name).expanduser().resolve().name
    if len(splits) == 1:
        ((pixels, own),) = splits
        dataset = from_arrays(pixels.reshape(-1, *shape), own, task="classification", **options)
        return dataclasses.replace(dataset, name=title, source=name)
    schema = Schema(PIXELS, labels, image_shape=shape)
    train, test = (Split(pixels, schema.indices(own)) for pixels, own in splits)
    return Dataset(title, train, test, None, schema, official=False, source=name)


def describe_image_folder(name: str) -> str:
    """Return what a folder holds, in words, after reading all of it."""
    parts, labels = _find(name)
    sizes = {size for part in parts for size, _ in part.headers()}
    for part in parts:
        part.read(0, len(part.files), (1, 1), resize=True)
    images = " and ".join(counted(len(part.files), "image") for part in parts)
    shown = " × ".join(map(str, min(sizes))) if len(sizes) == 1 else counted(len(sizes), "size")
    return f"read {images} ({shown}) of {counted(len(labels), 'class', 'classes')}: {quoted(labels)}"


def _find(name: str) -> tuple[list[ImageFolder], tuple[str, ...]]:
    """Return the images of a folder, or of its parts, and the classes, which are those of the training part."""
    whole = Path(name).expanduser()
    folders = [whole / part for part in PARTS] if is_divided(name) else [whole]
    others = [path for path in subfolders(whole) if path not in folders]
    if len(folders) > 1 and others:
        raise DataError(f"{whole} has folders train and test, and {others[0].name} as well", "move that away")
    labels = _classes(folders[0])
    found = [find_images(folder, Schema(labels=labels)) for folder in folders]
    if found[-1].labels is None:
        raise DataError(f"{folders[-1]} has no subfolders of images", "make one for each class")
    return [_in_turns(part) for part in found], labels


def _in_turns(part: ImageFolder) -> ImageFolder:
    """Return the images with the classes in turns, so that the first ones show every class."""
    labels = np.asarray(part.labels)
    place = np.zeros(len(labels), int)
    for label in np.unique(labels):
        place[labels == label] = np.arange(np.sum(labels == label))
    order = np.argsort(place, kind="stable")
    files, names = (tuple(each[index] for index in order) for each in (part.files, part.names))
    return ImageFolder(files, names, labels[order])


def _classes(folder: Path) -> tuple[str, ...]:
    below = subfolders(folder)
    labels = tuple(path.name for path in below if images_in(path))
    if len(labels) < 2:
        what = f"{folder} has {counted(len(labels), 'subfolder')} with PNG or JPEG images"
        raise DataError(what, "give a folder with one for each class, and two or more; or with folders train and test")
    if len(labels) < len(below):
        empty = next(path for path in below if path.name not in labels)
        raise DataError(f"{empty} holds no PNG or JPEG images", "convert them, or move the folder away")
    return labels


def _check_room(name: str, values: int) -> None:
    needed, there = 2 * values, physical_memory()  # read, then put together
    if needed > there:
        room = f"need {needed / 2**30:.1f} GiB, and there are {there / 2**30:.1f} GiB"
        raise DataError(f"the images of {name} {room}", "set {image_size} to less")


def _image_shape(parts: Sequence[ImageFolder], size: ImageSize | None) -> tuple[int, ...]:
    """Return the shape of all images, channel first."""
    files = [path for part in parts for path in part.files]
    headers = [header for part in parts for header in part.headers()]
    if size is None:
        (width, height), _ = headers[0]
        for path, (own, _) in zip(files, headers, strict=True):
            if own != (width, height):
                what = f"{files[0]} has {width} × {height} pixels and {path} {own[0]} × {own[1]}"
                raise DataError(what, "set {image_size} to bring all to one size")
    else:
        sizes = tuple(size) if isinstance(size, Sequence) else (size,)
        if len(sizes) not in (1, 2):
            raise checks.ArgumentError("image_size", f"has {len(sizes)} numbers.", "Give height and width.")
        height, width = (checks.integer("image_size", each, 1) for each in (sizes[0], sizes[-1]))
    grey = all(mode in _GREY for _, mode in headers)
    return (height, width) if grey else (3, height, width)
