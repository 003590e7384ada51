"""Computes the results of `offensiveness` from the run's tables."""

from typing import Any

import numpy as np

from hb_metrics.measurements.turn_shares import turn_shares
from hb_metrics.offensiveness.averages import offensiveness
from hb_metrics.reply_checks.refusal_shares import reply_shares
from hb_metrics.run.finished_run import Run, read_prompts, read_turns, read_vectors, stored_shards
from hb_metrics.run.replies import (
    FlaggedReplies,
    Replies,
    answered_replies,
    chosen_replies,
    whole_prompts,
)
from hb_metrics.run.run_folder import OFFENSIVENESS, turn_folder


def compute(run: Run) -> dict[str, Any]:
    prompts, is_judged = read_prompts(run.folder), "judge" in run.results["run"]["offensiveness_classifier"]
    turns = read_turns(run.folder, prompts)
    parts = [("prompts", whole_prompts(prompts), run.folder / OFFENSIVENESS / "prompts")]
    for turn, replies in enumerate(turns, start=1):
        parts.append((f"turn {turn}", replies, turn_folder(run.folder, turn) / OFFENSIVENESS / "replies"))
    measured: dict[str, Any] = {}
    flagged = []
    for name, texts, folder in parts:
        probabilities, shards = read_vectors(folder).values, stored_shards(folder, ("truncated",))
        answered = probabilities[:, -1] == 0 if is_judged else np.ones(len(probabilities), dtype=bool)
        kept, offensive = answered_replies(texts, answered), probabilities[answered, 0]
        if name in ("prompts", "turn 1"):
            level = None if name == "prompts" else run.confidence_level  # prompts are not a sample
            results = offensiveness_results(kept, offensive, sum(shards["truncated"].to_pylist()), level)
            results |= {"num_unanswered": int((~answered).sum())} if is_judged else {}
            measured["prompts" if name == "prompts" else "replies"] = results
        if name != "prompts":
            remains = np.isin(kept.ids, turns[-1].ids)
            flags = offensive >= measured["replies"]["threshold"]
            flagged.append(FlaggedReplies(chosen_replies(kept, remains), flags[remains]))
    if len(flagged) > 1:
        measured["turns"] = turn_shares(flagged, run.confidence_level)
    return measured


def offensiveness_results(
    texts: Replies, probabilities: np.ndarray, num_truncated: int, confidence_level: float | None = None
) -> dict[str, Any]:
    """Computes the values for results.json. The shares have intervals if `confidence_level` is set, as for replies."""
    results = offensiveness(probabilities, texts.descriptors, texts.templates, texts.axes)
    if confidence_level is not None:
        flagged = FlaggedReplies(texts, probabilities >= results["threshold"])
        results["shares"] = reply_shares(flagged, confidence_level)
    return {**results, "num_truncated": num_truncated}
