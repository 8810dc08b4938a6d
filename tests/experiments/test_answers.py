"""Sections of the report from several figures, with results made by hand."""

import dataclasses

import pytest

from mupc import experiments
from mupc.experiments import _answers, _page, _report
from mupc.experiments._answers import choices, duration, failed, reach, sections, times
from mupc.experiments._page import ReportSection
from mupc.experiments.protocol_choices import STUDY


def run(method="mupc", depth=8, seed=0, learning=(None, 3, 2), seconds=10.0, **options):
    row = {"method": method, "activation": "relu", "width": 512, "depth": depth, "seed": seed, "seconds": seconds}
    return {**row, "history": {"learning_layers": list(learning)}, "test_accuracy": 0.9, "diverged": False, **options}


def tuning(eta, beta, accuracy, **options):
    row = run(eta=eta, beta=beta, data="mnist", epochs=1.0, validation=0.1)
    row |= {"validation_accuracy": accuracy, "validation_loss": 0.1}
    del row["history"]
    return {**row, **options}


def result(slug="mupc-mnist-5-epochs", data=(), claims=(), **options):
    shared = {"device": "NVIDIA H200 (gpu)", "preset": "paper", "complete": True, "seconds": 360.0}
    shared |= {"cells": {"finished": 9, "known": 9}, "config": {"protocol": []}, "versions": {}}
    return {**shared, "slug": slug, "data": list(data), "claims": list(claims), **options}


def rows(section: ReportSection, table=0):
    head, *body = section.tables[table]
    return [dict(zip(head, row, strict=True)) for row in body]


def claim(verdict, **options):
    return {"claim": "it grows", "expected": "> 1", "measured": "0.5", "verdict": verdict, **options}


def test_failed_claims_come_with_what_was_checked():
    paper = [result(claims=[claim("holds"), claim("fails", checked="another solver"), claim("fails")])]
    assert [row["checked"] for row in rows(failed(paper))] == ["another solver", "nothing yet"]
    assert "Checked: another solver" in _report._measured(paper[0]["claims"][1])
    assert _report._measured(paper[0]["claims"][0]) == "0.5"


def test_the_time_of_one_run_is_that_of_predictive_coding_at_the_greatest_depth():
    data = [
        run(depth=8, seconds=1.0),
        *(run(depth=128, seconds=s) for s in (50.0, 51.0, 90.0)),
        run("bp", 128, seconds=7),
    ]
    multi, spectra = rows(times([result(data=data), result("d-eigens-n"), result("theorems", device="CPU")]))
    assert multi["one run"] == "51 s (H=128)" and multi["all of them"] == "6 min"
    assert "several days" in multi["the paper"] and "A6000" in multi["the paper"]
    assert spectra["one run"] == spectra["the paper"] == "–"


def test_reach_counts_layers_over_evaluations_and_seeds():
    seeds = [(None, 9, 5, 4), (None, 7, 1, 6), (None, 8, 5, 5)]
    data = [run(depth=16, seed=s, learning=learning) for s, learning in enumerate(seeds)] + [run(depth=32)]
    (row,) = rows(reach([result(data=data)]))
    assert row["method"] == "μPC, relu" and row["H"] == "16, 32" and row["layers"] == "17, 33" and row["N"] == "512"
    assert (row["first"], row["last"]) == ("8, 3", "5, 2")
    assert (row["fewest"], row["median"]) == ("1, 2", "5, 2.5")


def test_reach_goes_width_by_width_where_both_sizes_vary_and_leaves_out_what_was_not_followed():
    data = [run(width=w, depth=d) for w in (2, 4) for d in (8, 16)]
    unfollowed = run("bp", learning=(None, None))
    tuned = {key: value for key, value in run("sp", validation=0.1).items() if key != "history"}
    found = rows(reach([result(data=[*data, unfollowed, tuned])]))
    assert [(row["N"], row["H"]) for row in found] == [("2", "8, 16"), ("4", "8, 16")]


def test_tuned_rates_are_shown_with_their_neighbours():
    grid = {(0.5, 1.0): 0.1, (0.1, 5.0): 0.8, (0.1, 1.0): 0.9, (0.1, 0.5): 0.85, (0.01, 1.0): 0.7, (0.01, 5.0): 0.95}
    data = [tuning(*rates, accuracy, diverged=accuracy == 0.95) for rates, accuracy in grid.items()]
    (row,) = rows(choices([result(data=data), result(data=data)], []), table=2)  # two figures share the runs
    assert (row["chosen"], row["accuracy"], row["pairs"]) == ("η=0.1 β=1", "90.00", "6")
    assert row["next η"] == "0.01: 70.00, 0.5: 10.00" and row["next β"] == "0.5: 85.00, 5: 80.00"
    assert not rows(choices([result(data=data, complete=False)], []), table=2)
    longer = [{**row, "epochs": 20.0} for row in data]
    assert [row["epochs"] for row in rows(choices([result(data=data + longer)], []), table=2)] == ["1", "20"]


def test_choices_move_as_far_as_the_study_found():
    unknown = choices([], [])
    assert {row["moves test accuracy by"] for row in rows(unknown)} == {"not run"} and not unknown.tables[1]
    config = STUDY.config("paper")
    data = [
        {**dataclasses.asdict(cell), **run(depth=cell.depth), "test_accuracy": 0.9 + (0.01 if cell.beta == 1.0 else 0)}
        for cell in STUDY.cells(config, {})
    ]
    data = [{**row, **dataclasses.asdict(cell)} for row, cell in zip(data, STUDY.cells(config, {}), strict=True)]
    section = choices([], [result(STUDY.slug, data)])
    moved = {row["choice"]: row["moves test accuracy by"] for row in rows(section)}
    assert moved["learning rates of each cell"] == "+0.00 to +1.00" and moved["precision"] == "+0.00 to +0.00"
    variants = {row["variant"]: row for row in rows(section, table=1)}
    assert variants["β × 2"]["H=32"] == "91.00 (+1.00); 2 of 33" and variants["float64"]["H=128"] == "not run"


def test_sections_without_rows_are_left_out():
    assert [section.title for section in sections([result("d-eigens-n")], [])] == ["Time", choices([], []).title]
    assert all(section.title != "Claims that fail" for section in sections([], []))


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.42, "0.42 s"), (51.2, "51 s"), (119.4, "119 s"), (360, "6 min"), (9000, "2.5 h")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_sections_are_escaped_in_markdown_and_in_html(tmp_path):
    section = ReportSection("A <b>", ("x & `y`",), ([("head",), ("a | <i>",)], []), notes=("<u>",), picture=("p", '"'))
    lines = _page.as_markdown([section], "results").splitlines()
    assert "| a \\| &lt;i&gt; |" in lines and "- &lt;u&gt;" in lines and "## A &lt;b&gt;" in lines
    page = _page.as_html([section], tmp_path)
    assert "<i>" not in page and "<u>" not in page and page.count("</table>") == 1
    assert "<h1>A &lt;b&gt;</h1>" in page and "<p>x &amp; <code>y</code></p>" in page
    assert "(This figure is not drawn yet.)" in page and "a | &lt;i&gt;</th>" in page


def test_the_report_names_data_that_is_not_the_published_one():
    data = [run(official_data=False), run(official_data=False), run(official_data=True)]
    assert any("not the published one in 2 runs" in fact for fact in _report._facts(result(data=data)))
    assert not any("published" in fact for fact in _report._facts(result(data=data[2:])))


def test_the_figures_that_the_paper_times_exist():
    assert set(_answers.DAYS) <= set(experiments.CATALOGUE)
