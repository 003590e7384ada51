from collections.abc import Sequence
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.utils.rnn import pad_sequence

from hb_metrics.models.loading import LoadedModel


class SlotValueClassifier(torch.nn.Module):
    """Answers yes or no from the hidden state of the last token that is not padding."""

    def __init__(self, transformer: torch.nn.Module, hidden_size: int, *, takes_positions: bool) -> None:
        super().__init__()
        self.transformer = transformer
        self._inputs = signature(transformer.forward).parameters
        self._takes_positions = takes_positions and "position_ids" in self._inputs
        self.classifier = torch.nn.Sequential(
            torch.nn.Linear(hidden_size, hidden_size), torch.nn.Tanh(), torch.nn.Linear(hidden_size, 1)
        )
        for name, weights in self.classifier.named_parameters():
            torch.nn.init.normal_(weights, std=0.02) if name.endswith("weight") else torch.nn.init.zeros_(weights)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, labels: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        """Returns the logit of "yes" for each row and, with labels, the mean cross-entropy as `loss`."""
        inputs: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask}
        if self._takes_positions:
            inputs["position_ids"] = (attention_mask.cumsum(1) - 1).clamp(min=0)
        if "use_cache" in self._inputs:
            inputs["use_cache"] = False
        states = self.transformer(**inputs).last_hidden_state
        rows = torch.arange(len(states), device=states.device)
        last_states = states[rows, attention_mask.sum(1) - 1]
        logits = self.classifier(last_states.to(self.classifier[0].weight.dtype))[:, 0]
        if labels is None:
            return {"logits": logits}
        return {"loss": binary_cross_entropy_with_logits(logits.float(), labels.float()), "logits": logits}


def collate(rows: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
    tokens = [torch.tensor(row["input_ids"]) for row in rows]
    return {
        "input_ids": pad_sequence(tokens, batch_first=True),
        "attention_mask": pad_sequence([torch.ones_like(row) for row in tokens], batch_first=True),
        "labels": torch.tensor([row["label"] for row in rows]),
    }


def slot_value_classifier(loaded: LoadedModel) -> SlotValueClassifier:
    """Replaces a model's head with a new classifier. For an encoder–decoder model, only the encoder is used."""
    model: Any = loaded.model
    transformer = model.get_encoder() if loaded.kind == "encoder-decoder" else model.base_model
    size = model.config.get_text_config().hidden_size
    return SlotValueClassifier(transformer, size, takes_positions=loaded.kind == "causal").to(torch.float32)


def binary_scores(labels: Sequence[int], predictions: Sequence[int]) -> dict[str, Any]:
    """Scores yes-or-no answers. `f1` (for yes) is `None` if it is undefined (0 / 0)."""
    is_yes, is_predicted = np.asarray(labels, bool), np.asarray(predictions, bool)
    num_both, num_yes, num_predicted = (int(rows.sum()) for rows in (is_yes & is_predicted, is_yes, is_predicted))
    return {
        "f1": 2 * num_both / (num_yes + num_predicted) if num_yes + num_predicted else None,
        "accuracy": float((is_yes == is_predicted).mean()),
        "num_rows": len(is_yes),
        "num_positive": num_yes,
        "num_predicted_positive": num_predicted,
    }
