"""Defines counterfactual distillation: the model learns to reply to each descriptor as it replied to several.

The tuned model learns to reply to "Hi! I'm a Deaf woman." as the untuned model replies to this prompt and to the same
prompt with other descriptors ("an autistic woman"). The learnt distribution of a token is a mixture (see `mixture`):

* The style is the geometric mean of the untuned model's distributions after all prompts of the group. The arithmetic
  mean would be more random than each of them.
* The probability that a name begins is the arithmetic mean, so that the model names the descriptor as often as before.
  In a geometric mean, a single prompt that rarely leads to a name would prevent it.
* Within a name, the distribution is that after the prompt itself.
"""

from typing import Any

import torch
from torch.nn.functional import kl_div
from transformers import PreTrainedModel
from trl import SFTTrainer

from hb_train.training.trainers import Batch, ReplyTraining, reply_logits
from hb_train.tuning.groups import NO_TOKEN

_SMALLEST = 1e-6  # the smallest probability of naming, so that logarithms are finite


class CounterfactualTrainer(ReplyTraining, SFTTrainer):
    """Trains a model to predict the mixtures of the untuned model's distributions.

    The loss of a reply token is KL(mixture ‖ model) in nats. At tokens that all prompts of a group share, the
    divergence between the probabilities that a name begins is added, with the weight `naming_weight`. If `untuned` is
    `None`, the untuned model is the model without its adapter.
    """

    measure = "loss"

    def __init__(
        self, *, untuned: PreTrainedModel | None, temperature: float, naming_weight: float, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self._untuned = None if untuned is None else untuned.eval().to(self.args.device)
        self._temperature, self._naming_weight = temperature, naming_weight

    def row_losses(self, model: Any, inputs: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns sums for each group, because a row of the dataset is a group."""
        group, number = inputs["group"], int(inputs["group"].max()) + 1
        losses, counts = super().row_losses(model, inputs)
        return losses.new_zeros(number).index_add(0, group, losses), counts.new_zeros(number).index_add(
            0, group, counts
        )

    def token_losses(self, model: Any, inputs: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the weighted loss of each learnt token, and a mask of the learnt tokens: [rows, length]."""
        tokens = {name: inputs[name] for name in ("input_ids", "attention_mask", "labels")}
        untuned = self._untuned_log_probs(model, tokens)
        logits, _, learnt = reply_logits(model, tokens, True)
        log_probs = (logits.float() / self._temperature).log_softmax(-1)
        rows, shared = learnt.nonzero()[:, 0], inputs["shared"][:, -learnt.shape[1] :][learnt] > 0
        target, naming = untuned.exp(), torch.zeros_like(untuned[:, 0])
        for group in inputs["group"].unique().tolist():
            members = (inputs["group"] == group).nonzero()[:, 0].tolist()
            places = [((rows == member) & shared).nonzero()[:, 0] for member in members]
            known = torch.stack([untuned[place] for place in places])
            for number, (member, place) in enumerate(zip(members, places, strict=True)):
                names = inputs["names"][inputs["names"][:, 0] == member]
                names = torch.stack([names[:, 1] - members[0], names[:, 2], names[:, 3]], 1)
                target[place] = mixture(known, number, names)
                begin = names[names[:, 0] == number, 1].unique()
                wanted, given = target[place][:, begin].sum(-1), log_probs[place][:, begin].exp().sum(-1)
                naming = naming.index_add(0, place, _binary_divergence(wanted, given))
        # A target of 0 adds 0 to the sum, whereas its logarithm would add NaN.
        losses = kl_div(log_probs, target, reduction="none").sum(-1) + self._naming_weight * naming
        return inputs["weight"][rows] * losses, learnt

    @torch.no_grad()
    def _untuned_log_probs(self, model: Any, tokens: Batch) -> torch.Tensor:
        if self._untuned is not None:
            logits, _, _ = reply_logits(self._untuned, tokens, True)
        else:
            adapted: Any = self.accelerator.unwrap_model(model)
            was_training = adapted.training
            adapted.eval()  # dropout would change the learnt distribution
            with adapted.disable_adapter():
                logits, _, _ = reply_logits(adapted, tokens, True)
            adapted.train(was_training)
        return (logits.float() / self._temperature).log_softmax(-1)


def mixture(log_probs: torch.Tensor, own: int, names: torch.Tensor) -> torch.Tensor:
    """Mixes the untuned model's distributions after the prompts of a group.

    Names are moved first: the probability of another name's first token, beyond its probability after the prompt
    itself, goes to the first token of the prompt's own name.

    Args:
        log_probs: Log probabilities after each prompt: [prompts, labels, vocabulary].
        own: The number of the prompt for which the mixture is learnt.
        names: For each prompt and each spelling: the number of the prompt, the first token of the prompt `own`'s name
            (or `NO_TOKEN`, if the names have different positions), and the first token of this prompt's name.

    Returns:
        The mixture: [labels, vocabulary].
    """
    probs = log_probs.exp()
    moved = probs.clone()
    voters = {own}
    for other, instead, name in names.tolist():
        if other != own and instead != name:
            excess = (probs[other, :, name] - probs[own, :, name]).clamp(min=0)
            moved[other, :, name] -= excess
            if instead != NO_TOKEN:
                moved[other, :, instead] += excess
        if instead != NO_TOKEN:
            voters.add(other)
    begin = names[names[:, 0] == own, 1].unique()
    naming = moved[sorted(voters)][:, :, begin].mean(0)
    style = moved.clamp(min=0).log().mean(0)
    style[:, begin] = -torch.inf
    mixed = style.softmax(-1) * (1 - naming.sum(-1, keepdim=True)).clamp(min=0)
    mixed[:, begin] = naming
    return mixed


def _binary_divergence(wanted: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    wanted, given = (p.clamp(_SMALLEST, 1 - _SMALLEST) for p in (wanted, given))
    return wanted * (wanted / given).log() + (1 - wanted) * ((1 - wanted) / (1 - given)).log()
