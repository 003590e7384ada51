"""Defines counterfactual distillation: the model learns to reply to one descriptor as it replied to another.

The tuned model learns to reply to "Hi! I'm a Deaf woman." as the untuned model replies to "Hi! I'm an autistic woman.",
with "Deaf" where that reply has "autistic". In the limit, the reply to every descriptor is the same mixture of the
replies to all descriptors, so no descriptor has a distinct style.

The tuned model must not learn to name the other descriptor ("autistic"). Where the untuned model would begin to name
it, the tuned model learns to name its prompt's descriptor ("Deaf") instead. To this end, probability is moved from the
first token of the other descriptor to the first token of the prompt's descriptor.
"""

from typing import TYPE_CHECKING

import torch
from transformers import Trainer

from hb_train.tuning.baseline_rows import COUNTERFACTUAL
from hb_train.tuning.distill import NO_TOKEN, DistillationTrainer, encode, make_distillation_trainer, rows_card
from hb_train.tuning.method import CardText, Method, Tuning

if TYPE_CHECKING:
    from hb_metrics.models.bias_tags import BiasTuning

# Only one token in a hundred begins a name. Without a weight, the model would stop naming the descriptor before it
# learnt when to name it.
NAMING_WEIGHT = 3.0
_SMALLEST = 1e-6  # the smallest probability of naming, so that logarithms are finite


class CounterfactualTrainer(DistillationTrainer):
    def label_losses(self, wanted: torch.Tensor, log_given: torch.Tensor, moved: torch.Tensor) -> torch.Tensor:
        target = move_names(wanted, log_given.detach().exp(), moved)
        naming = naming_divergence(target, log_given, moved[..., 1])
        return super().label_losses(target, log_given, moved) + NAMING_WEIGHT * naming


def move_names(wanted: torch.Tensor, given: torch.Tensor, moved: torch.Tensor) -> torch.Tensor:
    """Moves probability from the other descriptor's first token to the first token of the prompt's descriptor.

    The moved probability is the amount by which `wanted` exceeds `given` at the other descriptor's first token.

    Args:
        wanted: The distributions of the untuned model, whose prompt has the other descriptor: [labels, vocabulary].
        given: The distributions of the trained model: [labels, vocabulary].
        moved: Pairs of first tokens (of the other descriptor and of the prompt's descriptor), padded with `NO_TOKEN`:
            [labels, pairs, 2].
    """
    names, instead = moved.clamp(min=0).unbind(-1)
    excess = (wanted.gather(1, names) - given.gather(1, names)).clamp(min=0) * (moved[..., 0] != NO_TOKEN)
    return wanted.scatter_add(1, names, -excess).scatter_add(1, instead, excess)


def naming_divergence(target: torch.Tensor, log_given: torch.Tensor, names: torch.Tensor) -> torch.Tensor:
    """Returns the KL divergence between the models' probabilities that the next token begins a name: [labels].

    `names` contains the first tokens of the prompt's descriptor: [labels, pairs], padded with `NO_TOKEN`. Without
    names, the divergence is 0.
    """
    is_name = torch.zeros(len(target), target.shape[1] + 1, dtype=torch.bool, device=target.device)
    is_name = is_name.scatter_(1, names + 1, True)[:, 1:]  # a token that occurs in several pairs counts once
    wanted, given = ((p * is_name).sum(-1).clamp(_SMALLEST, 1 - _SMALLEST) for p in (target, log_given.exp()))
    return wanted * (wanted / given).log() + (1 - wanted) * ((1 - wanted) / (1 - given)).log()


def make_trainer(tuning: Tuning) -> Trainer:
    return make_distillation_trainer(tuning, CounterfactualTrainer)


def card(tuning: "BiasTuning") -> CardText:
    data = tuning.labels
    learnt = """\
The model was tuned by counterfactual distillation. It learnt to reply to a prompt as it had replied to the same prompt
with a different descriptor. In the replies that it learnt, the prompt's descriptor replaces the other descriptor. For
some prompts, the reply should depend on who is asking. For these prompts, the model learnt to reply like the untuned
model (anchors)."""
    limits = f"""\
The model did not learn {data["num_dropped"]:,} of the replies, because they contain more about the other descriptor
than its name. Only {data["num_anchors"]:,} anchors teach the model when replies should depend on who is asking, so
measure your own questions."""
    return CardText(learnt, rows_card(data, "prompts with other descriptors"), limits)


METHOD = Method(
    encode=encode,
    make_trainer=make_trainer,
    card=card,
    row_folder=COUNTERFACTUAL,
    kinds=("causal",),
    needs_own_rows=True,
)
