"""Strategies: bytes that were valid once, JSON of any kind, and values that users give to flags by mistake."""

import io
import re
import shutil
import zipfile

import numpy as np
from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)

WORDS = (
    "nan", "inf", "-inf", "-1", "0", "1", "2", "0.5", "1e400", "-1e-320", "", " ", "-", "--", "=", ",", "None", "true",
    "ü", "💥", "a\nb", "\u202e", "a\0b", "[bold]", "x" * 300, "log:1:2:3", "1,2", "auto", "{}", "$HOME", "%s",
)  # fmt: skip
SIZES = ("-1", "0", "1", "2", "3", "nan", "", "x", "1.5", "９")
IMPOSSIBLE = (str(2**31), str(2**63), str(10**30), "-" + "9" * 30)
"""For flags that decide how much memory or time is needed: only toys and the impossible."""

CELL = {
    "width": 3, "hidden_layers": 2, "weight_lr": 0.5, "activity_lr": 0.8, "train_loss": 0.1, "validation_loss": None,
    "test_loss": 0.1, "test_accuracy": 0.5, "diverged": 0, "seconds": 1.0,
}  # fmt: skip
"""A line from which `mupc transfer` resumes."""
RESULT = {
    "slug": "toy-landscape", "title": "A title", "caption": "A caption", "preset": "paper", "complete": False,
    "cells": {"finished": 1, "known": 2}, "config": {"protocol": ["a line"]}, "device": "cpu", "seconds": 1.5,
    "claims": [{"claim": "a", "measured": "1", "expected": "1", "verdict": "holds"}], "precision": "float32",
    "versions": {"jax": "1"}, "data": [],
}  # fmt: skip
"""What `mupc reproduce` saves for a figure."""


def value():
    """Values that a user may give to a flag. Paths stay in the working folder."""
    text = st.text(max_size=8).filter(lambda t: not t.startswith(("/", "~")) and ".." not in t)
    return st.sampled_from(WORDS) | st.integers().map(str) | st.floats().map(str) | text


def argv(flags, sized, required=()):
    """A command line: `required` words, then some flags of a list, misspelt ones too, with values that may be missing.
    Flags in `sized` get sizes, impossible ones too."""
    known = st.sampled_from(sorted(flags)).flatmap(
        lambda name: st.tuples(
            st.just(f"--{name}"),
            st.sampled_from(SIZES + IMPOSSIBLE) if name in sized else value(),
        )
    )
    lone = st.tuples(st.sampled_from(sorted(flags)).map(lambda name: f"--{name}"))
    wrong = st.tuples(st.text(max_size=5).map(lambda text: f"--{text}"))
    words = st.lists(known | known | lone | wrong | st.tuples(value()), max_size=4)
    return words.map(lambda groups: [*required, *(word for group in groups for word in group)])


@st.composite
def mutated(draw, valid):
    """Bytes with a few changes: flipped, overwritten, cut, inserted, repeated, or with other numbers in text."""
    content = bytearray(draw(st.sampled_from(valid)) if isinstance(valid, list) else valid)
    for _ in range(draw(st.integers(1, 4))):
        # Most of what there is to break lies at the front and at the end.
        at = draw(st.integers(0, len(content)) | st.integers(0, min(200, len(content))))
        if draw(st.booleans()):
            at = max(0, len(content) - at)
        length = draw(st.sampled_from((1, 1, 2, 4, 8, 100)))
        kind = draw(st.sampled_from(("flip", "write", "cut", "end", "insert", "repeat", "number")))
        if kind == "flip" and at < len(content):
            content[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "write":
            new = draw(st.binary(min_size=length, max_size=length) | st.sampled_from((b"\xff" * length, bytes(length))))
            content[at : at + length] = new
        elif kind == "cut":
            del content[at : at + length]
        elif kind == "end":
            del content[at:]
        elif kind == "insert":
            content[at:at] = draw(st.binary(max_size=length))
        elif kind == "repeat":
            content[at:at] = content[at : at + length]
        else:
            _other_number(draw, content)
    return bytes(content)


def _other_number(draw, content):
    """Replace a number that is written in digits near the front."""
    found = list(re.finditer(rb"\d+", bytes(content[:2000])))
    if found:
        match = draw(st.sampled_from(found))
        number = draw(st.sampled_from((0, 1, -1, 2**31, 2**63, 10**12, 10**40)) | st.integers(0, 300))
        content[match.start() : match.end()] = str(number).encode()


def npy(array):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=False)
    return buffer.getvalue()


def zipped(members, compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, body in members.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), body, compression)  # without the time, which would vary
    return buffer.getvalue()


@st.composite
def npz(draw, arrays):
    """A .npz file that is broken as a whole, has broken members, or holds arrays of the wrong kind."""
    members = {name: npy(array) for name, array in arrays.items()}
    kind = draw(st.sampled_from(("whole", "member", "member", "array", "random")))
    if kind == "random":
        return draw(st.binary(max_size=300))
    if kind == "whole":
        return draw(mutated(zipped(members, draw(st.sampled_from((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))))))
    name = draw(st.sampled_from(sorted(members)))
    members[name] = draw(mutated(members[name])) if kind == "member" else npy(draw(_array()))
    return zipped(members, draw(st.sampled_from((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))))


@st.composite
def _array(draw):
    kinds = ("u1", "i1", "i8", "u8", ">i4", "f2", "f4", "f8", "c8", "?", "U3", "S2", "M8[s]", "m8[s]", "V4")
    shape = draw(st.lists(st.integers(0, 6), max_size=4))
    array = np.zeros(shape, draw(st.sampled_from(kinds)))
    if array.dtype.kind in "iuf" and array.size:
        high = 60_000 if array.dtype.kind == "f" else int(np.iinfo(array.dtype).max)
        array.flat[draw(st.integers(0, array.size - 1))] = draw(st.sampled_from((1, 2, 100, high)))
        if array.dtype.kind == "f":
            array.flat[0] = draw(st.sampled_from((0.0, float("nan"), float("inf"), -1.5)))
    return array


def damage(draw, folder):
    """Damage some of the files in a folder."""
    for _ in range(draw(st.integers(1, 3))):
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
        if not files:
            return
        path, other = draw(st.sampled_from(files)), draw(st.sampled_from(files))
        kind = draw(st.sampled_from(("bytes",) * 4 + ("empty", "gone", "folder", "tree", "swap", "renamed", "more")))
        if kind == "bytes":
            path.write_bytes(draw(mutated(path.read_bytes())))
        elif kind == "empty":
            path.write_bytes(b"")
        elif kind in ("gone", "folder"):
            path.unlink()
            if kind == "folder":
                path.mkdir()
        elif kind == "tree" and path.parent != folder:
            shutil.rmtree(path.parent)
        elif kind == "swap":
            path.write_bytes(other.read_bytes())
        elif kind == "renamed" and path.parent.parent == other.parent.parent == folder and path.parent != other.parent:
            shutil.rmtree(path.parent)
            shutil.copytree(other.parent, path.parent)
        elif kind == "more":
            path.with_name(draw(st.sampled_from(("more", "step-99", "_CHECKPOINT_METADATA")))).write_bytes(b"more")
