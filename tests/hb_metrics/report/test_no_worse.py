"""Margins of `--no_worse_than`: how they are read, and verdicts on hand-made changes and on made runs."""

import re
from pathlib import Path

import pytest

from hb_metrics.command.report import main
from hb_metrics.layout.figure import Figure
from hb_metrics.measurements.results import read_run
from hb_metrics.report.changes import ChangeRow, RunChanges, run_changes
from hb_metrics.report.no_worse import read_margins, verdicts
from hb_metrics.stats.changes import PairedChange
from tests.hb_metrics.made_results import check_margins
from tests.hb_metrics.pages import check_sound, read_page

RISE = PairedChange(10.0, 10.2, (-0.3, 0.7), (-0.03, 0.07), None)
SHARES = PairedChange(0.02, 0.021, (-0.002, 0.004), (-0.1, 0.2), None)
FALL = PairedChange(10, 9, (-2, 0.5), (-0.2, 0.05), None)


def judged(change, margin, unit="bias", higher_is_better=False):
    row = ChangeRow(Figure("A figure", None, unit, higher_is_better=higher_is_better), change, True)
    (verdict,) = verdicts(RunChanges("before", "after", [row], {}), read_margins([f"a_figure={margin}"]))
    return verdict


@pytest.mark.parametrize(
    ("change", "margin", "unit", "higher_is_better", "is_shown", "bound"),
    [
        (RISE, "7%", "bias", False, True, "upper end of the interval for its change is +7.00 %"),
        (RISE, "6.9%", "bias", False, False, "+7.00 %"),
        (RISE, "0.7", "bias", False, True, "+0.70"),
        (RISE, ".69", "bias", False, False, "+0.70"),
        (SHARES, "0.4pt", "small_share", False, True, "+0.40 points"),
        (SHARES, "0.39pt", "share", False, False, "+0.40 points"),
        (SHARES, "20%", "share", False, True, "+20.00 %"),
        (PairedChange(10, 9, (-2, -0.5), (-0.2, -0.05), None), "0", "bias", False, True, "−0.50"),
        (RISE, "3%", "bias", True, True, "the lower end of the interval for its change is −3.00 %"),
        (RISE, "2.9%", "bias", True, False, "−3.00 %"),
        (RISE, "7%", "bias", None, True, "+7.00 %"),  # if no direction is better, both are a loss
        (RISE, "6.9%", "bias", None, False, "+7.00 %"),
        (FALL, "2", "bias", None, True, "−2.00"),
        (FALL, "1.9", "bias", None, False, "−2.00"),
    ],
)
def test_the_worse_end_of_the_interval_counts(change, margin, unit, higher_is_better, is_shown, bound):
    verdict = judged(change, margin, unit, higher_is_better)
    assert verdict.is_shown == is_shown
    assert bound in verdict.sentence
    assert f"after {'is at most' if is_shown else 'may be more than'} {margin} worse" in verdict.sentence


def test_what_has_no_interval_is_not_shown():
    few = judged(PairedChange(1, 1, None, None, "there are few"), "50%")
    unlike = judged(PairedChange(1, 1, None, None, "the questions differ"), "50")
    at_zero = judged(PairedChange(0.1, 0.2, (-1, 1), None, None), "5%")
    assert not any((few.is_shown, unlike.is_shown, at_zero.is_shown))
    assert few.sentence.endswith("its change has no interval (there are few)")
    assert "not clearly above 0" in at_zero.sentence
    assert judged(PairedChange(0.1, 0.2, (-1, 1), None, None), "1").is_shown


@pytest.mark.parametrize("word", ["a", "a=", "a=5 %", "a=-1", "=1", "a=nan", "a=1e3", "a=1pts"])
def test_margins_of_another_form_are_refused(word):
    with pytest.raises(ValueError, match="as figure=margin"):
        read_margins([word])
    with pytest.raises(ValueError, match="each figure once"):
        read_margins(["a=1", "a=2%"])


def test_a_margin_in_another_unit_is_refused():
    with pytest.raises(ValueError, match="the figure is a share; write, for example, a_figure=1pt"):
        judged(SHARES, "0.1", "share")
    with pytest.raises(ValueError, match="the figure is not a share; write, for example, a_figure=1 or"):
        judged(RISE, "1pt")


@pytest.fixture
def folders(made_runs):
    return list(map(str, made_runs))


def test_the_command_says_what_is_shown_and_exits_with_3(folders, tmp_path, capsys):
    page = str(tmp_path / "page.html")
    words = [*folders, "--names", "first", "second", "--output", page, "--no_worse_than", "dialogue_perplexity=50%"]

    main([*words, "replies_that_name_the_term=99pt"])

    lines = capsys.readouterr().out.splitlines()[-3:]  # the last ones, after the path of the page
    assert [line.partition(" of ")[0] for line in lines[1:]] == ["Dialogue perplexity", "Replies that name the term"]
    assert "the lower end" in lines[2]
    with pytest.raises(SystemExit) as failed:
        main([*words, "offensive_replies=0pt"])
    assert failed.value.code == 3
    last = capsys.readouterr().out.splitlines()[-1]
    assert "Offensive replies of second may be" in last
    read = read_page(tmp_path / "page.html")
    check_sound(read)
    assert last in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["offensive_reply=1pt"], r"did you mean 'offensive_replies'\? allowed: (?!.*parroting)likelihood"),
        (["likelihood_effect_size=50%"], "'likelihood_effect_size', which would never pass, .* allowed: (?!.*effect)"),
        (["parroting_replies=50%"], "'parroting_replies', which would never pass, .* allowed: (?!.*parroting)"),
    ],
)
def test_figures_without_an_interval_for_their_change_are_refused(words, message, folders):
    with pytest.raises(SystemExit, match=message):
        main([*folders, "--no_worse_than", *words])


def test_a_margin_needs_two_different_runs(folders):
    with pytest.raises(SystemExit, match="--no_worse_than needs two or more runs"):
        main([folders[0], "--no_worse_than", "offensive_replies=1pt"])
    with pytest.raises(SystemExit, match="was passed twice; pass each run once"):
        main([folders[0], f"{folders[0]}/."])


def test_every_figure_has_a_name_that_keyboards_have(folders):
    changes = run_changes(*(read_run(Path(folder)) for folder in folders), ("first", "second"))
    assert all(re.fullmatch(r"[a-z0-9_]+", row.key) for row in changes.rows if not row.figure.part_of)
    check_margins(changes)
