"""A figure of two stages whose cells are counted, for tests of the rails that need no network."""

import dataclasses
from pathlib import Path
from typing import ClassVar

import pytest

from mupc import experiments
from mupc.experiments._store import strict


@dataclasses.dataclass(frozen=True)
class ToyConfig(experiments.FigureConfig):
    sizes: tuple[int, ...] = (1, 2, 3, 4)


@dataclasses.dataclass(frozen=True)
class ToyCell(experiments.FigureCell):
    family: ClassVar[str] = "toy"
    size: int
    stage: str
    choice: int = 0


class Toy:
    """Squares numbers; the second stage adds the largest square to each. `fail` maps sizes to what they raise."""

    def __init__(self):
        self.calls, self.fail = [], {}

    @property
    def figure(self):
        return experiments.Figure(
            slug="toy-ill-cond",
            title="A <b>toy</b>",
            caption="Numbers | & <squares>",
            presets={"quick": ToyConfig(precision="float32"), "paper": ToyConfig()},
            cells=self.cells,
            run_cell=self.run_cell,
            claims=self.claims,
            plot=lambda record, path: Path(path).write_bytes(b"PNG"),
        )

    def cells(self, config, finished):
        first = [ToyCell(size, "first") for size in config.sizes]
        if not all(cell in finished for cell in first):
            return first
        best = max(finished[cell].get("value", 0) for cell in first)
        return first + [ToyCell(size, "second", best) for size in config.sizes]

    def run_cell(self, cell, context):
        if cell.size in self.fail:
            raise self.fail[cell.size]
        self.calls.append(cell)
        return {"value": cell.size**2 + cell.choice, "bad": float("nan"), "worse": [float("inf"), 1.0]}

    def claims(self, config, table):
        values = [row["value"] for row in table if row["stage"] == "second"]
        verdict = experiments.NOT_RUN if len(values) < 4 else experiments.HOLDS
        return [experiments.Claim("grows", "grows <script>", str(values), "x | y", verdict)]


@pytest.fixture
def toy():
    return Toy()


@pytest.fixture
def drawings(tmp_path):
    """Draw the first rows, as many as each count says, and return the pictures that differ, as bytes."""
    from matplotlib import image

    def draw(figure, config, finished, counts):
        found = set()
        for count in counts:
            kept = dict(list(finished.items())[:count])
            progress = experiments.FigureProgress(kept, list(finished), {})
            path = tmp_path / f"{count}.png"
            figure.plot(strict(experiments.figure_record(figure, "quick", config, progress)), path)
            assert path.stat().st_size < 300_000
            found.add(image.imread(path).tobytes())
        return found

    return draw
