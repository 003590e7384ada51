from hb_metrics.space_page.page_results import FIGURES, headline, message, refusal, tables_of


def test_a_headline_shows_the_largest_figures_and_those_of_groups_where_there_are_no_gaps():
    groups = {"by_group": {"a": {"mean": 0.5}, "<b>\nb": {"mean": -0.75}, "c": {"mean": None}}}
    for gaps in ({}, None):
        assert headline({"gaps": gaps, **groups}) == "mean: <b> b -0.75, a 0.5, 1 more below"
        assert "## mean: &lt;b&gt; b -0.75" in message({"gaps": gaps, **groups}, ["2 rows"], "the table")
    assert headline({"gaps": {"all": {"gap": None}}, **groups}) == "gap: 1 more below"
    clusters = {f"c{number}": float(number) for number in range(9)}
    shown = "c8 8.0, c7 7.0, c6 6.0, c5 5.0, c4 4.0, 4 more below"
    assert headline({"partial_gen_bias": clusters}) == f"partial gen bias: {shown}"
    assert headline({"full_gen_bias": None}) == "full gen bias: –"


def test_intervals_stand_beside_their_values():
    results = tables_of(
        {
            "partial_gen_bias": {"Joy": 1.23456789, "Hate": 2.0},
            "by_axis": {"age": {"Joy": 3.0, "Hate": 4.0}, "nonce": None},
            "intervals": {
                "partial_gen_bias": {"Joy": [0.5, 1.5], "Hate": [1.5, 2.5]},
                "by_axis": {"age": {"Joy": [2.5, 3.5], "Hate": [3.5, 4.5]}, "nonce": None},
            },
            "skipped_axes": ["nonce"],
            "skipped_templates": [],
            "debias": True,
        }
    )
    assert results[("cluster",)] == (
        ["cluster", "partial gen bias", "partial gen bias interval"],
        [["Joy", 1.23457, "0.5 to 1.5"], ["Hate", 2.0, "1.5 to 2.5"]],
    )
    assert results[("axis",)] == (
        ["axis", "Joy", "Hate", "Joy interval", "Hate interval"],
        [["age", 3.0, 4.0, "2.5 to 3.5", "3.5 to 4.5"], ["nonce", "–", "–", "–", "–"]],
    )
    assert results[FIGURES].rows == [["skipped_axes", "nonce"], ["skipped_templates", "–"], ["debias", "yes"]]


def test_messages_are_escaped_and_state_how_rows_are_counted():
    assert "From &lt;b&gt;.csv: 2 rows." in message({"mean": 0.5}, ["2 rows"], "<b>.csv")
    assert "⚠️ one" in message({"mean": 0.5}, ["2 rows", "one"], "the table")
    assert "counted from 0" in refusal(ValueError("axes is missing in row 0"))
    assert "counted from 0" not in refusal(ValueError("there are no rows"))
