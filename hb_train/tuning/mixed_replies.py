"""Decodes replies from mixtures of the model's distributions after several prompts (see `counterfactual.mixture`)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import torch
from transformers import PreTrainedModel

from hb_dataset.seeded_draws import seeded_generator
from hb_metrics.collect.replies.forward import Forward
from hb_metrics.collect.replies.prompt_replies import ReplyPlan
from hb_metrics.measurements.reply_requests import Asked
from hb_metrics.models.contexts import check_lengths, encode_messages
from hb_metrics.models.loading import LoadedModel
from hb_metrics.models.processes import input_device
from hb_train.tuning.counterfactual import first_tokens, mixture
from hb_train.tuning.own_rows import draw_rows, rows_by_place
from hb_train.tuning.swap import name_starts

COLUMNS = ["id", "text", "axis", "descriptor", "descriptor_plural", "noun", "template", "placement", "plural"]


class Group(NamedTuple):
    """The contexts of a reply: the token ids of the prompt itself, and of the same prompt with other descriptors.

    Attributes:
        names: The other descriptors' first tokens, as in the argument of `mixture`.
        own_name: The tokens of the prompt's own descriptor, for each of its spellings.
    """

    contexts: list[list[int]]
    names: torch.Tensor
    own_name: list[list[int]]


class MixedForward:
    """Computes the logits of mixtures. It has the methods of `Forward`, with a row for each mixture.

    Unless the model supports padding, only contexts of the same length are computed together.

    Args:
        model: A causal model, or a model with an encoder and a decoder.
        contexts: [replies] The token ids of each reply's own prompt.
        groups: The group of each prompt, by the token ids of the prompt.
        temperature: The divisor of the logits when a token is drawn. The distributions are mixed at this temperature.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        contexts: Sequence[Sequence[int]],
        *,
        cached: bool,
        groups: Mapping[tuple[int, ...], Group],
        temperature: float,
        padded: bool,
    ) -> None:
        self.groups, self.temperature = [groups[tuple(context)] for context in contexts], temperature
        by_length: dict[int, list[tuple[int, int]]] = {}
        for reply, group in enumerate(self.groups):
            for member, context in enumerate(group.contexts):
                by_length.setdefault(0 if padded else len(context), []).append((reply, member))
        self.parts = []
        for places in by_length.values():
            of_part = [self.groups[reply].contexts[member] for reply, member in places]
            self.parts.append((Forward(model, of_part, cached=cached), places))
        self.tokens = torch.empty(len(contexts), 0, dtype=torch.int64, device=input_device(model))

    def first(self) -> torch.Tensor:
        return self._mixed([forward.first() for forward, _ in self.parts])

    def next(self, tokens: torch.Tensor) -> torch.Tensor:
        self.tokens = torch.cat([self.tokens, tokens[:, None]], 1)
        return self._mixed([forward.next(tokens[[reply for reply, _ in places]]) for forward, places in self.parts])

    def select(self, rows: torch.Tensor) -> None:
        new = {reply: number for number, reply in enumerate(rows.tolist())}
        self.groups = [self.groups[reply] for reply in new]
        self.tokens = self.tokens[rows]
        parts = []
        for forward, of_part in self.parts:
            kept = [row for row, (reply, _) in enumerate(of_part) if reply in new]
            if kept:
                forward.select(torch.tensor(kept, device=rows.device))
                parts.append((forward, [(new[of_part[row][0]], of_part[row][1]) for row in kept]))
        self.parts = parts

    def _mixed(self, logits: Sequence[torch.Tensor]) -> torch.Tensor:
        places = [place for _, of_part in self.parts for place in of_part]
        row_of = {place: row for row, place in enumerate(places)}
        log_probs = (torch.cat(list(logits)).float() / self.temperature).log_softmax(-1)
        mixed = []
        for number, (group, reply) in enumerate(zip(self.groups, self.tokens.tolist(), strict=True)):
            rows = [row_of[number, member] for member in range(len(group.contexts))]
            if _is_within(reply, group.own_name):
                mixed.append(log_probs[rows[0]])
            else:
                known = log_probs[rows, None]
                mixed.append(mixture(known, known.mean(0), 0, group.names)[0].log())
        return torch.stack(mixed) * self.temperature


def mixed_groups(
    plan: ReplyPlan, asked: Asked, prompts: pa.Table, loaded: LoadedModel, num_contexts: int
) -> dict[tuple[int, ...], Group]:
    """Draws the other prompts of each mixture. Returns its group by the token ids of its own prompt.

    They have the same noun and template. Their descriptors are on as many axes as possible, and the mixtures of all
    axes have about the same shares of axes.
    """
    places, rows, layout = rows_by_place(prompts), prompts.select(COLUMNS).to_pylist(), asked.requests.layout
    given = zip(asked.prompts.select(COLUMNS).to_pylist(), asked.requests.messages, plan.contexts, strict=True)
    groups = {}
    for own, (*earlier, last), context in given:
        others = {
            axis: [number for number in numbers if rows[number]["descriptor"] != own["descriptor"]]
            for axis, numbers in places[own["noun"], own["template"]].items()
        }
        generator = seeded_generator(plan.seed, "mixtures", own["id"])
        chosen = draw_rows(others, num_contexts - 1, generator, last=own["axis"])
        members = [own, *(rows[number] for number in chosen)]
        if len(members) == 1:
            raise ValueError(f"prompt '{own['id']}' has no prompt of another descriptor; measure at least two terms")
        contents = [last["content"].replace(own["text"], member["text"]) for member in members]
        conversations = [[*earlier, {**last, "content": content}] for content in contents]
        contexts = encode_messages(conversations, loaded, layout.context, chat=layout.chat)
        ids, most = [own["id"]] * len(members), plan.decoding
        check_lengths(contexts, ids, loaded.model, most.max_new_tokens, most.max_reasoning_tokens)
        names = [(member["plural"] and member["descriptor_plural"]) or member["descriptor"] for member in members]
        tokens = first_tokens(loaded.tokenizer, names, [member["placement"] == "after" for member in members])
        spellings = [spelling for spelling, _ in name_starts(names[0], names[0])]
        groups[tuple(context)] = Group(
            contexts,
            torch.tensor([numbers for own, *numbers in tokens if own == 0]).reshape(-1, 3),
            loaded.tokenizer(spellings, add_special_tokens=False)["input_ids"],
        )
    return groups


def _is_within(reply: Sequence[int], spellings: Sequence[Sequence[int]]) -> bool:
    """Returns whether a reply ends in the beginning of a name, but not in the whole name.

    With a name such as "with asthma", this is also true after every other "with".
    """
    return any(
        reply[-length:] == spelling[:length]
        for spelling in spellings
        for length in range(1, min(len(spelling), len(reply) + 1))
    )
