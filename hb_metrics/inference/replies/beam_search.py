from collections.abc import Sequence

import numpy as np
import torch
from transformers import PreTrainedModel

from hb_metrics.inference.devices import input_device
from hb_metrics.inference.models.contexts import EndTokens
from hb_metrics.inference.replies.allowed_tokens import allowed, not_finite, table_of
from hb_metrics.inference.replies.decoding_settings import CLOSE, Decoded, Decoding
from hb_metrics.inference.replies.forward import Forward

_NEVER = -1e9


def beam_search(
    model: PreTrainedModel,
    contexts: Sequence[Sequence[int]],
    decoding: Decoding,
    ends: EndTokens,
    drawn: torch.Tensor | None,
    limits: torch.Tensor,
    until: torch.Tensor,
    *,
    cached: bool,
) -> tuple[list[Decoded], np.ndarray]:
    """Decodes by beam search, as transformers does with `early_stopping=False`.

    The search for a reply to a context ends when `num_beams` finished beams all have higher scores than the best
    running beam.

    Returns:
        The replies, and one number per context. The number is the reply's maximum length if a decision was close (see
        `CLOSE`), and 0 otherwise.
    """
    del drawn, until
    device, beams, most = input_device(model), decoding.num_beams, decoding.max_new_tokens
    num = len(contexts)
    close = torch.zeros(num, dtype=torch.bool, device=device)
    running = torch.zeros(num, beams, most, dtype=torch.int64, device=device)
    scores = torch.full((num, beams), _NEVER, device=device)
    scores[:, 0] = 0  # initially, only the first beam counts, because all beams start with the same tokens
    finished = torch.zeros(num, beams, most, dtype=torch.int64, device=device)
    finished_scores = torch.full((num, beams), _NEVER, device=device)
    finished_lengths = torch.zeros(num, beams, dtype=torch.int64, device=device)
    finished_truncated = torch.zeros(num, beams, dtype=torch.bool, device=device)
    results: list[Decoded | None] = [None] * num
    forward = Forward(model, contexts, beams, cached=cached)
    logits = forward.first()
    vocabulary = logits.shape[1]
    dropped, marks, kept, sentence = (
        table_of(ids, vocabulary, device) for ids in (ends.dropped, ends.marks, ends.kept, ends.sentence)
    )
    passed = table_of([*ends.marks, *ends.blank], vocabulary, device)
    start = torch.zeros(1, dtype=torch.int64, device=device)
    rows = torch.arange(num, device=device)
    for step in range(most):
        log_probs = logits.float().log_softmax(1)
        highest = log_probs.amax(1)
        broken = ~highest.isfinite().view(len(rows), beams).all(1)
        # End marks and line breaks end a reply only after its first word.
        begun = ~passed[running[:, :, :step]].all(2, keepdim=True)
        is_end = dropped | ((marks | kept) & (begun | ~passed))
        short = torch.tensor(step < decoding.min_new_tokens, device=device)
        said, ends_here = running.flatten(0, 1)[:, :step], is_end.flatten(0, 1)
        log_probs = allowed(log_probs, said, decoding.no_repeat_ngram_size, start, ends_here, short.view(1, 1))
        totals = (log_probs.view(len(rows), beams, vocabulary) + scores[:, :, None]).flatten(1)
        if decoding.end_after_sentence and step + 1 >= decoding.min_new_tokens:
            is_end |= sentence
        is_end = is_end.flatten(1)
        last = step + 1 == most

        # Among the best `beams` candidates, those that end the reply are finished. The best `beams` candidates that do
        # not end the reply are the next running beams.
        best, best_indices = totals.topk(beams + 1, dim=1)
        end_here = is_end.gather(1, best_indices)
        edge = (best[:, -2] - best[:, -1] < CLOSE) & (end_here[:, -2] | end_here[:, -1])
        open_totals = totals if last else totals.masked_fill(is_end, -torch.inf)
        next_scores, indices = open_totals.topk(beams + 1, dim=1)
        if not last:
            edge |= next_scores[:, -2] - next_scores[:, -1] < CLOSE

        best, best_indices = best[:, :-1], best_indices[:, :-1]
        candidates = running.gather(1, (best_indices // vocabulary)[:, :, None].expand(-1, -1, most)).clone()
        ending = best_indices % vocabulary
        candidates[:, :, step] = ending
        end_here = end_here[:, :-1]
        candidate_lengths = step + 1 - (end_here & (dropped | marks)[ending]).long()
        cut = ~end_here
        candidate_scores = torch.where(end_here | last, best / (step + 1) ** decoding.length_penalty, _NEVER)
        finished_scores, order = torch.cat([finished_scores, candidate_scores], 1).topk(beams, dim=1)
        finished = torch.cat([finished, candidates], 1).gather(1, order[:, :, None].expand(-1, -1, most))
        finished_lengths = torch.cat([finished_lengths, candidate_lengths], 1).gather(1, order)
        finished_truncated = torch.cat([finished_truncated, cut], 1).gather(1, order)

        indices, scores = indices[:, :-1], next_scores[:, :-1]
        parents, chosen = indices // vocabulary, indices % vocabulary
        running = running.gather(1, parents[:, :, None].expand(-1, -1, most)).clone()
        running[:, :, step] = chosen

        reach = scores[:, 0] / (step + 1) ** decoding.length_penalty
        worst = finished_scores[:, -1]
        if last:
            over = torch.ones_like(broken)
        else:
            over = (worst > _NEVER / 2) & (reach <= worst)
            edge |= (worst > _NEVER / 2) & ((reach - worst).abs() < CLOSE)
        ranking_is_close = over & (finished_scores[:, 0] - finished_scores[:, 1] < CLOSE)
        close[rows] |= edge | ranking_is_close
        # Except when a reply ends, the program waits for the device only here.
        is_broken, is_over = torch.stack([broken, over]).tolist()
        if any(is_broken):
            raise not_finite(highest)
        if any(is_over):
            best_replies = finished[:, 0].tolist(), finished_lengths[:, 0].tolist(), finished_truncated[:, 0].tolist()
            for context, ends_here, reply, length, cut in zip(rows.tolist(), is_over, *best_replies, strict=True):
                if ends_here:
                    results[context] = Decoded(reply[:length], cut)
        if all(is_over):
            break
        going = torch.tensor([row for row, ends_here in enumerate(is_over) if not ends_here], device=device)
        forward.select((going[:, None] * beams + parents[going]).flatten())
        rows, running, scores, chosen = rows[going], running[going], scores[going], chosen[going]
        finished, finished_scores = finished[going], finished_scores[going]
        finished_lengths, finished_truncated = finished_lengths[going], finished_truncated[going]
        logits = forward.next(chosen.flatten())
    return [reply for reply in results if reply is not None], (close * limits).cpu().numpy()
