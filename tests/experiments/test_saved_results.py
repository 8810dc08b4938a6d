"""The files in `results/` agree with the code that judges them and with the pages made from them."""

from pathlib import Path

import pytest

from mupc import experiments
from mupc.experiments._results import read_records

ROOT = Path(__file__).parents[2]
RESULTS = read_records(ROOT / "results")
JUDGED = ("id", "claim", "measured", "expected", "verdict")


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: result["file"])
def test_saved_claims_are_those_of_the_saved_table(result):
    figure = experiments.find_figure(result["slug"]).load()
    judged = figure.claims(figure.config(result["preset"]), result["data"])
    assert [{name: getattr(claim, name) for name in JUDGED} for claim in judged] == [
        {name: claim[name] for name in JUDGED} for claim in result["claims"]
    ]


def test_numbers_of_which_nothing_is_asked_are_reported_and_no_others():
    claims = [claim for result in RESULTS for claim in result["claims"] if claim["verdict"] != experiments.NOT_RUN]
    assert all((claim["verdict"] == "reported") == ("reported" in claim["expected"]) for claim in claims)


def test_the_report_is_that_of_the_saved_results(tmp_path):
    pages = tmp_path / "docs/reproduction.md", tmp_path / "report.html"
    (tmp_path / "results").symlink_to(ROOT / "results")
    counts, _ = experiments.write_report(tmp_path / "results", *pages)
    assert pages[0].read_text() == (ROOT / "docs/reproduction.md").read_text(), "run mupc report"
    assert counts == {"holds": 126, "fails": 21, "not run": 0, "reported": 11}


def test_the_page_on_costs_has_the_minutes_of_the_saved_results():
    lines = (ROOT / "docs/reproduction-cost.md").read_text().splitlines()
    rows = {cells[1].strip(" `"): cells[3].strip() for line in lines if len(cells := line.split("|")) == 6}
    paper = {result["slug"]: result["seconds"] for result in RESULTS if result["preset"] == "paper"}
    assert {slug: rows[slug] for slug in experiments.CATALOGUE} == {
        slug: f"{paper[slug] / 60:.1f}" if slug in paper else "–" for slug in experiments.CATALOGUE
    }
