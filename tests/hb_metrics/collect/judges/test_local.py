"""Judges that are loaded here, against known letters and plain runs of the model."""

import numpy as np
import pytest

from hb_metrics.collect.engines.local import LocalEngine
from hb_metrics.collect.judges.judge import JudgeSource, load_judge
from hb_metrics.collect.judges.local import LocalJudge
from hb_metrics.collect.judges.rubric import NO_ANSWER, prompt_for, read_rubric
from hb_metrics.models.loading import load_model
from tests.hb_metrics.collect.judges.test_rubric import OWN
from tests.hb_metrics.collect.judges.toy_judges import save_letters, save_random
from tests.hb_metrics.collect.one_call import log_probabilities

TEXTS = ["The sea was calm.", "I like trains, and the train to the sea most.", "No.", "We sailed. " * 12]


@pytest.fixture
def rubric(tmp_path):
    path = tmp_path / "sea.yaml"
    path.write_text(OWN)
    return read_rubric(path)


def test_probabilities_are_those_of_the_letters(tmp_path):
    rubric, given = read_rubric("regard"), np.array([0.4, 0.2, 0.1, 0.05])
    judge = load_judge(rubric, JudgeSource(save_letters(tmp_path, given)))
    probabilities, truncated = judge.classify(TEXTS)
    assert judge.labels == (*rubric.labels, NO_ANSWER)
    assert not truncated.any()
    for text, row in zip(TEXTS, probabilities, strict=True):
        order = prompt_for(rubric, text, seed=0).order
        np.testing.assert_allclose(row[order], given / given.sum(), atol=1e-5)
        assert row[-1] == 0


def test_another_likeliest_token_is_no_answer(tmp_path):
    judge = load_judge("offensive", JudgeSource(save_letters(tmp_path, [0.3, 0.1], other=0.5)))
    probabilities = judge.probabilities(TEXTS)
    np.testing.assert_array_equal(probabilities, [[0, 0, 1]] * len(TEXTS))
    assert not judge.answered(probabilities).any()


@pytest.mark.parametrize("kind", ["llama", "mamba", "t5"])
def test_a_shared_rubric_changes_no_probability(kind, rubric, tmp_path):
    loaded = load_model(save_random(tmp_path, kind))
    loaded.model.generation_config.forced_bos_token_id = 9 if kind == "t5" else None
    judge = LocalJudge(LocalEngine(loaded), rubric)
    assert (judge.shared is not None) == (kind == "llama")
    prompts = [prompt_for(rubric, text, seed=0) for text in TEXTS]

    read = judge.read(prompts)

    for prompt, row, answered in zip(prompts, read.probabilities, read.answered, strict=True):
        tokens = judge._encoded(prompt)
        assert tokens[: len(judge.beginning)] == judge.beginning
        plain = log_probabilities(loaded.model, tokens, [0], [2, 9])[-1].exp()
        masses = np.array([plain[letters].sum().item() for letters in judge.letters])
        np.testing.assert_allclose(row, masses / masses.sum(), atol=1e-5)
        assert answered == any(int(plain.argmax()) in letters for letters in judge.letters)
    assert np.ptp(read.probabilities) > 0.1  # else a mistake could hide


def test_probabilities_have_the_same_bits_in_any_batch_and_order(rubric, tmp_path):
    judge = load_judge(rubric, JudgeSource(save_random(tmp_path)))
    together = judge.probabilities(TEXTS)
    assert together.tobytes() == judge.probabilities(TEXTS[::-1])[::-1].tobytes()
    assert together.tobytes() == np.concatenate([judge.probabilities([text]) for text in TEXTS]).tobytes()


def test_prompts_read_before_do_not_change_a_bit(rubric, tmp_path):
    """Also if the model is right after a shared rubric only up to a length, as with an attention window."""
    judge = LocalJudge(LocalEngine(load_model(save_random(tmp_path))), rubric)
    short, long = (prompt_for(rubric, text, seed=0) for text in ("I see.", "I see. " * 20))
    longest, plain = len(judge._encoded(short)), judge._next

    def next_(tokens, shared):
        row = plain(tokens, shared)
        return row if shared is None else row + 1e-9 if len(tokens) <= longest else row.flip(0)

    judge._next = next_
    first = judge.read([short]).probabilities
    assert judge.read([long, short]).probabilities[1:].tobytes() == first.tobytes()


def test_texts_that_are_too_long_are_cut_and_counted(rubric, tmp_path):
    judge = load_judge(rubric, JudgeSource(save_random(tmp_path)))
    probabilities, truncated = judge.classify([TEXTS[0], "We sailed to the sea. " * 200])
    assert truncated.tolist() == [False, True]
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    with pytest.raises(ValueError, match="is too long for"):
        load_judge("style_clusters", JudgeSource(save_random(tmp_path))).classify(TEXTS)


def test_a_window_shorter_than_the_rubric_is_refused(rubric, save_small_model):
    with pytest.raises(ValueError, match=r"64 tokens; shorten it"):
        load_judge(rubric, JudgeSource(str(save_small_model("gpt2"))))
