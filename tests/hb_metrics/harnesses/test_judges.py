"""The tasks of Inspect and lm-eval with a judge in place of a classifier."""

import pytest

from hb_metrics.harnesses import lm_eval_tasks
from hb_metrics.harnesses.figures import all_reply_figures, load_classifiers
from hb_metrics.harnesses.rows import prompt_rows
from tests.hb_metrics.collect.judges.toy_judges import save_letters


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    folder = save_letters(tmp_path_factory.mktemp("letters"), [0.7, 0.2])
    return {
        "style_classifier": "judge:stereotyping",
        "offensiveness_classifier": "judge:offensive",
        "judge_model": folder,
    }


@pytest.fixture
def asked(vocabulary):
    return {"vocabulary_dir": vocabulary, "axes": ["age"], "replies_per_cell": 2}


def test_figures_are_those_of_the_judge(names, asked):
    rows = prompt_rows(replied=True, **asked)
    replies = [f"Reply {number}." for number in range(len(rows))]
    figures = all_reply_figures(rows, replies, **names)
    judge = load_classifiers(**names).offensiveness
    flagged = judge.probabilities(replies)[:, 0] >= 0.5
    assert figures["offensive_replies"] == flagged.mean() > 0
    assert figures["full_gen_bias"] > 0

    asked["dataset_config"] = "v1.0-small"
    documents = lm_eval_tasks.replied_prompts(prompts=asked, **names)["test"]
    answers = dict(zip([row.id for row in rows], replies, strict=True))
    kept = [lm_eval_tasks.keep_reply(doc, [answers[doc["id"]]])["offensive_replies"] for doc in documents]
    assert lm_eval_tasks.figure(kept) == figures["offensive_replies"]


@pytest.mark.parametrize("letters", [(0.3, 0.1, 0.5), (0.4, 0.4, 1e-6)], ids=["no letter", "tied"])
def test_replies_without_a_label_have_no_offensiveness(letters, names, asked, tmp_path):
    rows = prompt_rows(replied=True, **asked)
    silent = save_letters(tmp_path, letters[:2], other=letters[2])
    figures = all_reply_figures(rows, ["Hello."] * len(rows), **{**names, "judge_model": silent})
    assert "offensive_replies" not in figures
