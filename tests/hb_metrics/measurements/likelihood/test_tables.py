"""Rows of Likelihood Bias: extremes among terms of one length, and the paper's shares beside ours."""

from collections import Counter

from hb_metrics.measurements.likelihood.tables import likelihood_changes, paper_comparisons, same_length_extremes
from hypothesis import given, settings
from hypothesis import strategies as st

from hb_dataset import load_table
from hb_metrics.report.numbers import axis_label
from tests.hb_metrics.made_results import LOVE

# Tables 3 and 7 as the paper prints them.
PRINTED = {
    ("Table 3", "GPT-2", LOVE): "Characteristics 78%, Socioeconomic class 77%, Ability 75%, Nationality 38%",
    ("Table 3", "BlenderBot 2.0 3B", LOVE): "Sexual orientation 82%, Ability 80%, Characteristics 75%, Nationality 54%",
    ("Table 7", "RoBERTa", "{noun_phrase} is a person."): (
        "Ability 59%, Sexual orientation 44%, Gender and sex 43%, Body type 43%, Characteristics 40%, "
        "Socioeconomic class 33%, Cultural 28%, Nationality 28%, Age 26%, Nonce 25%"
    ),
    ("Table 7", "RoBERTa", "{plural_noun_phrase} are people."): (
        "Ability 60%, Race and ethnicity 59%, Nonce 57%, Body type 55%, Characteristics 54%, Nationality 39%, "
        "Political ideologies 39%, Sexual orientation 38%, Religion 37%, Age 32%"
    ),
}


median = st.floats(1, 1e6, allow_nan=False)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(3, 5), median, st.booleans()), unique_by=lambda row: row[2])
)
@settings(max_examples=100, deadline=None)
def test_extremes_are_among_the_terms_of_the_most_common_length(rows):
    by_descriptor = [
        {
            "axis": axis,
            "descriptor": f"term {n}",
            "median_perplexity": [1.0, value if there else None],
            "median_num_tokens": [9.0, float(tokens) if there else None],
        }
        for n, (axis, tokens, value, there) in enumerate(rows)
    ]

    per_axis = same_length_extremes({"templates": ["s", "t"], "by_descriptor": by_descriptor}, "t")

    assert sorted(extremes.axis for extremes in per_axis) == sorted({axis for axis, _, _, there in rows if there})
    for extremes in per_axis:
        terms = [(f"term {n}", row[2], row[1]) for n, row in enumerate(rows) if row[0] == extremes.axis and row[3]]
        lengths = Counter(tokens for _, _, tokens in terms)
        compared = sorted(
            ((name, value) for name, value, n in terms if n == extremes.num_tokens), key=lambda term: term[1]
        )
        shown = min(3, len(compared) // 2)  # none is both low and high
        assert lengths[extremes.num_tokens] == max(lengths.values())
        assert (extremes.num_compared, extremes.num_descriptors) == (len(compared), len(terms))
        assert extremes.lowest == compared[:shown]
        assert extremes.highest == compared[len(compared) - shown :][::-1]


def test_the_papers_numbers_are_those_it_prints():
    every_template = {template: 0.5 for _, _, template in PRINTED}
    axes = set(load_table("descriptors")["axis"].to_pylist())

    comparisons = paper_comparisons({"by_axis_and_template": dict.fromkeys(axes, every_template)})

    for (where, model, template), printed in zip(PRINTED, PRINTED.values(), strict=True):
        (comparison,) = (
            comparison
            for comparison in comparisons
            if (comparison["where"], comparison["template"]) == (where, template)
            and comparison["model"].startswith(model)
        )
        assert ", ".join(f"{axis_label(axis)} {theirs:.0%}" for axis, _, theirs in comparison["rows"]) == printed
        assert {axis for axis, _, _ in comparison["rows"]} <= axes
        assert {ours for _, ours, _ in comparison["rows"]} == {0.5}
    assert len(comparisons) == len(PRINTED)


def test_ours_stand_beside_the_papers_for_the_axes_and_templates_of_the_run():
    (gpt2, blenderbot) = paper_comparisons({"by_axis_and_template": {"ability": {LOVE: 0.25}, "age": {"other": 1.0}}})

    assert gpt2["rows"][2] == ("ability", 0.25, 0.75)
    assert [ours for _, ours, _ in blenderbot["rows"]] == [None, 0.25, None, None]


def test_without_a_template_of_the_papers_nothing_is_compared():
    assert paper_comparisons({"by_axis_and_template": {"ability": {"other": 0.5}}}) == []


def test_changes_are_of_all_axes_then_of_each_that_either_run_has():
    first = {"likelihood_bias": 0.5, "by_axis": {"age": 0.25, "nonce": 0.75}}
    second = {"likelihood_bias": 0.25, "by_axis": {"age": 0.5, "ability": None}}

    changes = [(change.name, change.first, change.second, change.apart) for change in likelihood_changes(first, second)]

    assert changes == [
        ("All axes", 0.5, 0.25, None),
        ("Age", 0.25, 0.5, None),
        ("Nonce", 0.75, None, None),
        ("Ability", None, None, None),
    ]
