"""Changes from one run to another: by how much, as a share of what, and whether intervals tell them from chance."""

import pytest
from hb_metrics.display.change_figure import Change, change_figure, named_changes


@pytest.mark.parametrize(
    ("first", "second", "apart"),
    [
        ((0, 1), (2, 3), True),
        ((2, 3), (0, 1), True),
        ((0, 2), (2, 3), False),
        ((0, 9), (2, 3), False),
        (None, (0, 1), None),
        ((0, 1), None, None),
    ],
)
def test_intervals_are_apart_if_they_do_not_meet(first, second, apart):
    assert Change("", 1.0, 2.0, first, second).apart is apart


@pytest.mark.parametrize(
    ("first", "second", "reduction"),
    [(4.0, 3.0, 0.25), (4.0, 5.0, -0.25), (4.0, -1.0, 1.0), (0.0, 1.0, None), (-2.0, -3.0, None), (None, 1.0, None)],
)
def test_a_reduction_is_a_share_of_what_is_above_zero(first, second, reduction):
    assert Change("", first, second).reduction == reduction
    assert Change("", first, None).reduction is None
    assert Change("", first, second, (0.5, 9.0)).reduction == reduction
    assert Change("", first, second, (-0.1, 9.0)).reduction is None


def test_values_that_one_run_has_are_kept():
    changes = named_changes({"a": 1.0, "b": None}, {"c": 2.0, "a": 3.0}, str.upper)

    assert changes == [Change("A", 1.0, 3.0), Change("B", None, None), Change("C", None, 2.0)]
    assert [change.change for change in changes] == [2.0, None, None]


def test_each_run_is_drawn_with_the_intervals_it_has():
    rows = [Change("a", 0.1, 0.2, (0.0, 0.3), None), Change("b", None, 0.4, None, (0.3, 0.5))]

    lines, marks, other_lines, other_marks = change_figure(rows, "t", ("x", "y"), ".0%").data

    assert (marks.name, list(marks.customdata), list(marks.x)) == ("first: x", ["a"], [0.1])
    assert (other_marks.name, sorted(zip(other_marks.customdata, other_marks.x, strict=True))) == (
        "second: y",
        [("a", 0.2), ("b", 0.4)],
    )
    assert (lines.x[:2], other_lines.x[:2]) == ((0.0, 0.3), (0.3, 0.5))
