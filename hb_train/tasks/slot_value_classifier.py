from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from hb_metrics.models.loading import LoadedModel


class SlotValueClassifier(torch.nn.Module):
    """Answers yes or no from the hidden state of the last token that is not padding. Padding follows the tokens."""

    def __init__(self, loaded: LoadedModel) -> None:
        super().__init__()
        model: Any = loaded.model
        self.transformer = model.base_model
        size = model.config.get_text_config().hidden_size
        self.classifier = torch.nn.Sequential(torch.nn.Linear(size, size), torch.nn.Tanh(), torch.nn.Linear(size, 1))
        for name, weights in self.classifier.named_parameters():
            torch.nn.init.normal_(weights, std=0.02) if name.endswith("weight") else torch.nn.init.zeros_(weights)
        self.to(torch.float32)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, labels: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        """Returns the logit of "yes" for each row: [rows, 1]. With labels, also the mean cross-entropy as `loss`."""
        states = self.transformer(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).last_hidden_state
        rows = torch.arange(len(states), device=states.device)
        logits = self.classifier(states[rows, attention_mask.sum(1) - 1])
        loss = {} if labels is None else {"loss": binary_cross_entropy_with_logits(logits, labels.float())}
        return {**loss, "logits": logits}


def binary_scores(labels: Sequence[int], predictions: Sequence[int]) -> dict[str, object]:
    """Scores yes-or-no answers. `f1` (for yes) is `None` if it is undefined (0 / 0)."""
    is_yes, is_predicted = np.asarray(labels, bool), np.asarray(predictions, bool)
    num_yes, num_predicted = int(is_yes.sum()), int(is_predicted.sum())
    return {
        "f1": 2 * int((is_yes & is_predicted).sum()) / (num_yes + num_predicted) if num_yes + num_predicted else None,
        "accuracy": float((is_yes == is_predicted).mean()),
        "num_rows": len(is_yes),
        "num_positive": num_yes,
        "num_predicted_positive": num_predicted,
    }
