"""Run folders as `mupc train` writes them, without training, and a reader for pages of `mupc report`."""

import dataclasses
import json
import re
from html.parser import HTMLParser

from mupc.cli.config import FORMAT, TrainFlags

LAYERS = 4
EVALUATIONS = 5


def record(step, layers=LAYERS):
    """A line of metrics.jsonl."""
    return {
        "step": 10 * step,
        "epoch": step / 2,
        "test_loss": 0.5 / (step + 1),
        "test_accuracy": 1 - 0.9 / (step + 1),
        "diverged": False,
        "regime": "backprop-like",
        "steps_per_second": None if step == 0 else 100.0,
        "seconds": 1.5 + step,
        "total_steps": 10 * (EVALUATIONS - 1),
        **({} if step == 0 else trained(step, layers)),
    }


def trained(step, layers):
    sizes = [10.0 ** -(layer + step) for layer in range(layers)]
    return {
        "train_loss": 0.45 / step,
        "energy": 0.01 / step,
        "learning_layers": layers - 1,
        "layers": layers,
        "gradient_sizes": sizes,
    }


SUMMARY = {
    "test_accuracy": 0.82,
    "test_loss": 0.1,
    "train_loss": 0.11,
    "best_test_accuracy": 0.83,
    "warnings": [],
    "steps": 40,
    "seconds_per_step": 0.0123,
    "seconds": 65.4,
    "diverged": False,
    "interrupted": False,
    "message": "all steps were taken",
    "compute_path": "float32 on the CPU",
    "data": {"name": "digits", "official": True, "source": "scikit-learn's embedded digits"},
    "credit_reach": {
        "names": ["input", "hidden.1", "hidden.2", "readout"],
        "backprop_cosines": [0.5, 0.75, None, 1.0],
        "learning_layers": 3,
        "layers": LAYERS,
        "regime": "equilibrium",
    },
}


def write_run(folder, summary=SUMMARY, records=None, **settings):
    """Write the folder of a run, with `settings` over the defaults of `mupc train`. Return it."""
    flags = dataclasses.replace(TrainFlags(hidden_layers=LAYERS - 1, width=8, loss="mse"), **settings)
    about = {
        "config": vars(flags),
        "versions": {"python": "3.11", "jax": "0.10"},
        "device": "CPU (x86_64)",
        "format": FORMAT,
        "safety": {},
        "precision": "float32",
        "seed": flags.seed,
    }
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(about))
    lines = [record(step) for step in range(EVALUATIONS)] if records is None else records
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if summary is not None:
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder


class PageReader(HTMLParser):
    """The content of a page: its `title`, `tables` as lists of rows by caption, `charts` by title, all other `text`,
    and `tags` with their attributes."""

    def __init__(self, page):
        super().__init__()
        self.tables, self.text, self.tags = {}, "", []
        self._cell = self._caption = None
        data = re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
        self.title = re.findall("<title>(.*?)</title>", page)[0]
        self.charts = {chart["title"]: chart for chart in map(json.loads, data)}
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th", "caption"):
            self._cell = ""

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._rows[-1].append(self._cell)
        elif tag == "caption":
            self._caption = self._cell
        elif tag == "table":
            self.tables[self._caption] = self._rows
        if tag in ("td", "th", "caption"):
            self._cell = None

    def handle_data(self, data):
        self.text += data
        if self._cell is not None:
            self._cell += data

    def series(self, title):
        """The points of a chart's series, by name."""
        return {one["name"]: list(zip(one["x"], one["y"], strict=True)) for one in self.charts[title]["series"]}
