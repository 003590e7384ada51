"""The classifier of slots and values: it sees the last token and no padding, and its loss and scores are right."""

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score

from hb_metrics.models.loading import load_model
from hb_train.dialog_state_tracking import SlotValueClassifier, binary_scores
from hb_train.training.encoding import collate


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_padding_changes_no_logit(save_small_model, kind):
    torch.manual_seed(0)
    classifier = SlotValueClassifier(load_model(str(save_small_model(kind)))).eval()
    rows = [{"input_ids": list(range(20, 20 + number)), "attention_mask": [1] * number} for number in (3, 9, 1, 6)]

    def logits(some_rows):
        with torch.inference_mode():
            return classifier(**collate(some_rows))["logits"]

    alone = torch.cat([logits([row]) for row in rows])
    assert alone.std() > 1e-4
    torch.testing.assert_close(logits(rows), alone, atol=1e-4, rtol=1e-4)


def test_the_loss_is_the_mean_binary_cross_entropy(save_small_model):
    classifier = SlotValueClassifier(load_model(str(save_small_model("gpt2")))).eval()
    rows = [{"input_ids": [20, 21, 22], "labels": [1]}, {"input_ids": [30], "labels": [0]}]
    rows = [{**row, "attention_mask": [1] * len(row["input_ids"])} for row in rows]
    with torch.inference_mode():
        output = classifier(**collate(rows))
    chances = [1 / (1 + np.exp(-logit)) for logit in output["logits"][:, 0].double().tolist()]
    assert output["loss"].item() == pytest.approx(-(np.log(chances[0]) + np.log(1 - chances[1])) / 2, rel=1e-5)


def test_scores_equal_those_of_scikit_learn():
    random = np.random.default_rng(0)
    for number in (1, 2, 7, 50):
        for _ in range(20):
            truth, predictions = random.integers(2, size=(2, number))
            scores = binary_scores(truth.tolist(), predictions.tolist())
            assert scores["accuracy"] == pytest.approx(accuracy_score(truth, predictions))
            expected = f1_score(truth, predictions, zero_division=np.nan)
            assert scores["f1"] == (None if np.isnan(expected) else pytest.approx(expected))
            assert (scores["num_rows"], scores["num_positive"]) == (number, truth.sum())
