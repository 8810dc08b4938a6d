"""`mupc report RUN`: the page says what the run folder holds, and what it lacks."""

import csv
import json
import shutil

import numpy as np
import pytest
from recorded import EVALUATIONS, LAYERS, SUMMARY, PageReader, record, write_run
from sklearn.metrics import confusion_matrix

from mupc import data, report
from mupc.cli.report_words import written_number, written_time

QUICK = "--no-measure"
CURVES = "Gradient by layer over training"


@pytest.fixture
def page(mupc, tmp_path):
    """Runs `mupc report` and returns the page, read."""

    def run(*argv, damaged=""):
        target = tmp_path / "page" / "report.html"
        ended = mupc("report", *argv, "--out", target)
        if damaged:
            assert ended.code == 1 and damaged in ended.err and ended.err.count("\n") == 1
        else:
            assert (ended.code, ended.err) == (0, "")
        return PageReader(target.read_text(encoding="utf-8"))

    return run


def test_curves_are_those_of_the_log(page, tmp_path):
    folder = write_run(tmp_path / "one")
    found = page(folder, QUICK)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    accuracy = [(line["epoch"], pytest.approx(100 * line["test_accuracy"], rel=1e-5)) for line in lines]
    assert found.series("Accuracy") == {"test": accuracy}
    losses = found.series("Loss")
    assert losses["training"] == [(line["epoch"], pytest.approx(line["train_loss"], rel=1e-5)) for line in lines[1:]]
    assert len(losses["test"]) == EVALUATIONS
    assert found.charts["Loss"]["y_label"] == "½ sum of squared errors"


def test_credit_reach_is_that_of_the_log(page, tmp_path):
    found = page(write_run(tmp_path / "one"), QUICK)
    profiles = found.series(CURVES)
    assert list(profiles) == ["epoch 0.5", "epoch 1", "epoch 1.5", "epoch 2"]
    assert profiles["epoch 2"] == [(layer + 1, pytest.approx(10.0 ** -(layer + 4))) for layer in range(LAYERS)]
    assert found.charts[CURVES]["log_y"] and found.charts[CURVES]["marks"] == {"needed to learn": 1e-8}
    assert found.charts[CURVES]["x_names"] == SUMMARY["credit_reach"]["names"]
    assert found.series("Layers that learn")["one"] == [(step / 2, 75.0) for step in range(1, EVALUATIONS)]
    (cosines,) = found.series("Direction compared with backpropagation, after training").values()
    assert cosines == [(1, 0.5), (2, 0.75), (3, None), (4, 1.0)]


def test_facts_of_one_run(page, tmp_path):
    found = page(write_run(tmp_path / "one"), QUICK)
    for words in (
        "82.0 %",
        "83.0 % at its best",
        "3 of 4",
        "equilibrium",
        "65.4 s",
        "12.3 ms per step",
        "0.10",
        "digits",
    ):
        assert words in found.text
    settings = dict(map(tuple, found.tables["Network"]))
    assert settings["--hidden-layers"] == "3" and settings["--width"] == "8" and settings["--bias"] == "no"
    assert "--heads" not in settings
    made = dict(map(tuple, found.tables["How the runs were made."]))
    assert made["device"] == "CPU (x86_64)" and made["jax version"] == "0.10" and made["seed"] == "0"


def test_only_flags_of_the_model_are_shown(page, tmp_path):
    runs = [write_run(tmp_path / model, model=model) for model in ("mlp", "resnet")]
    alone = dict(map(tuple, page(runs[1], QUICK).tables["Network"]))
    assert alone["--model"] == "resnet" and not alone.keys() & {
        "--hidden-layers",
        "--skip",
        "--split",
        "--orthogonality",
    }
    rows = page(*runs, QUICK).tables["Settings as used. Marked: those in which runs differ."]
    assert ["--hidden-layers", "Network", "3", "–"] in rows


def test_settings_in_which_runs_differ_are_marked(page, tmp_path):
    runs = [write_run(tmp_path / name, weight_lr=rate, seed=3) for name, rate in (("a", 0.1), ("b", 0.2))]
    found = page(*runs, QUICK)
    rows = found.tables["Settings as used. Marked: those in which runs differ."]
    assert rows[0] == ["setting", "part", "a", "b"] and ["--weight-lr", "Learning", "0.1", "0.2"] in rows
    assert sum(attributes.get("class") == "marked" for _, attributes in found.tags) == 1
    compared = found.tables["Runs next to each other, with the settings in which they differ."]
    assert compared[0][-1] == "--weight-lr" and [row[0] for row in compared] == ["run", "a", "b"]
    assert {name.partition(",")[0] for name in found.series("Loss")} == {"a", "b"}
    assert set(found.series("Gradient by layer at the end")) == {"a", "b"}


def test_runs_of_the_same_name_keep_their_paths(page, tmp_path):
    runs = [write_run(tmp_path / name / "run") for name in "ab"]
    found = page(*runs, runs[0], QUICK)
    assert set(found.series("Energy after inference")) == set(map(str, runs))


def test_a_folder_of_runs_stands_for_its_runs(page, tmp_path):
    for name in ("first", "second"):
        write_run(tmp_path / "runs" / name)
    (tmp_path / "runs/figures").mkdir()
    (tmp_path / "runs/hessian-1").mkdir()
    (tmp_path / "runs/hessian-1/config.json").write_text('{"config": {"width": [32]}}')
    (tmp_path / "runs/grid").mkdir()
    (tmp_path / "runs/grid/sweep.json").write_text('{"rows": [], "cells": []}')
    found = page(tmp_path / "runs", QUICK)
    assert found.title == "2 runs and 1 sweep"
    assert set(found.series("Energy after inference")) == {"first", "second"}
    assert page(tmp_path / "runs/first", tmp_path / "runs/second", QUICK).title == "2 runs compared"


def test_backpropagation_has_no_energy_after_inference(page, tmp_path):
    runs = [write_run(tmp_path / method, method=method) for method in ("bp", "pc")]
    found = page(*runs, QUICK)
    assert set(found.series("Energy after inference")) == {"pc"}
    colours = [{one["name"]: one["colour"] for one in found.charts[name]["series"]} for name in found.charts]
    assert {each["pc"] for each in colours if "pc" in each} == {1}
    assert [one["dash"] for one in found.charts["Accuracy"]["series"]] == [0, 0]


@pytest.mark.parametrize(
    ("written", "value"),
    [("0", 0.0), ("83,324", 83324.2), ("0.0001235", 0.00012346), ("-1.25", -1.25), ("1.235e+08", 123456789.0)],
)
def test_numbers_are_written_as_people_do(written, value):
    assert written_number(value) == written


@pytest.mark.parametrize(
    ("written", "seconds"), [("0.553 ms", 0.000553), ("14 s", 14.04), ("2.5 min", 150), ("3 h", 10_800), (None, None)]
)
def test_times_have_a_unit(written, seconds):
    assert written_time(seconds) == written


def test_text_of_users_is_escaped(page, tmp_path):
    nasty = "<img src=x onerror=alert(1)>"
    folder = write_run(tmp_path / nasty, summary=SUMMARY | {"warnings": [nasty]}, target=nasty)
    found = page(folder, QUICK)
    assert all("onerror" not in attributes for _, attributes in found.tags)
    assert found.text.count(nasty) >= 3


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda run: (run / "summary.json").unlink(), "summary.json is not there: the run goes on, or it was killed"),
        (lambda run: (run / "metrics.jsonl").unlink(), "metrics.jsonl is not there"),
        (lambda run: (run / "metrics.jsonl").write_text(""), "There is no evaluation to draw"),
    ],
)
def test_what_is_missing_is_said(page, mupc, tmp_path, spoil, said):
    folder = write_run(tmp_path / "one")
    spoil(folder)
    assert said in page(folder, QUICK).text
    shown = " ".join(mupc("report", folder, QUICK).out.split())
    assert f"warning: one: {said}" in shown or said.startswith("There is no evaluation")


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("summary.json", b"{", "one: summary.json is not JSON. `mupc train --resume"),
        ("summary.json", b"[]", "one: summary.json does not hold an object"),
        ("metrics.jsonl", b"\xff\n", "one: metrics.jsonl has 1 damaged line:"),
        ("metrics.jsonl", b"{}\nx\n", "one: metrics.jsonl has 2 damaged lines:"),
    ],
)
def test_damage_is_said_and_the_rest_is_shown(page, tmp_path, file, content, said):
    folder = write_run(tmp_path / "one")
    (folder / file).write_bytes(content)
    assert said.removeprefix("one: ").replace("`", "") in page(folder, QUICK, damaged=said).text
    assert (folder / file).read_bytes() == content


def test_a_damaged_line_costs_one_evaluation(page, tmp_path):
    folder = write_run(tmp_path / "one")
    log = folder / "metrics.jsonl"
    first, second, *others = log.read_bytes().split(b"\n")
    log.write_bytes(b"\n".join([first, second[:40] + b"\xff", *others]))
    found = page(folder, QUICK, damaged="1 damaged line")
    assert [epoch for epoch, _ in found.series("Accuracy")["test"]] == [0, 1, 1.5, 2]


def test_settings_of_another_version_are_shown_and_not_used(page, tmp_path):
    folder = write_run(tmp_path / "one")
    about = json.loads((folder / "config.json").read_text())
    about["config"]["quantum"] = 7
    (folder / "config.json").write_text(json.dumps(about))
    found = page(folder)
    assert "unknown key 'quantum'" in found.text and ["--quantum", "7"] in found.tables["Other"]
    assert "settings that this version of mupc knows" in found.text


def test_runs_without_a_network_are_shown_all_the_same(page, tmp_path):
    found = page(write_run(tmp_path / "one"))
    assert "The trained network cannot be read" in found.text and "Accuracy" in found.charts


def test_a_run_that_diverged_says_so(page, tmp_path):
    bad = {"step": 10, "epoch": 0.5, "diverged": True, "train_loss": None, "seconds": 1, "total_steps": 40}
    ended = SUMMARY | {"diverged": True, "message": "training diverged between step 0 and step 10."}
    found = page(write_run(tmp_path / "one", ended, [record(0), bad]), QUICK)
    assert "diverged between step 0" in found.text and "The log has no gradients by layer" in found.text


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["nothing"], "nothing is not the folder of a run: it is not there"),
        (["run/config.json"], "config.json is not the folder of a run: it is a file"),
        (["stopped"], "sweep.json is not there: `mupc sweep work stopped` writes it again"),
        (["empty"], "empty is not the folder of a run: it has no config.json"),
        (["broken"], "the configuration of broken is not JSON"),
        (["hessian"], "hessian is not the folder of a run that trains: give one of `mupc train`"),
        (["sweep"], "sweep.json does not list cells"),
        (["run", "--out", "page.txt"], "--out page.txt must end in .html"),
        (["run", "--out", "folder.html"], "--out folder.html is a folder"),
        (["run", "--out", "run/config.json/page.html"], "cannot use"),
        (["run", "--html", "page.html"], "--html is for a report without runs"),
        (["--out", "page.html"], "--out is for a report on runs"),
    ],
)
def test_mistakes_are_one_line(mupc, tmp_path, monkeypatch, argv, said):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "run")
    for name in ("empty", "broken", "hessian", "sweep", "stopped", "folder.html"):
        (tmp_path / name).mkdir()
    (tmp_path / "broken/config.json").write_text("{")
    (tmp_path / "hessian/config.json").write_text('{"config": {"width": [32]}}')
    (tmp_path / "sweep/sweep.json").write_text("{}")
    (tmp_path / "stopped/sweep.db").touch()
    ended = mupc("report", *argv, QUICK)
    assert ended.code == 2 and said in ended.err and ended.err.count("\n") == 1
    assert not list(tmp_path.glob("*.html.part"))


def test_pages_go_where_they_belong_and_open(mupc, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: not opened.append(address))
    monkeypatch.chdir(tmp_path)
    runs = [write_run(tmp_path / name) for name in "ab"]
    ended = mupc("report", runs[0], QUICK, "--open", "--json")
    assert json.loads(ended.out)["html"] == str(runs[0] / "report.html")
    assert opened == [(runs[0] / "report.html").as_uri()]
    assert mupc("report", *runs, QUICK).code == 0 and (tmp_path / "runs/comparison.html").is_file()
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    assert "there is no browser" in mupc("report", runs[0], QUICK, "--open").out


def test_a_sweep_is_a_table_and_a_chart(page, tmp_path):
    rows = [
        {"settings": {"weight_lr": rate}, "value": value, "cells": 2, "test_accuracy": 0.5, "note": ""}
        for rate, value in ((0.1, 0.2), (0.01, 0.3), (1.0, None))
    ]
    (tmp_path / "grid").mkdir()
    settings = {"config": {"data": "digits", "heads": None}}
    about = {"rows": rows, "cells": [], "objective": "train_loss", "counts": {"complete": 6, "cells": 6, "failed": 0}}
    (tmp_path / "grid/sweep.json").write_text(json.dumps(about | {"settings": settings}))
    found = page(tmp_path / "grid")
    assert found.title == "Sweep grid"
    assert found.series("Training loss over --weight-lr") == {"training loss": [(0.01, 0.3), (0.1, 0.2)]}
    table = found.tables["Settings, the best first; means over seeds."]
    assert table[1] == ["0.1", "2", "0.2", "50.0 %"] and "6 of 6" in found.text


@pytest.mark.slow
def test_the_confusion_matrix_is_that_of_predict(train, mupc, page, tmp_path):
    run = train("--loss", "cross-entropy", "--parameterisation", "sp")
    digits = data.load("digits")
    np.savez(tmp_path / "test.npz", x=digits.test.raw, y=digits.test.targets)
    assert mupc("predict", run.folder, tmp_path / "test.npz", "--out", tmp_path / "out.csv").code == 0
    with (tmp_path / "out.csv").open() as file:
        predicted = [int(row["class"]) for row in csv.DictReader(file)]
    wanted = confusion_matrix(digits.test.targets, predicted, labels=range(10))
    found = page(run.folder)
    (rows,) = (rows for caption, rows in found.tables.items() if caption.startswith("Confusion matrix"))
    counts = [[0 if cell == "·" else int(cell) for cell in row[1:-1]] for row in rows[1:]]
    np.testing.assert_array_equal(counts, wanted)
    wrong = np.flatnonzero(digits.test.targets != predicted)
    pictures = [attributes["alt"] for tag, attributes in found.tags if tag == "img"]
    named = [int(alt.split(":")[0].removeprefix("Sample ")) for alt in pictures]
    assert len(named) == min(24, len(wrong)) and set(named) <= set(wrong.tolist())
    assert pictures[0].endswith(f"{digits.test.targets[named[0]]}, predicted as {predicted[named[0]]}")
    (kappa,) = found.tables["Conditioning of inference; eigenvalues after training."][1:]
    assert float(kappa[2]) == pytest.approx(float(kappa[3]) / float(kappa[4]), rel=1e-2)


@pytest.mark.slow
def test_residuals_are_those_of_the_table(train, page, tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 2)).round(3)
    table = tmp_path / "table.csv"
    lines = [f"{a},{b},{'<i>red</i>' if a > 0 else 'blue'},{2 * a - b:.4f}" for a, b in rows]
    table.write_text("\n".join(["a,b<b>,colour,price", *lines]))
    flags = ("--data", table, "--target", "price", "--one-hot", "--task", "regression")
    run = train(*flags)
    found = page(run.folder)
    points = found.series("Predicted and true values")["price"]
    assert len(points) == 12
    errors = np.array([predicted - true for true, predicted in points])
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(run.json("summary.json")["test_rmse"], rel=1e-4)
    assert sum(count for _, count in found.series("Residuals of price")["price"]) == 12
    worst = found.tables["The largest errors."]
    assert worst[0] == ["sample", "true", "predicted", "error", "a", "b<b>", "colour"]
    assert abs(float(worst[1][3])) == pytest.approx(np.abs(errors).max(), rel=1e-3)
    known = {f"{a:.4g}": colour for a, _, colour, _ in (line.split(",") for line in lines) for a in [float(a)]}
    assert all(known[row[4]] == row[6] for row in worst[1:])
    table.unlink()
    assert "The data cannot be read any more" in page(run.folder).text


@pytest.mark.slow
def test_backpropagation_on_a_text_has_a_page(train, page, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat & <b> " * 60)
    run = train(
        *("--data", text, "--model", "transformer", "--context", "16", "--width", "8", "--blocks", "1", "--heads", "2"),
        *("--method", "bp", "--loss", "cross-entropy", "--epochs", "0.2", "--no-tensorboard"), tiny=False,
    )  # fmt: skip
    found = page(run.folder)
    assert "Not measured: bp does not infer activities" in found.text
    assert "the more a character surprised the network" in found.text and "Perplexity" in found.charts
    last = list(found.series(CURVES).values())[-1]
    assert [y for _, y in last] == pytest.approx(run.metrics[-1]["gradient_sizes"], rel=1e-4)


@pytest.mark.slow
def test_data_that_changed_are_noticed(train, page, tmp_path):
    x, y = np.eye(4, dtype=np.float32)[np.arange(40) % 4], np.arange(40) % 4
    file = tmp_path / "data.npz"
    np.savez(file, x_train=x, y_train=y, x_test=x, y_test=y)
    run = train("--data", file, "--epochs", "60", "--evaluate-every", "60")
    found = page(run.folder)
    assert "have changed" not in found.text and "No prediction is wrong" in found.text
    np.savez(file, x_train=x, y_train=y, x_test=x, y_test=(y + 1) % 4)
    assert "the data or the network have changed" in page(run.folder).text
    shutil.rmtree(run.folder / "checkpoints")
    assert "The trained network cannot be read" in page(run.folder).text


def test_colour_images_keep_their_channels(tmp_path):
    from io import BytesIO

    from PIL import Image

    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    np.testing.assert_array_equal(np.asarray(Image.open(BytesIO(report.pixels_as_png(pixels)))), pixels)
