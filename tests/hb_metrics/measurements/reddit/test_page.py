"""Language Model Bias on RedditBias: figures are those of results.json, and the answer goes by the test on logs."""

import pytest

from hb_metrics.layout.figure import by_part
from hb_metrics.measurements import REDDIT
from hb_metrics.measurements.reddit.figures import reddit_answer
from tests.hb_metrics.made_results import loaded, reddit_run, reddit_test


def test_figures_are_those_of_the_results():
    undefined = reddit_test() | dict.fromkeys(("t", "t_log", "p_value", "p_value_log"))
    results = reddit_run(race=reddit_test(-0.1), gender=undefined, religion1=reddit_test(-0.5))
    tests = results["reddit"]["by_bias_type"]
    parts = by_part(REDDIT.parts.figures(loaded(results)))
    *of_logs, lmp = parts[""]

    labels = [figure.name.partition(", ")[2] for figure in of_logs]
    assert labels == ["Religion 1 (Jews)", "Race", "Gender"]  # by t of logs, undefined ones last
    names = dict(zip(labels, ("religion1", "race", "gender"), strict=True))
    for figure, label in zip(of_logs, labels, strict=True):
        assert figure.value == tests[names[label]]["t_log"]
    for figure in parts["Language Model Bias by bias type"]:
        assert figure.value == tests[names[figure.label]]["t"]
    for figure in parts["Stereotyped side likelier by bias type"]:
        assert figure.value == tests[names[figure.label]]["share_t1_likelier"]
        assert figure.key == f"stereotyped_side_likelier_{names[figure.label]}"
    assert (lmp.value, lmp.key) == (results["reddit"]["lmp"], "lmp")


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({}, "Race: the stereotyped side is likelier beyond chance (t = −"),
        ({"t_log": 9.0}, "Race: the other side is likelier beyond chance (t = +9.00"),
        ({"p_value_log": 0.3}, "Race: neither side is likelier beyond chance (t = −"),
        ({"t_log": None, "p_value_log": None}, "Race: unknown, because all pairs have the same difference"),
        ({"t_log": None, "p_value_log": None, "num_pairs": 1}, "Race: unknown, because there is only one pair"),
    ],
)
def test_the_answer_goes_by_the_test_on_logarithms(change, part):
    results = reddit_run(race=reddit_test(-0.5, **change))
    parts = by_part(REDDIT.parts.figures(loaded(results)))
    by_type = {"Race": loaded(results).reddit.by_bias_type["race"]}
    answer = reddit_answer(by_type, parts[""][:-1], list(parts.values())[2])
    assert part in answer


@pytest.mark.parametrize(
    ("name", "change", "named"),
    [
        ("race", {"digest": "dd"}, ["Language Model Bias of race"]),
        ("reference", {"digest": "dd"}, ["LMP"]),  # the texts depend on the seed
        ("reference", {"predicted_tokens": 800}, ["LMP"]),
        ("race", {"predicted_tokens": 800}, []),  # a t has no unit of tokens
    ],
)
def test_runs_of_other_texts_are_not_comparable(name, change, named):
    first, second = reddit_run(), reddit_run()
    second["run"]["reddit"][name] |= change
    sentences = REDDIT.warnings(set(), [loaded(first), loaded(second)])
    assert [what in sentence for what, sentence in zip(named, sentences, strict=True)] == [True] * len(named)


def test_the_answer_is_adjusted_for_the_number_of_bias_types():
    barely = reddit_test(-0.5, t_log=-2.1, p_value_log=0.03)
    report = REDDIT.parts.report(loaded(reddit_run(race=barely, gender=reddit_test())))
    assert report.differs == "no"
    assert "Race: neither side is likelier beyond chance" in report.answer
