"""`mupc reproduce` and `mupc report`, end to end on networks that train in seconds."""

import dataclasses
import json

import pytest
from recorded import PageReader

from mupc import experiments
from mupc.cli import main
from mupc.experiments import _catalogue, training
from mupc.experiments._training import Rates, Thresholds, TrainingConfig

TINY = TrainingConfig(
    precision="float64",  # that of the test suite
    data="digits",
    widths=(8,),
    depths=(3,),
    epochs=0.5,
    tune_epochs=0.1,
    evaluate_every=5,
    seeds=2,
    rates=(Rates("mupc", (0.1,), (16.0,)), Rates("bp", (0.1, 0.01), tune_depth=2)),
    thresholds=Thresholds(lowest=1.0, spread=100.0, below_mupc=20.0, near_bp=100.0),
)


@pytest.fixture
def folders(tmp_path):
    return ["--out", str(tmp_path / "results"), "--work", str(tmp_path / "work")]


@pytest.fixture
def tiny(monkeypatch):
    """fig1 with networks of three layers."""
    slug = "mupc-vs-pc-mnist-accs"
    figure = dataclasses.replace(training.FIGURES[slug], presets={"quick": TINY, "paper": TINY})
    monkeypatch.setitem(training.FIGURES, slug, figure)
    return figure


@pytest.fixture
def catalogue_of_toy(monkeypatch, toy):
    """`toy-ill-cond` is the toy figure, and the only one that is built."""
    monkeypatch.setattr(_catalogue.CatalogueEntry, "load", lambda entry: toy.figure)
    return toy


def test_a_figure_end_to_end(tiny, folders, tmp_path, capsys):
    assert main(["reproduce", "fig1", *folders]) == 0
    shown = capsys.readouterr().out
    assert "not a reproduction" in shown and "holds" in shown and "not run" in shown
    assert shown.count("seed ") == 4 and shown.count(", tune") == 2
    result = json.loads((tmp_path / "results/mupc-vs-pc-mnist-accs.json").read_text())
    assert [claim["verdict"] for claim in result["claims"]] == ["holds", "holds", "not run", "holds"]
    assert result["preset"] == "quick" and result["complete"]
    run = next(row for row in result["data"] if not row["validation"])
    assert run["history"]["step"] == [0, 5, 10, 11]
    assert run["steps"] == 11 and len(run["history"]["learning_layers"]) == 4
    assert run["official_data"] is True and run["diverged"] is False
    assert (tmp_path / "results/mupc-vs-pc-mnist-accs.png").is_file()

    assert main(["reproduce", "fig1", *folders, "--json"]) == 0  # all cells are reused
    out = capsys.readouterr().out
    assert json.loads(out)["mupc-vs-pc-mnist-accs"]["claims"] == result["claims"]

    page = tmp_path / "report.html"
    flags = ["--results", str(tmp_path / "results"), "--markdown", str(tmp_path / "docs/r.md"), "--html", str(page)]
    assert main(["report", *flags]) == 0
    assert "0 hold, 0 fail" in capsys.readouterr().out  # quick results are not counted
    text = (tmp_path / "docs/r.md").read_text()
    assert "](../results/mupc-vs-pc-mnist-accs.png)" in text
    assert "quick: holds" in text and "not reproductions" in text
    assert text.count("(not run") == 42
    assert "data:image/png;base64," in page.read_text()


def test_runs_repeat(tiny, tmp_path, folders):
    cell = tiny.cells(TINY, {})[0]
    first, second = (tiny.run_cell(cell, experiments.RunContext()) for _ in range(2))
    assert first["history"] == second["history"]
    other = tiny.run_cell(dataclasses.replace(cell, seed=1), experiments.RunContext())
    assert other["history"] != first["history"]


def test_list_shows_every_figure(folders, capsys):
    assert main(["reproduce", "--list", *folders]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 42 + len(experiments.BEYOND)
    assert lines[0].split()[:3] == ["mupc-vs-pc-mnist-accs", "fig1", "ready"]
    assert main(["reproduce", "--list", "--json", *folders]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(lines)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fig11"], "Did you mean 'fig1'"),
        (["cifar-20-epoch"], "Did you mean 'cifar-20-epochs'"),
        ([], "--list"),
        (["fig1", "--shard", "3/2"], "1/4"),
        (["fig1", "--at-once", "0"], "--at-once must be at least 1"),
    ],
)
def test_mistakes_end_in_one_line(arguments, words, folders, capsys):
    assert main(["reproduce", *arguments, *folders]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_missing_data_is_said_in_one_line_and_others_still_run(toy, folders, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MUPC_CACHE", str(tmp_path / "nowhere"))
    monkeypatch.setattr("mupc.data._locate.SYSTEM_FOLDERS", {})
    slugs = ["wider-is-better-mnist", "fwd-pass-stability"]
    monkeypatch.setattr(_catalogue, "CATALOGUE", {s: experiments.find_figure(s) for s in slugs})
    monkeypatch.setattr("mupc.experiments.forward_pass.FIGURES", {"fwd-pass-stability": toy.figure})
    assert main(["reproduce", "all", "--preset", "paper", *folders]) == 2
    error = capsys.readouterr().err
    assert "mnist is not in" in error and "mupc data fetch mnist" in error and error.count("\n") == 1
    assert (tmp_path / "results/toy-ill-cond.json").exists()
    assert not (tmp_path / "results/wider-is-better-mnist.json").exists()


def test_merge_computes_nothing(catalogue_of_toy, folders, tmp_path, capsys):
    toy = catalogue_of_toy
    assert main(["reproduce", "toy-ill-cond", "--merge", *folders]) == 1
    assert "nothing to save" in capsys.readouterr().err and not toy.calls
    toy.fail = {4: RuntimeError("broken")}
    assert main(["reproduce", "toy-ill-cond", "--quiet", *folders]) == 1
    assert "RuntimeError: broken" in capsys.readouterr().err
    toy.calls.clear()
    assert main(["reproduce", "toy-ill-cond", "--merge", "--quiet", *folders]) == 0
    assert not toy.calls
    result = json.loads((tmp_path / "results/toy-ill-cond.json").read_text())
    assert result["cells"] == {"finished": 3, "known": 4} and not result["complete"]


def test_recall_says_what_it_takes_from_the_result(catalogue_of_toy, folders, tmp_path, capsys):
    toy = catalogue_of_toy
    toy.fail = {4: RuntimeError("broken")}
    assert main(["reproduce", "toy-ill-cond", *folders]) == 1
    toy.calls.clear()
    toy.fail = {}
    capsys.readouterr()
    assert main(["reproduce", "toy-ill-cond", "--recall", *folders, "--work", str(tmp_path / "fresh")]) == 0
    assert "toy-ill-cond: took 3 cells from " in capsys.readouterr().out
    assert {cell.size for cell in toy.calls if cell.stage == "first"} == {4}


def test_the_report_escapes_what_it_is_given(catalogue_of_toy, folders, tmp_path):
    assert main(["reproduce", "toy-ill-cond", "--preset", "paper", "--quiet", *folders]) == 0
    page, markdown = tmp_path / "r.html", tmp_path / "r.md"
    flags = ["--results", str(tmp_path / "results"), "--markdown", str(markdown), "--html", str(page), "--quiet"]
    assert main(["report", *flags]) == 0
    text = page.read_text()
    assert text.count("<script>") == 2 and "grows &lt;script&gt;" in text  # the page's own
    assert "<b>toy" not in text and "A &lt;b&gt;toy&lt;/b&gt;" in text and "&amp; &lt;squares&gt;" in text
    assert text.count("http://") == text.count('"http://www.w3.org/2000/svg"') and "https://" not in text
    tags = [tag for tag, _ in PageReader(text).tags]
    assert "img" in tags and tags.count("script") == 2
    lines = markdown.read_text().splitlines()
    claim = next(line for line in lines if "grows" in line)
    assert "<script>" not in claim and "x \\| y" in claim and claim.count(" | ") == 4


def test_a_report_without_results_says_what_to_do(tmp_path, capsys):
    assert main(["report", "--results", str(tmp_path / "none")]) == 2
    assert "mupc reproduce" in capsys.readouterr().err
