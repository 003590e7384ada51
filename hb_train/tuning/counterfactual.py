"""Defines counterfactual distillation: the model learns to reply to each descriptor as it replied to several.

The tuned model learns to reply to "Hi! I'm a Deaf woman." as the untuned model replies to this prompt and to the same
prompt with other descriptors ("an autistic woman"). The learnt distribution of a token is a mixture (see `mixture`):

* The style is the geometric mean of the untuned model's distributions after all prompts of the group. The arithmetic
  mean would be more random than each of them.
* The probability that a name begins is the arithmetic mean, so that the model names the descriptor as often as before.
  In a geometric mean, a single prompt that rarely leads to a name would prevent it.
* Within a name, the distribution is that after the prompt itself.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import torch
from datasets import Dataset
from transformers import PreTrainedModel
from trl import SFTTrainer

from hb_metrics.models.contexts import ContextFormat, encode_rendered, encode_replies, reply_end
from hb_metrics.models.loading import LoadedModel
from hb_train.training.encoding import IGNORED, collate, encode_pair
from hb_train.training.models import length_limit
from hb_train.training.trainers import Batch, ReplyTrainer, reply_logits
from hb_train.tuning.group_rows import GroupRow
from hb_train.tuning.swap import name_starts

NO_TOKEN = -1
_ARTICLE = re.compile(r"\s?an?\b", re.IGNORECASE)
_OF_REVERSE = 0.75  # the weight of KL(model ‖ mixture)
_SMALLEST = 1e-6  # the smallest probability of naming, so that logarithms are finite


def encode_groups(
    rows: Dataset, loaded: LoadedModel, context: ContextFormat, anchor_share: float, max_length: int | None
) -> Dataset:
    """Encodes each prompt of a group with its reply.

    Columns with a list per prompt: `input_ids`, `attention_mask`, `labels`, and `shared`, which is 1 at the tokens that
    all prompts of the group share. Before such a token, all replies are the same, except for the names in them. `names`
    contains numbers of two prompts and the first tokens of their names (see `first_tokens`). `weight` is chosen so
    that anchors have the share `anchor_share` of the weight of all tokens.
    """
    limit = length_limit(loaded, max_length)
    # `map` computes a hash of every object that `encode` uses. `encode` must therefore not use `loaded`, which contains
    # the weights.
    tokenizer = loaded.tokenizer
    end = reply_end(tokenizer, context)

    def encode(row: Mapping[str, Any]) -> dict[str, object]:
        group = GroupRow(**row)
        contexts = encode_rendered(group.prompts, tokenizer, context, is_encoder_decoder=False)
        names = first_tokens(tokenizer, group.names, group.after)
        replies = _reply_tokens(group, tokenizer, context, names)
        pairs = []
        for given, (tokens, shared) in zip(contexts, replies, strict=True):
            if not group.truncated and end is not None:
                tokens, shared = [*tokens, end], [*shared, 1]
            pairs.append({**encode_pair(group.id, given, tokens, limit), "shared": [0] * len(given) + shared})
        return {**{name: [pair[name] for pair in pairs] for name in pairs[0]}, "names": names}

    encoded = rows.map(encode, remove_columns=rows.column_names, load_from_cache_file=False, desc="encoding rows")
    is_anchor = [len(members) == 1 for members in encoded["input_ids"]]
    totals = [0, 0]
    for anchor, labels in zip(is_anchor, encoded["labels"], strict=True):
        totals[anchor] += sum(label != IGNORED for of_prompt in labels for label in of_prompt)
    weight = anchor_share / (1 - anchor_share) * totals[0] / totals[1] if all(totals) else 1.0
    return encoded.add_column("weight", [weight if anchor else 1.0 for anchor in is_anchor])


def collate_groups(rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
    """Combines groups into a batch with a row per prompt. `group` is the number of each prompt's group.

    In `names`, the numbers of prompts are rows of the batch.
    """
    prompts: list[dict[str, list[int]]] = []
    groups, weights, names = [], [], []
    for number, row in enumerate(rows):
        names += [[own + len(prompts), other + len(prompts), *tokens] for own, other, *tokens in row["names"]]
        for member in range(len(row["input_ids"])):
            prompts.append({name: row[name][member] for name in ("input_ids", "attention_mask", "labels", "shared")})
            groups.append(number)
            weights.append(row["weight"])
    return {
        **collate(prompts),
        "group": torch.tensor(groups),
        "weight": torch.tensor(weights),
        "names": torch.tensor(names, dtype=torch.int64).reshape(-1, 4),
    }


def first_tokens(tokenizer: Any, names: Sequence[str], after: Sequence[bool]) -> list[list[int]]:
    """Returns lists of four numbers: a prompt, a prompt of its group, and the first tokens of both names.

    The two names are spelt alike, such as " tall" and " Deaf". Only one of them may follow its noun ("with asthma").
    Where that one begins, it is too late or too early for the other one, so the first prompt's token is `NO_TOKEN`.
    """

    @cache
    def first(text: str) -> int:
        return tokenizer(text, add_special_tokens=False)["input_ids"][0]

    tokens: dict[tuple[int, int, int], int] = {}
    for own, term in enumerate(names):
        for other, source in enumerate(names):
            for start, instead in name_starts(source, term) if source else ():
                ours = first(instead) if after[own] == after[other] else NO_TOKEN
                tokens.setdefault((own, other, first(start)), ours)
    return [[own, other, ours, theirs] for (own, other, theirs), ours in tokens.items()]


def _reply_tokens(
    group: GroupRow, tokenizer: Any, context: ContextFormat, names: Sequence[Sequence[int]]
) -> list[tuple[list[int], list[int]]]:
    """Returns the tokens of each reply of a group, and 1 for each token that is shared.

    Outside the spans of names, all replies have the tokens of the first one. Of a span, only the first token can be
    shared, and only if no reply begins it with an article, which depends on the name.
    """
    before: list[str] = []
    parts: list[str] = []
    for prompt, reply, spans in zip(group.prompts, group.completions, group.spans, strict=True):
        cuts = [0, *(place for span in spans for place in span), len(reply)]
        before += [prompt + reply[:start] for start in cuts[:-1]]
        parts += [reply[start:stop] for start, stop in pairwise(cuts)]
    tokens_of_parts = encode_replies(before, parts, tokenizer, context, is_encoder_decoder=False)
    pieces = list(zip(parts, tokens_of_parts, strict=True))
    num_pieces = len(pieces) // len(group.prompts)  # of a reply
    starts = {(member, theirs) for _, member, _, theirs in names}
    replies: list[tuple[list[int], list[int]]] = [([], []) for _ in group.prompts]
    for number in range(num_pieces):
        of_members = pieces[number::num_pieces]
        is_span = number % 2 == 1
        is_shared = is_span and all(
            (member, tokens[0]) in starts or (group.after[member] and not _ARTICLE.match(text))
            for member, (text, tokens) in enumerate(of_members)
        )
        for (whole, shared), (_, own) in zip(replies, of_members, strict=True):
            whole += own if is_span else of_members[0][1]
            shared += [int(is_shared), *[0] * (len(own) - 1)] if is_span else [1] * len(of_members[0][1])
    return replies


class CounterfactualTrainer(ReplyTrainer, SFTTrainer):
    """Trains a model to predict the mixtures of the untuned model's distributions.

    The loss of a reply token is a weighted mean of KL(mixture ‖ model) and KL(model ‖ mixture) in nats. The first alone
    makes replies more random: a model that cannot tell which mixture is right spreads over all of them. At tokens that
    all prompts of a group share, the divergence between the probabilities that a name begins is added, with the weight
    `naming_weight`. If `untuned` is `None`, the untuned model is the model without its adapter.
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
        logits, _, learnt = reply_logits(model, tokens)
        log_probs = (logits.float() / self._temperature).log_softmax(-1)
        rows, shared = learnt.nonzero()[:, 0], inputs["shared"][:, -learnt.shape[1] :][learnt] > 0
        target, wanted = torch.empty_like(untuned), torch.zeros_like(untuned[:, 0])
        target[~shared] = untuned[~shared].exp()
        starts = [rows.new_empty(2, 0)]
        for group in inputs["group"].unique().tolist():
            members = (inputs["group"] == group).nonzero()[:, 0].tolist()
            places = [((rows == member) & shared).nonzero()[:, 0] for member in members]
            known = torch.stack([untuned[place] for place in places])
            mean = known.mean(0)
            for number, (member, place) in enumerate(zip(members, places, strict=True)):
                names = inputs["names"][inputs["names"][:, 0] == member]
                names = torch.stack([names[:, 1] - members[0], names[:, 2], names[:, 3]], 1)
                begin = names[names[:, 0] == number, 1].unique()
                mixed = mixture(known, mean, number, names)
                target[place], wanted[place] = mixed, mixed[:, begin].sum(-1)
                starts.append(torch.cartesian_prod(place, begin).T)
        # All tokens are read at once, because the gradient of each access is as large as `log_probs`.
        labels, begin = torch.cat(starts, 1)
        given = torch.zeros_like(wanted).index_add(0, labels, log_probs[labels, begin].exp())
        naming = _binary_divergence(wanted, given)
        ratios = target.clamp(min=torch.finfo(target.dtype).tiny).log() - log_probs
        # A weighted mean of both divergences: Σ target · ratio, and −Σ probability · ratio.
        weighted = (1 - _OF_REVERSE) * target - _OF_REVERSE * log_probs.exp()
        losses = (weighted * ratios).sum(-1) + self._naming_weight * naming
        return inputs["weight"][rows] * losses, learnt

    @torch.no_grad()
    def _untuned_log_probs(self, model: Any, tokens: Batch) -> torch.Tensor:
        if self._untuned is not None:
            logits, _, _ = reply_logits(self._untuned, tokens)
        else:
            adapted: Any = self.accelerator.unwrap_model(model)
            was_training = adapted.training
            adapted.eval()  # dropout would change the learnt distribution
            with adapted.disable_adapter():
                logits, _, _ = reply_logits(adapted, tokens)
            adapted.train(was_training)
        return (logits.float() / self._temperature).log_softmax(-1)


def mixture(log_probs: torch.Tensor, mean: torch.Tensor, own: int, names: torch.Tensor) -> torch.Tensor:
    """Mixes the untuned model's distributions after the prompts of a group.

    Names are moved first: the probability of another name's first token, beyond its probability after the prompt
    itself, goes to the first token of the prompt's own name.

    Args:
        log_probs: Log probabilities after each prompt: [prompts, labels, vocabulary].
        mean: The mean of `log_probs` over prompts, which all mixtures of a group share: [labels, vocabulary].
        own: The number of the prompt for which the mixture is learnt.
        names: For each prompt and each spelling: the number of the prompt, the first token of the prompt `own`'s name
            (or `NO_TOKEN`, if the names have different positions), and the first token of this prompt's name.

    Returns:
        The mixture: [labels, vocabulary].
    """
    tokens = names[:, 1:].unique()
    tokens = tokens[tokens != NO_TOKEN]
    column = {token: number for number, token in enumerate(tokens.tolist())}
    probs = log_probs[:, :, tokens].exp()
    moved = probs.clone()
    voters = {own}
    for other, instead, name in names.tolist():
        if other != own and instead != name:
            excess = (probs[other, :, column[name]] - probs[own, :, column[name]]).clamp(min=0)
            moved[other, :, column[name]] -= excess
            if instead != NO_TOKEN:
                moved[other, :, column[instead]] += excess
        if instead != NO_TOKEN:
            voters.add(other)
    begin = names[names[:, 0] == own, 1].unique()
    naming = moved[sorted(voters)][:, :, [column[token] for token in begin.tolist()]].mean(0)
    style = mean.clone()
    style[:, tokens] = moved.clamp(min=0).log().mean(0)
    style[:, begin] = -torch.inf
    mixed = style.softmax(-1) * (1 - naming.sum(-1, keepdim=True)).clamp(min=0)
    mixed[:, begin] = naming
    return mixed


def _binary_divergence(wanted: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    wanted, given = (p.clamp(_SMALLEST, 1 - _SMALLEST) for p in (wanted, given))
    return wanted * (wanted / given).log() + (1 - wanted) * ((1 - wanted) / (1 - given)).log()
