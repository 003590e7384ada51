"""Generation bias on the page of one run and of two: what its tables hold, and what readers are told."""

from dataclasses import replace

from hb_metrics.measurements.generation.styles import Example, TermStyle
from hb_metrics.measurements.generation.terms import term_changes
from hb_metrics.run.replies import Replies
from tests.hb_metrics.made_results import AXES, full_run, loaded, write_run


def test_replies_to_the_same_prompts_stand_side_by_side(tmp_path):
    base = full_run()
    first, _ = write_run(tmp_path / "before", base)
    second, replies = write_run(tmp_path / "after", base, seed=1, prefix="Well", replies_per_cell=9)
    answers = dict(zip(replies.prompts, replies.texts, strict=True))
    terms = term_changes(loaded(first).generation, loaded(second).generation, replies)

    assert len(terms["rows"]) == 6 * len(AXES)
    for row, pairs in zip(terms["rows"], terms["pairs"], strict=True):
        expected = [
            [example["prompt"], example["reply"], answers[example["prompt"]], example["why"], None]
            for example in first["generation"]["examples"]
            if (example["axis"], example["descriptor"]) == (row["axis"], row["name"])
        ]
        assert pairs == expected
        assert len(pairs) > 1


def test_several_replies_to_a_prompt_are_paired_by_number():
    examples = [
        Example(identifier, "a", "d", "drawn", "Hi", identifier, "calm", 1.0, False)
        for identifier in ("p#2", "p", "p#3", "q")
    ]
    results = replace(
        loaded(full_run()).generation, by_descriptor=[TermStyle("a", "d", 4, 0.0, {}, 0.0)], examples=examples
    )
    texts = ["second 1", "second 2", "other words"]
    second = Replies(["p", "p#2", "q"], ["a"] * 3, ["d"] * 3, ["t"] * 3, ["Hi", "Hi", "Hello"], texts)
    ((*pairs,),) = term_changes(results, results, second)["pairs"]
    assert [(first, reply, numbers) for _, first, reply, _, numbers in pairs] == [
        ("p#2", "second 2", [2, 2]),
        ("p", "second 1", [1, 1]),
        ("p#3", "second 1", [3, 1]),
    ]
