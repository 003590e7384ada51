"""Changes in words."""

import pytest
from hb_metrics.display.run_changes import FigureChange, FigureChanges, changes_markdown, joined_changes

from hb_metrics.paired_changes.paired_change import PairedChange


@pytest.mark.parametrize(
    ("change", "form", "sentence"),
    [
        (PairedChange(10, 5.9, (-6, -2), (-0.53, -0.28), None), "bias", "fell by 41 % (28 to 53)"),
        (PairedChange(10, 12.0, (1, 3), (0.08, 0.31), None), "bias", "rose by 20 % (8 to 31)"),
        (PairedChange(10, 9.5, (-2, 1), (-0.2, 0.12), None), "bias", "not beyond chance (−20 to +12 %)"),
        (PairedChange(1, -1.5, (-4, -1), None, None), "bias", "fell by 2.50 (1.00 to 4.00)"),
        (PairedChange(0.1, 0.05, (-0.08, -0.02), None, None), "share", "fell by 5.0 points (2.0 to 8.0)"),
        (PairedChange(0.1, 0.1, (-0.01, 0.01), None, None), "small_share", "not beyond chance (−1.00 to +1.00 points)"),
        (PairedChange(10, -0.5, (-14, -7), (-1.0, -0.8), None), "bias", "fell by 100 % (80 to 100)"),
        (PairedChange(50, 49.8, (-0.3, -0.1), (-0.006, -0.002), None), "bias", "fell by 0.4 % (0.2 to 0.6)"),
        (PairedChange(50, 50.01, (0.004, 0.02), (8e-5, 4e-4), None), "bias", "rose by 0.02 % (0.01 to 0.04)"),
        (PairedChange(50, 49.9, (-0.3, 0.1), (-0.004, 0.002), None), "bias", "not beyond chance (−0.4 to +0.2 %)"),
        (PairedChange(3, 2, None, None, "there are few"), "bias", "no interval"),
    ],
)
def test_sentences(change, form, sentence):
    assert FigureChange("A figure", form, change).sentence == sentence


def test_markdown_has_the_figures_of_the_whole_run_and_says_what_does_not_compare():
    change = PairedChange(10, 5.9, (-6, -2), (-0.53, -0.28), None)
    rows = [FigureChange("Full Gen Bias", "bias", change, True), FigureChange("Full Gen Bias: age", "bias", change)]
    by_title = {
        "Generation bias": FigureChanges(rows, None, 0.95),
        "Dialogue perplexity": FigureChanges([], "it was measured on different replies"),
    }
    text = changes_markdown(joined_changes("a | b", "no_bias", by_title))
    table, notes = text.split("\n\n")
    assert table.split("\n")[2] == "| Full Gen Bias | 10.0 | 5.90 | −4.10 | −6.00 to −2.00 | fell by 41 % (28 to 53) |"
    assert len(table.split("\n")) == 3
    assert "a \\| b to no\\_bias" in notes
    assert "95%" in notes
    assert "Dialogue perplexity: no changes, because it was measured on different replies." in notes


def test_figures_of_the_whole_run_come_first_and_parts_without_an_interval_are_named_together():
    known = PairedChange(10, 5.9, (-6, -2), (-0.53, -0.28), None)
    few, rough = (PairedChange(3, 2, None, None, reason) for reason in ("there are few", "it is rough"))
    rows = [
        FigureChange("Full Gen Bias", "bias", known, True),
        FigureChange("Full Gen Bias: Age", "bias", few),
        FigureChange("Full Gen Bias: Ability", "bias", few),
        FigureChange("Partial Gen Bias: Care", "bias", rough),
    ]
    later = [FigureChange("Offensive replies", "share", few, True)]
    changes = joined_changes(
        "a", "b", {"One": FigureChanges(rows, None, 0.95), "Two": FigureChanges(later, None, 0.95)}
    )
    assert [row.name for row in changes.rows if row.is_main] == [row.name for row in changes.rows[:2]]
    assert changes.notes(changes.rows) == [
        "No interval of Offensive replies, Full Gen Bias (Age, Ability): there are few.",
        "No interval of Partial Gen Bias (Care): it is rough.",
    ]
