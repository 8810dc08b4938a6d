"""Build steps of the site that mkdocs does not have: notebooks, files from outside `docs/`, help texts of the commands,
and checks that every public name is documented and that no page loads anything from elsewhere."""

import contextlib
import io
import os
import re
import textwrap
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from public_names import undocumented

import notebooks

ROOT = Path(__file__).parents[2]
PAGES = ["CHANGELOG.md", "CONTRIBUTING.md"]
FIGURES = "results/*.png"
HELP = "<!-- the help of every command -->"
COLUMNS = 92
OUTSIDE = re.compile(r"\]\(\.\./((?:results/|CHANGELOG\.md|CONTRIBUTING\.md)[^)]*)\)")
"""A link of a page in `docs/` to a file of the repository that the site has, too."""
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=["']?(?:https?:)?//[^"'\s>]+"""
    r"""|<link\b(?![^>]*rel=["']?(?:canonical|next|prev))[^>]*\bhref=["']?(?:https?:)?//[^"'\s>]+"""
    r"""|@import\s+["'(]*(?:https?:)?//[^"')]+|url\(["']?(?:https?:)?//[^"')]+"""
)
"""What a browser would fetch from another host while it shows a page."""
PICTURE = re.compile(r"""<img\b[^>]*\bsrc="([^"]+)"[^>]*>""")
CELL = re.compile(r"<td>(?=(.*?)</td>)", re.DOTALL)
WORD = re.compile(r"<code>([^<\s]{1,24})</code>")
QUANTITY = re.compile(r"(?<=\d) (?=%)|(?<=\b\w) (?== [\d.])|(?<=\b\w =) (?=[\d.])")
"""The spaces of "97.4 %" and "H = 8"."""
COMMAND = re.compile(r" *\S+ {2,}")
"""A command or a flag in a list, up to its description."""


def on_pre_build(config):
    """Refuse to build a site that leaves out a public name."""
    if missing := undocumented():
        raise PluginError("\n".join(missing))


def on_files(files, config):
    """Add the notebooks, and the pages and figures that live outside of `docs/`."""
    for source in notebooks.SOURCES:
        text, pictures = notebooks.page(source)
        files.append(File.generated(config, f"notebooks/{source.stem}.md", content=text))
        for name, data in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=data))
    for path in [*map(ROOT.joinpath, PAGES), *sorted(ROOT.glob(FIGURES))]:
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Turn links that leave `docs/` into links of the site, and write out the help of the commands."""
    markdown = OUTSIDE.sub(r"](\1)", markdown)
    markdown = "".join(_unbroken(part) for part in re.split(r"(^```.*?^```)", markdown, flags=re.DOTALL | re.MULTILINE))
    return markdown.replace(HELP, _help_of_commands()) if HELP in markdown else markdown


def _unbroken(markdown):
    """Keep a number and its unit, or a symbol and its value, on one line. Code and headings stay as they are."""
    if markdown.startswith("```"):
        return markdown
    lines = markdown.split("\n")
    return "\n".join(
        line
        if line.startswith(("#", "    "))
        else "`".join(part if place % 2 else QUANTITY.sub("\u00a0", part) for place, part in enumerate(line.split("`")))
        for line in lines
    )


def on_page_content(html, page, config, files):
    """Let readers open a figure at its full size, give long cells room, and do not break short names and flags."""
    html = PICTURE.sub(r"""<a class="figure" href="\1">\g<0></a>""", html)
    html = CELL.sub(_cell, html)
    return WORD.sub(r"""<code class="word">\1</code>""", html)


def _cell(found):
    """Return the start of a cell, with a class if its text is long."""
    kinds = {600: "longest", 160: "long"}
    return next((f"""<td class="{name}">""" for size, name in kinds.items() if len(found[1]) > size), "<td>")


def on_post_build(config):
    """Refuse a site that loads something from elsewhere."""
    site = Path(config.site_dir)
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        if found := LOADED.search(path.read_text(encoding="utf-8")):
            raise PluginError(f"{path.relative_to(site)} loads from elsewhere: {found[0]}")


def _help_of_commands():
    """Return a section with the help of each command."""
    from mupc.cli import runner

    commands = [[], *([name] for name in runner.COMMANDS)]
    return "\n".join(f"## `{' '.join(['mupc', *words])}`\n\n```text\n{_help(words)}\n```\n" for words in commands)


def _help(words):
    """Return the help of a command as it is printed on a narrow terminal."""
    from mupc.cli import main

    os.environ["COLUMNS"] = str(COLUMNS)
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        if main([*words, "--help"]) != 0:
            raise PluginError(f"mupc {' '.join(words)} --help failed")
    return "\n".join(_wrapped(line) for line in shown.getvalue().split("\n"))


def _wrapped(line):
    """Break a line that is too long, and align the rest with its description."""
    if len(line) <= COLUMNS:
        return line
    name = COMMAND.match(line)
    return textwrap.fill(line, COLUMNS, subsequent_indent=" " * (name.end() if name else 0))
