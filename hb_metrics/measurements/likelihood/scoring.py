"""Measures Likelihood Bias: scores the prompts and tests all pairs of terms."""

from typing import Any

from hb_dataset.prompt_table import descriptor_noun_spans
from hb_metrics.inference.scoring.perplexity import MAX_POSITIONS, plan_perplexity
from hb_metrics.inference.scoring.pseudo_likelihood import plan_pseudo_log_likelihood
from hb_metrics.inference.scoring.scoring_shards import score_into_shards
from hb_metrics.inference.units import ScoringPlan
from hb_metrics.measurements.likelihood.options import LikelihoodOptions
from hb_metrics.measurements.likelihood.results import likelihood_results
from hb_metrics.measurements.measurement import Task

PERPLEXITIES = "perplexities"  # the folder of the shards

ONE_TERM_ERROR = (
    "measurement 'likelihood' compares the terms of an axis, and no axis has two in the same template; give prompts "
    "with more terms (--axes, --vocabulary_dir), or other --measurements"
)


def plan_scoring(task: Task) -> ScoringPlan:
    """Plans the scoring of all prompts.

    Raises:
        ValueError: There are no two terms to compare, or the model cannot score a prompt, such as one that is too long
            for it.
    """
    terms = task.prompts.group_by(["axis", "template"]).aggregate([("descriptor", "count_distinct")])
    if max(terms["descriptor_count_distinct"].to_pylist(), default=0) < 2:  # known before hours of scoring
        raise ValueError(ONE_TERM_ERROR)
    options, shared, loaded = task.settings.of(LikelihoodOptions), task.settings.run, task.loaded
    texts = task.prompts["text"].to_pylist()
    max_positions = MAX_POSITIONS if shared.max_positions is None else shared.max_positions
    if loaded.kind == "masked":
        spans = [(start, end) for start, end in descriptor_noun_spans(task.prompts).tolist()]
        return plan_pseudo_log_likelihood(texts, spans, loaded.model, loaded.tokenizer, max_positions=max_positions)
    return plan_perplexity(
        texts,
        loaded.model,
        loaded.tokenizer,
        scoring=shared.scoring,
        max_positions=max_positions,
        add_start_token=options.add_start_token,
        encoder_context=options.encoder_context,
    )


def describe_scoring(plan: ScoringPlan) -> dict[str, Any]:
    """The parts of the plan that the numbers depend on, if only by rounding, for run.json."""
    return {
        "path": plan.scoring,
        "reason": plan.scoring_reason,
        "start_token": plan.start_token,
        "positions": plan.positions,
        "predicted_tokens": int(plan.num_tokens.sum()),
    }


def measure_likelihood(task: Task, plan: ScoringPlan) -> dict[str, Any]:
    """Scores the prompts that are not on disk yet, and tests all pairs of terms.

    Returns:
        What `likelihood_results` returns; empty on all processes but the main one.
    """
    ids, texts = task.prompts["id"].to_pylist(), task.prompts["text"].to_pylist()
    scores = score_into_shards(plan, ids, texts, task.folder / PERPLEXITIES, task.loaded.model)
    if scores is None:
        return {}
    include_gendered = task.settings.of(LikelihoodOptions).include_gendered
    return likelihood_results(task.prompts, scores, task.settings.run.alpha, include_gendered)
