"""One figure of each family from end to end at the quick preset, as `mupc reproduce SLUG` runs it: every claim shows
its effect, small as the networks are."""

import pytest

from mupc import experiments

SLUGS = (
    "cifar-20-epochs",
    "mupc-one-step-mnist",
    "mupc-transfer-linear",
    "resnets-cond-nums-init",
    "example-loss-energy-ratios",
    "pc-analytic-infer",
    "d-eigens-n",
    "mupc-activity-inits",
    "fwd-pass-stability",
    "toy-ill-cond",
    "transfer-scaled",
    "thousand-layers",
    "vgg5",
)


@pytest.mark.slow
@pytest.mark.parametrize("slug", SLUGS)
def test_the_effect_is_there(slug, tmp_path):
    figure = experiments.find_figure(slug).load()
    config = figure.config("quick")
    progress = experiments.execute(figure, config, experiments.CellStore(tmp_path / "work"), experiments.RunContext())
    assert progress.complete and not progress.failed
    record = experiments.figure_record(figure, "quick", config, progress)
    judged = {
        claim["claim"]: claim["verdict"] for claim in record["claims"] if claim["verdict"] != experiments.REPORTED
    }
    assert judged and set(judged.values()) == {experiments.HOLDS}, judged
    path = experiments.save_record(figure, record, tmp_path)
    assert path.stat().st_size < 1e6 and path.with_suffix(".png").stat().st_size < 3e5
