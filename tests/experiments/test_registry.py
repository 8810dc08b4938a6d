"""The catalogue holds the paper's figures, all of them and nothing else."""

import itertools
import re
import subprocess
import sys

import pytest

from mupc import experiments
from mupc.experiments._claims import CLAIMS
from mupc.experiments._declaration import CHECKED, PROTOCOLS

# By hand, from claims.md.
_TEXT = """
mupc-vs-pc-mnist-accs sp-cond-nums-init sp-train-cond-nums-gd-mnist des-trade-off mupc-transfer-tanh
mupc-loss-energy-ratios
d-eigens-n d-eigens-h o-eigens-n o-eigens-h h-eigens-n h-eigens-h max-min-eigens
sp-train-cond-nums-adam-mnist sp-train-cond-nums-skips-mnist sp-activity-inits mupc-activity-inits
mupc-vs-pc-ffwd-lrs mupc-vs-pc-ffwd-relu-lrs activity-decay orthog-init-mnist orthog-init-fashion
mupc-one-step-mnist mupc-one-step-fashion pc-analytic-infer mupc-vs-pc-all-activations mupc-mnist-5-epochs
mupc-fashion-15-epochs cifar-20-epochs wider-is-better-mnist toy-ill-cond resnets-cond-nums-init
sp-train-cond-nums-gd-fashion sp-train-cond-nums-adam-fashion sp-train-cond-nums-skips-fashion
mupc-train-cond-nums-mnist mupc-train-cond-nums-fashion fwd-pass-stability mupc-transfer-linear mupc-transfer-relu
sp-loss-energy-ratios example-loss-energy-ratios
"""
SLUGS = _TEXT.split()


def test_every_figure_of_the_paper_has_a_slug():
    assert len(SLUGS) == 42
    assert list(experiments.CATALOGUE) == SLUGS


def test_the_first_six_have_aliases():
    assert [experiments.find_figure(f"fig{n}").slug for n in range(1, 7)] == SLUGS[:6]


@pytest.mark.parametrize("slug", [*SLUGS, *experiments.BEYOND])
@pytest.mark.parametrize("preset", experiments.PRESETS)
def test_built_figures_have_both_presets_and_cells(slug, preset):
    figure = experiments.find_figure(slug).load()
    assert figure.slug == slug
    assert figure.title == experiments.find_figure(slug).title
    config = figure.config(preset)
    assert hash(config) == hash(figure.config(preset))
    cells = figure.cells(config, {})
    assert cells and len(set(cells)) == len(cells)
    assert all(claim.verdict == experiments.NOT_RUN for claim in figure.claims(config, []))


def test_ids_name_one_claim_of_a_figure_and_all_of_the_page_are_judged():
    ids = set()
    for slug, preset in itertools.product([*SLUGS, *experiments.BEYOND], experiments.PRESETS):
        figure = experiments.find_figure(slug).load()
        found = [claim.id for claim in figure.claims(figure.config(preset), [])]
        assert len(set(found)) == len(found) and not any(set(name) & set("{} ") for name in found)
        ids |= set(found)
    patterns = [re.sub(r"\\{.*?\\}", ".+", re.escape(name)) for name in CLAIMS]
    assert [pattern for pattern in patterns if not any(re.fullmatch(pattern, name) for name in ids)] == []


def test_every_section_of_protocols_is_followed_and_every_check_is_of_a_claim():
    figures = [experiments.find_figure(slug).load() for slug in (*SLUGS, *experiments.BEYOND)]
    followed = {text for figure in figures for config in figure.presets.values() for text in config.protocol}
    assert [name for name, texts in PROTOCOLS.items() if not followed.issuperset(texts)] == []
    ids = {f"{figure.slug}/{claim.id}" for figure in figures for claim in figure.claims(figure.config("paper"), [])}
    assert CHECKED.keys() <= ids


def test_unknown_figures_say_what_to_do():
    with pytest.raises(experiments.UnknownFigureError, match="Did you mean 'toy-ill-cond'"):
        experiments.find_figure("toy-il-cond")


@pytest.mark.slow
def test_the_runner_needs_no_library_that_a_bare_machine_lacks(tmp_path):
    code = (
        "import sys; from mupc.experiments.__main__ import main; "
        f"code = main(['run', 'fwd-pass-stability', '--preset', 'quick', '--work', {str(tmp_path)!r}, "
        "'--seconds-limit', '0']); "
        "code += main(['cells', 'fig1', 'conv-resnet', '--preset', 'paper']); "
        "import mupc.training, mupc.io, mupc.experiments._training; "
        "heavy = {'matplotlib', 'rich', 'tyro', 'pooch', 'sklearn', 'tensorboardX'} & set(sys.modules); "
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
