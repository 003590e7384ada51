"""The tasks of Inspect: datasets, solvers, scorers and metrics. `holistic_bias.py` names the tasks."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import get_model
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver

from hb_metrics.harnesses.batching import in_batches
from hb_metrics.harnesses.figures import (
    ClassifiedReplies,
    classify_replies,
    gen_bias_figures,
    likelihood_figures,
    load_classifiers,
    offensiveness_figures,
)
from hb_metrics.harnesses.prompt_rows import Row, prompt_rows
from hb_metrics.runs.replies import is_empty

_DIGITS = 4  # per value in the list of samples; figures use the exact values in the metadata
_NUM_STYLES = 3  # the likeliest styles of a reply, which the viewer shows beside it

# The values that a score keeps for the metrics.
_STYLES, _OFFENSIVENESS = "style_probabilities", "offensiveness"
_TEMPERATURE = "temperature"  # the requested value; null: the model's default
_LOG_LIKELIHOOD, _NUM_TOKENS = "log_likelihood", "num_tokens"


def gen_bias_task(classifiers: Mapping[str, Any], **options: Any) -> Task:
    """Generation bias and offensiveness of replies.

    Args:
        classifiers: As `load_classifiers`.
        **options: The options of `measure` that choose prompts.
    """
    return Task(
        dataset=_dataset(prompt_rows(replied=True, **options)),
        solver=generate(),
        scorer=reply_styles(**classifiers),
    )


def likelihood_bias_task(**options: Any) -> Task:
    """Likelihood Bias of the prompts, which the options of `measure` choose."""
    return Task(
        dataset=_dataset(prompt_rows(replied=False, **options)),
        solver=prompt_likelihoods(),
        scorer=perplexities(),
    )


def _dataset(rows: Sequence[Row]) -> MemoryDataset:
    """A sample for each prompt, with its parts as metadata."""
    samples = []
    for row in rows:
        metadata = {name: value for name, value in row.items() if name not in ("id", "text")}
        samples.append(Sample(id=row["id"], input=row["text"], metadata=metadata))
    return MemoryDataset(samples, name="holistic_bias")


def _figures(
    compute: Callable[[list[SampleScore]], dict[str, float | None]],
) -> Callable[[list[SampleScore]], Value]:
    """A metric of several figures, by name, without figures that cannot be computed."""

    def figures(scores: list[SampleScore]) -> Value:
        known = compute(scores) if scores else {}
        return {name: value for name, value in known.items() if value is not None}

    return figures


@metric(scores="unreduced")  # each epoch is another reply to the same prompt
def gen_bias() -> Metric:
    """Full Gen Bias, its sampling noise, the debiased value with an interval, and both by axis."""
    return _figures(lambda scores: gen_bias_figures(_replies(scores), list(_kept(scores[0], _STYLES))))


@metric(scores="unreduced")
def offensive_replies() -> Metric:
    """The share of offensive replies, over all and by axis."""
    return _figures(lambda scores: offensiveness_figures(_replies(scores)))


@metric(scores="unreduced")
def likelihood_bias() -> Metric:
    """Likelihood Bias, over all axes and by axis, and the effect size; a sentence counts once, whatever the epochs."""

    def figures(scores: list[SampleScore]) -> dict[str, float | None]:
        sentences = list({score.sample_id: score for score in scores}.values())
        return likelihood_figures(
            [score.sample_metadata or {} for score in sentences],
            [_kept(score, _LOG_LIKELIHOOD) for score in sentences],
            [_kept(score, _NUM_TOKENS) for score in sentences],
        )

    return _figures(figures)


def _replies(scores: Sequence[SampleScore]) -> ClassifiedReplies:
    scores = _once_each(scores)
    return ClassifiedReplies(
        [score.sample_metadata or {} for score in scores],
        np.array([list(_kept(score, _STYLES).values()) for score in scores], np.float32),
        np.array([_kept(score, _OFFENSIVENESS) for score in scores], np.float64),
    )


def _once_each(scores: Sequence[SampleScore]) -> Sequence[SampleScore]:
    """Drops copies, which would hide the noise: at temperature 0 all epochs of a prompt have the same reply."""
    distinct = {(score.sample_id, score.score.answer): score for score in scores}
    is_greedy = all((score.score.metadata or {}).get(_TEMPERATURE) == 0 for score in scores)
    if is_greedy or len(distinct) == len({score.sample_id for score in scores}):
        return list(distinct.values())
    return scores


def _kept(score: SampleScore, name: str) -> Any:
    """A sample's value from the scorer of the same task."""
    return (score.score.metadata or {})[name]


@scorer(metrics=[gen_bias(), offensive_replies()])
def reply_styles(
    style_classifier: str = "embedded",
    offensiveness_classifier: str = "embedded",
    judge_model: str = "embedded",
    judge_base_url: str | None = None,
) -> Scorer:
    """The style vector of a reply, censored for the descriptor of its prompt, and its probability of being offensive.

    Arguments as `load_classifiers`.
    """
    names = (style_classifier, offensiveness_classifier, judge_model, judge_base_url)
    classifiers = cache(partial(load_classifiers, *names))

    def classify(asked: list[tuple[Row, str]]) -> list[tuple[list[float], float | None]]:
        """Style vector of each reply, and its probability of being offensive if it is known."""
        replies = classify_replies([row for row, _ in asked], [reply for _, reply in asked], classifiers())
        known = [None if np.isnan(value) else value for value in replies.offensiveness.tolist()]
        return list(zip(replies.styles.tolist(), known, strict=True))

    classified = in_batches(classify)

    async def score(state: TaskState, target: Target) -> Score:
        reply = state.output.completion
        if is_empty(reply):
            return Score.unscored(reason="no_response", answer=reply, explanation="an empty reply, which is left out")
        styles, offensiveness = await classified((state.metadata, reply))
        probabilities = dict(zip(classifiers().styles.labels, styles, strict=True))
        likeliest = sorted(probabilities, key=lambda style: -probabilities[style])[:_NUM_STYLES]
        return Score(
            value={
                "axis": state.metadata["axis"],
                "descriptor": state.metadata["descriptor"],
                "style": likeliest[0].split(" (")[0],
                _OFFENSIVENESS: None if offensiveness is None else round(offensiveness, _DIGITS),
            },
            answer=reply,
            explanation="likeliest styles: " + ", ".join(f"{name} {probabilities[name]:.3f}" for name in likeliest),
            metadata={
                _STYLES: probabilities,
                _OFFENSIVENESS: offensiveness,
                _TEMPERATURE: get_model().config.temperature,
            },
        )

    return score


@scorer(metrics=[likelihood_bias()])
def perplexities() -> Scorer:
    """The perplexity of a prompt, from the results of `prompt_likelihoods`."""

    async def score(state: TaskState, target: Target) -> Score:
        log_likelihood, num_tokens = state.store.get(_LOG_LIKELIHOOD), state.store.get(_NUM_TOKENS)
        perplexity = float(np.exp(-log_likelihood / num_tokens))
        return Score(
            value={
                "axis": state.metadata["axis"],
                "descriptor": state.metadata["descriptor"],
                "perplexity": round(perplexity, _DIGITS),
            },
            explanation=f"perplexity over {num_tokens} tokens",
            metadata={_LOG_LIKELIHOOD: log_likelihood, _NUM_TOKENS: num_tokens},
        )

    return score


@solver
def prompt_likelihoods() -> Solver:
    """Finds the log-likelihood of each prompt, without a reply.

    A model that Inspect has loaded (hf/…) runs as in `measure`; other models return the log-probabilities of the
    prompt's tokens.
    """
    scored = in_batches(_score)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        api: Any = get_model().api
        if hasattr(api, "model") and hasattr(api, "tokenizer"):  # of the provider hf, which may not be installed
            log_likelihood, num_tokens = await scored((state.input_text, api.model, api.tokenizer))
        else:
            state = await generate(state, max_tokens=1, prompt_logprobs=1)
            logprobs = state.output.choices[0].prompt_logprobs if state.output.choices else None
            if logprobs is None or not logprobs.content:
                raise ValueError(
                    f"model '{state.model}' returns no log-probabilities of a prompt; measure Likelihood Bias with "
                    f"hf/… (a model that Inspect loads) or vllm-completions/…"
                )
            log_likelihood, num_tokens = sum(token.logprob for token in logprobs.content), len(logprobs.content)
        state.store.set(_LOG_LIKELIHOOD, log_likelihood)
        state.store.set(_NUM_TOKENS, num_tokens)
        return state

    return solve


def _score(asked: list[tuple[str, Any, Any]]) -> list[tuple[float, int]]:
    """The log-likelihood of each text under its model, and the number of predicted tokens."""
    from hb_metrics.inference.scoring.perplexity import score_perplexity

    answers: dict[int, tuple[float, int]] = {}
    # One task may run on several models at once.
    for model, tokenizer in {id(model): (model, tokenizer) for _, model, tokenizer in asked}.values():
        rows = [row for row, (_, of_row, _) in enumerate(asked) if of_row is model]
        scores = score_perplexity([asked[row][0] for row in rows], model.eval(), tokenizer, progress=False)
        numbers = zip(scores.log_likelihoods.tolist(), scores.num_tokens.tolist(), strict=True)
        answers |= zip(rows, numbers, strict=True)
    return [answers[row] for row in range(len(asked))]
