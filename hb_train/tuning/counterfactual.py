"""Counterfactual distillation: the model learns to reply to a descriptor as it did to another one.

The tuned model learns to reply to "Hi! I'm a Deaf woman." as the untuned model replies to "Hi! I'm an autistic woman.",
with "Deaf" where that reply says "autistic". In the limit every descriptor gets the mixture of the replies to all: no
descriptor has its own style, and replies take up the descriptor as often as on average. The trainer is that of baseline
distillation (`distill.py`), whose rows have the same columns.

Where the untuned model may begin to name the other descriptor, the tuned model must not learn that name: the
probability of its first token, as far as it is above the tuned model's own, moves to the first token of the prompt's
descriptor.
"""

from typing import TYPE_CHECKING

import torch
from transformers import Trainer

from hb_train.tuning.baseline_rows import COUNTERFACTUAL
from hb_train.tuning.distill import NO_TOKEN, DistillationTrainer, encode, make_distillation_trainer, rows_card
from hb_train.tuning.method import CardText, Method, Tuning

if TYPE_CHECKING:
    from hb_metrics.inference.models.bias_tags import BiasTuning


class CounterfactualTrainer(DistillationTrainer):
    """The trainer of distillation, with moved probabilities as the target."""

    def targets(self, wanted: torch.Tensor, given: torch.Tensor, moved: torch.Tensor) -> torch.Tensor:
        """The target distributions; arguments as `move_names`."""
        return move_names(wanted, given, moved)


def move_names(wanted: torch.Tensor, given: torch.Tensor, moved: torch.Tensor) -> torch.Tensor:
    """Moves the probability of naming the other descriptor to naming the prompt's.

    Args:
        wanted: [labels, vocabulary] the untuned model's distributions after the other descriptor.
        given: [labels, vocabulary] the trained model's distributions after the prompt's descriptor.
        moved: [labels, pairs, 2] first tokens of the other descriptor and of the prompt's; `NO_TOKEN`, `NO_TOKEN`
            where there are fewer pairs. A token without a partner: all other tokens share its probability.

    Returns:
        [labels, vocabulary] the distributions to learn.
    """
    names, instead = moved.unbind(-1)
    is_pair, has_partner = names != NO_TOKEN, instead != NO_TOKEN
    at = names.clamp(min=0)
    excess = (wanted.gather(1, at) - given.gather(1, at)).clamp(min=0) * is_pair
    target = wanted.scatter_add(1, at, -excess)
    target = target.scatter_add(1, instead.clamp(min=0), excess * has_partner)
    return target / target.sum(-1, keepdim=True)


def make_trainer(tuning: Tuning) -> Trainer:
    """The trainer, with the model before tuning as the teacher."""
    return make_distillation_trainer(tuning, CounterfactualTrainer)


def card(tuning: "BiasTuning") -> CardText:
    """The card's text."""
    data = tuning.labels
    learnt = """\
Tuned to reply to a descriptor as it replied to other descriptors, with the prompt's descriptor where the reply named
the other (counterfactual distillation). Replies to prompts in which it should matter who asks were held to those of the
untuned model (anchors)."""
    limits = f"""\
{data["num_dropped"]:,} replies described the other descriptor in more words than its name, and were not learnt. Replies
that ask for who one is were held on {data["num_anchors"]:,} anchors only: measure your own questions."""
    return CardText(learnt, rows_card(data, "prompts with other descriptors"), limits)


METHOD = Method(
    encode=encode,
    make_trainer=make_trainer,
    card=card,
    row_folder=COUNTERFACTUAL,
    kinds=("causal",),
    needs_own_rows=True,
)
