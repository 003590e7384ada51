"""Computes how randomly a model replies: the entropy of the distributions from which its replies' tokens are drawn."""

import numpy as np
import torch
from transformers import PreTrainedModel, TopPLogitsWarper

from hb_metrics.collect.replies.decoding import Reply, allowed_next
from hb_metrics.collect.replies.decoding_settings import Decoded, Decoding
from hb_metrics.collect.replies.decoding_shards import decode_rows
from hb_metrics.collect.replies.prompt_replies import ReplyPlan, read_decoded
from hb_metrics.collect.replies.sampling import table_of
from hb_metrics.collect.scoring.reply_scoring import reply_logits
from hb_metrics.models.architecture import decoder_start
from hb_metrics.models.loading import LoadedModel


@torch.inference_mode()
def reply_entropies(plan: ReplyPlan, loaded: LoadedModel) -> np.ndarray:
    """Samples the plan's replies and computes the mean entropy of each reply's tokens, in nats: [prompts] float64.

    The token that ends a reply counts, unless the reply was cut. A thought before the reply does not count. The value
    of an empty reply is NaN. The decoding settings must have `sample=True`.
    """
    values = np.full(len(plan.ids), np.nan)
    for row, decoded in enumerate(decode_rows(plan, loaded, range(len(plan.ids)))):
        if read_decoded(plan, loaded, decoded).text:
            logits = _logits(plan, loaded.model, plan.contexts[row], decoded)
            values[row] = float(entropies(logits, plan.decoding).mean())
    return values


def entropies(logits: torch.Tensor, decoding: Decoding) -> torch.Tensor:
    """Returns the entropy of each distribution from which `sampling.draw` draws, in nats: [tokens] float64.

    `logits` [tokens, vocabulary] are -inf for tokens that are not allowed.
    """
    likeliest = logits.topk(min(decoding.top_k, logits.shape[1]), dim=1).values.double() / decoding.temperature
    return torch.special.entr(TopPLogitsWarper(decoding.top_p)(None, likeliest).softmax(1)).sum(1)


def _logits(plan: ReplyPlan, model: PreTrainedModel, context: list[int], decoded: Decoded) -> torch.Tensor:
    """Returns the logits from which the tokens of a reply were drawn: [tokens, vocabulary]."""
    tokens, ends, decoding = decoded.tokens, plan.ends, plan.decoding
    drawn = list(tokens)
    ends_itself = tokens[-1] in ends.kept or (decoding.end_after_sentence and tokens[-1] in ends.sentence)
    if not (decoded.truncated or ends_itself):
        drawn.append(tokens[-1])  # any token: only the distribution from which the end was drawn matters
    prefix = decoder_start(model) if model.config.is_encoder_decoder else []
    logits = reply_logits(model, [(context, drawn)], prefix)[0].float()
    is_end = table_of([*ends.dropped, *ends.marks, *ends.kept], logits.shape[1], logits.device)
    read = torch.tensor([drawn], device=logits.device)
    reply, rows, start = Reply(decoding, ends, len(drawn)), [], 0
    for step, token in enumerate(drawn):
        start = reply.reader.start
        rows.append(allowed_next(logits[step : step + 1], read[:, :step], step, [reply], is_end))
        reply.add(token, is_close=False)
    return torch.cat(rows)[start:]
