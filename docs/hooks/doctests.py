"""Show the doctests of docstrings as code."""

import re

import griffe

DOCTEST = re.compile(r"(?:^|(?<=\n\n))(>>> .*?)(?=\n\n|\Z)", re.DOTALL)


class FenceDoctests(griffe.Extension):
    """Put a fence around every doctest before docstrings are read as Markdown."""

    def on_object(self, *, obj, **kwargs):
        if obj.docstring:
            obj.docstring.value = DOCTEST.sub(r"```pycon\n\1\n```", obj.docstring.value)
