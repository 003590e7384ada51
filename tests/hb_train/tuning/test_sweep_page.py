"""The page of a sweep of learning rates: figure, remarks and table of runs that are made up."""

import re

from hb_train.tuning.learning_rate_sweep import DIVERGED
from hb_train.tuning.sweep_page import remarks, sweep_figure, sweep_table, write_page
from tests.hb_metrics.pages import HOSTILE, Page, browse, needs_browser


def run(rate, perplexity, failed=None, diverged=False):
    return {
        "learning_rate": rate,
        "folder": f"lr-{rate:.2e}",
        "best_validation_perplexity": perplexity,
        "best_step": None if perplexity is None else 1500,
        "num_steps": None if perplexity is None else 4000,
        "failed": failed,
        "diverged": diverged,
    }


def sweep_of(runs, best, before=20.0, at_end=None):
    return {
        "model": HOSTILE,
        "grid": [run["learning_rate"] for run in runs],
        "validation_perplexity_before_tuning": before,
        "runs": runs,
        "best": runs[best],
        "best_at_end": at_end,
    }


def test_the_figure_has_every_run():
    runs = [
        run(1e-6, 19.0),
        run(1e-5, 12.0),
        run(1e-4, 15.0),
        run(1e-3, 61.0),
        run(1e-2, None, DIVERGED, True),
        run(1e-1, None, HOSTILE),
    ]

    figure = sweep_figure(sweep_of(runs, 1))

    line, best, beyond, failed = figure.data
    assert list(line.y) == [19.0, 12.0, 15.0, None, None, None]
    assert (list(best.x), list(best.y)) == ([1e-5], [12.0])
    assert (list(beyond.x), list(beyond.customdata)) == ([1e-3], ["61.000"])
    assert (list(failed.x), list(failed.customdata)) == ([1e-2, 1e-1], [DIVERGED, HOSTILE])
    assert figure.layout.shapes[0].y0 == 20.0
    low, high = figure.layout.yaxis.range
    assert low < 12.0
    assert 20.0 < beyond.y[0] == failed.y[0] == failed.y[1] < high


def test_remarks_name_a_best_rate_at_an_end_and_one_that_is_no_better_than_before():
    runs = [run(1e-6, 19.0), run(1e-5, 21.0)]

    _, at_lowest = remarks(sweep_of(runs, 0, at_end="lowest"))
    assert at_lowest == "It is the lowest rate of the grid: the optimum may lie below it; sweep on there."
    *_, at_highest = remarks(sweep_of(runs, 1, at_end="highest"))
    assert at_highest == "It is the highest rate of the grid: the optimum may lie above it; sweep on there."
    assert "No rate made it lower than before tuning." in remarks(sweep_of(runs, 0, before=18.0))
    assert remarks(sweep_of(runs, 0, before=None)) == ["Best: 1.00e-06, with a validation perplexity of 19.000."]


@needs_browser
def test_a_browser_draws_the_page(tmp_path):
    runs = [run(1e-6, 19.0), run(1e-5, 12.0), run(1e-4, 3e250), run(1e-3, None, HOSTILE + " | it")]
    sweep = sweep_of(runs, 1)
    write_page(tmp_path / "sweep.html", sweep)

    shown = browse(tmp_path / "sweep.html", tmp_path, 500)

    page = Page((tmp_path / "sweep.html").read_text(encoding="utf-8"))
    assert '<svg class="main-svg"' in shown.split(' id="sweep-plot"')[1].split("</figure>")[0]
    assert page.figures()["sweep-plot"][0]["data"][1]["x"] == [1e-5]
    assert page.table("Runs")[3:] == [
        ["1.00e-04", "3e+250", "1,500", "4,000", "lr-1.00e-04"],
        ["1.00e-03", "–", "–", "–", f"{HOSTILE} | it"],
    ]
    assert not {tag for tag, _ in page.elements} & {"b", "img"}
    assert re.search(r"</b>|<b>", page.words) is not None  # shown as words
    assert sweep_table(sweep).split("\n")[-1].endswith(r" \| it |")
