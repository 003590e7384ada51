"""Offensiveness: its figures are the numbers of results.json, and the page shows them beside the paper's."""

from dataclasses import replace

import numpy as np

from hb_metrics.command.gates import exceeded
from hb_metrics.layout import paper
from hb_metrics.layout.figure import by_part
from hb_metrics.layout.numbers import axis_label, slot
from hb_metrics.measurements import OFFENSIVENESS
from hb_metrics.measurements.offensiveness.compute import Classified, prompt_results, shares_by_turn
from hb_metrics.measurements.offensiveness.figures import extremes
from hb_metrics.measurements.offensiveness.results import Texts
from hb_metrics.offensiveness.averages import offensiveness
from hb_metrics.run.replies import RatedReplies, Replies, chosen_replies
from hb_metrics.run.typed_json import from_json
from tests.hb_metrics.made_results import AXES, full_run, loaded, some_prompts


def test_figures_are_those_of_the_results():
    results = full_run()
    prompts, replies = (results["offensiveness"][part] for part in ("prompts", "replies"))
    parts = by_part(OFFENSIVENESS.parts.figures(loaded(results)))
    of_replies, of_prompts = parts[""]

    assert (of_replies.value, of_prompts.value) == (replies["offensive_share"], prompts["offensive_share"])
    assert (of_replies.task, of_replies.is_main) == ("offensive_replies", True)
    assert (of_prompts.task, of_prompts.is_main, of_prompts.interval) == (None, False, None)
    assert of_replies.interval[0] < of_replies.value < of_replies.interval[1]
    between = (of_replies.value + of_replies.interval[1]) / 2  # the gate is the interval's upper end
    assert "may be above its limit" in exceeded(loaded(results), [OFFENSIVENESS], {"offensive_replies": between})[0]
    assert exceeded(loaded(results), [OFFENSIVENESS], {"offensive_replies": 1.01 * of_replies.interval[1]}) == []
    assert of_replies.detail == f"{replies['num_offensive']} of {replies['num_sentences']}"
    rows = {row.label: row for row in parts["Offensive texts by axis"]}
    for axis in AXES:
        row = rows[axis_label(axis)]
        assert row.value == replies["by_axis"][axis]["offensive_share"]
        assert row.interval[0] < row.value < row.interval[1]
        assert row.beside["of prompts"].value == prompts["by_axis"][axis]["offensive_share"]
        assert row.detail == f"{replies['by_axis'][axis]['num_sentences']} replies, 720 prompts"
    found_by = prompts["by_template"].items()
    for row, (template, found) in zip(parts["Offensiveness of prompts by template"], found_by, strict=True):
        assert (row.label, row.value) == (slot(template), found["mean"])
        assert row.beside["st. dev."].value == found["std"]
        assert row.beside["found offensive"].value == found["offensive_share"]
        mean, std = paper.PRINTED.prompt_offensiveness[template]
        assert row.printed == {"paper's mean": mean, "paper's st. dev.": std}


def test_extreme_terms_on_two_axes_have_their_axis():
    cells = {"nationality": {"Māori": {"t": 0.1}}, "race_ethnicity": {"Māori": {"t": 0.2}, "Black": {}}}
    prompts = loaded(full_run()).offensiveness.prompts
    prompts = replace(prompts, by_template={"t": next(iter(prompts.by_template.values()))})
    ((template, lowest, highest),) = extremes(replace(prompts, by_descriptor_and_template=cells))
    assert (template, lowest, highest) == ("t", [("Māori (Nationality)", 0.1)], [("Māori (Race and ethnicity)", 0.2)])


def test_averages_are_those_of_the_evaluate_module_and_cut_texts_are_counted():
    rows = [("age", "old", "t0"), ("age", "young", "t1"), ("ability", "deaf", "t0")] * 6
    axes, descriptors, templates = (list(column) for column in zip(*rows, strict=True))
    texts, probabilities = [""] * len(rows), np.linspace(0, 1, len(rows))
    results = prompt_results(Classified(Replies(texts, axes, descriptors, templates, texts, texts), probabilities, 4))
    expected = offensiveness(probabilities, descriptors, templates, axes)
    assert results == from_json(Texts, {**expected, "num_truncated": 4})


def test_turns_are_compared_over_the_same_conversations():
    """The judge gave no answer to "a" in the second turn."""
    ids, terms = ["a", "b", "c", "d"], ["old", "old", "young", "young"]
    first = RatedReplies(Replies(ids, ["age"] * 4, terms, ["t"] * 4, ids, ids), np.array([True, False, True, True]))
    second = RatedReplies(chosen_replies(first.replies, np.array([False, True, True, True])), np.zeros(3, bool))
    shares = shares_by_turn([first, second], some_prompts())
    assert [(turn.num, turn.num_replies) for turn in shares.by_turn] == [(2, 3), (0, 3)]
    other = second.replies._replace(ids=["e", "f", "g"])
    assert shares_by_turn([first, RatedReplies(other, second.values)], some_prompts()) is None
