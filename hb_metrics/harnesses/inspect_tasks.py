from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar

import anyio
import numpy as np
from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import get_model
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, metric, scorer
from inspect_ai.solver import TaskState, generate

from hb_dataset.own_prompts import Choice
from hb_metrics.harnesses.figures import (
    ClassifiedReplies,
    classify_replies,
    decision_figures,
    gen_bias_figures,
    load_classifiers,
    offensiveness_figures,
)
from hb_metrics.harnesses.rows import DecisionRow, PromptRow, decision_rows, prompt_rows
from hb_metrics.measurements.decisions.answers import decision_in
from hb_metrics.run.replies import is_empty

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass(eq=False)
class _Waiting:
    request: Any
    answer: Any = None  # an exception is raised


def in_batches(
    answer_all: Callable[[list[Request]], Sequence[Answer]],
) -> Callable[[Request], Awaitable[Answer]]:
    """Returns an async function that answers a request together with all other waiting requests.

    `answer_all` runs in a thread, one call at a time. If it raises an error, every request in this call raises the
    error.
    """
    waiting: list[_Waiting] = []
    lock = anyio.Lock()

    async def answer(request: Request) -> Answer:
        mine = _Waiting(request)
        waiting.append(mine)
        async with lock:
            if mine in waiting:  # otherwise, another call has answered this request in the meantime
                batch = waiting.copy()
                waiting.clear()
                answers: Sequence[Any]
                try:
                    answers = await anyio.to_thread.run_sync(answer_all, [other.request for other in batch])
                except Exception as error:  # noqa: BLE001 - each request raises the error below
                    answers = [error] * len(batch)
                except BaseException:  # this request was cancelled, so another one asks for the rest
                    waiting[:0] = [other for other in batch if other is not mine]
                    raise
                for other, given in zip(batch, answers, strict=True):
                    other.answer = given
        if isinstance(mine.answer, Exception):
            raise mine.answer
        result: Answer = mine.answer
        return result

    return answer


_DIGITS = 4  # the number of digits that the viewer displays
_NUM_STYLES = 3  # the number of styles that the viewer displays beside a reply

# The keys of a score's metadata, which the metrics read.
_STYLES, _OFFENSIVENESS = "style_probabilities", "offensiveness"
_DECISION = "decision"
R = TypeVar("R")
_TEMPERATURE = "temperature"  # null means the model's default


def gen_bias_task(classifiers: Mapping[str, object], **options: Any) -> Task:
    """Returns the task of generation bias.

    `classifiers` contains the arguments of `load_classifiers`, and `options` select the prompts.
    """
    return Task(
        dataset=_dataset(prompt_rows(replied=True, **options)), solver=generate(), scorer=reply_styles(**classifiers)
    )


def decisions_task(**options: Any) -> Task:
    """Returns the task of decisions. `options` are those of `decision_rows`."""
    return Task(dataset=_dataset(decision_rows(**options)), solver=generate(), scorer=reply_decisions())


def _dataset(rows: Sequence[PromptRow | DecisionRow]) -> MemoryDataset:
    samples = []
    for row in rows:
        metadata = {name: value for name, value in row._asdict().items() if name not in ("id", "text")}
        metadata = {name: value for name, value in metadata.items() if value is not None}
        samples.append(Sample(id=row.id, input=row.text, metadata=metadata))
    return MemoryDataset(samples, name="holistic_bias")


def _row(kind: type[R], metadata: Mapping[str, Any] | None) -> R:
    """Returns the prompt that a sample's metadata describe, without its id and its text."""
    whole: Any = kind
    return whole(**dict.fromkeys(whole._fields) | dict(metadata or {}))


def _figures(compute: Callable[[list[SampleScore]], dict[str, float | None]]) -> Callable[[list[SampleScore]], Value]:
    def figures(scores: list[SampleScore]) -> Value:
        known = compute(scores) if scores else {}
        return {name: value for name, value in known.items() if value is not None}

    return figures


@metric(scores="unreduced")  # each epoch is another reply to the same prompt
def gen_bias() -> Metric:
    return _figures(lambda scores: gen_bias_figures(_replies(scores), list(_kept(scores[0], _STYLES))))


@metric(scores="unreduced")
def offensive_replies() -> Metric:
    return _figures(lambda scores: offensiveness_figures(_replies(scores)))


def _replies(scores: Sequence[SampleScore]) -> ClassifiedReplies:
    scores = _once_each(scores)
    return ClassifiedReplies(
        [_row(PromptRow, score.sample_metadata) for score in scores],
        np.array([list(_kept(score, _STYLES).values()) for score in scores], np.float32),
        np.array([_kept(score, _OFFENSIVENESS) for score in scores], np.float64),
    )


def _once_each(scores: Sequence[SampleScore]) -> Sequence[SampleScore]:
    """Keeps one reply per prompt if the model did not sample, because identical replies would hide noise."""
    distinct = {(score.sample_id, score.score.answer): score for score in scores}
    is_greedy = all((score.score.metadata or {}).get(_TEMPERATURE) == 0 for score in scores)
    if is_greedy or len(distinct) == len({score.sample_id for score in scores}):
        return list(distinct.values())
    return scores


def _kept(score: SampleScore, name: str) -> Any:
    return (score.score.metadata or {})[name]


@metric(scores="unreduced")
def decision_differences() -> Metric:
    def compute(scores: list[SampleScore]) -> dict[str, float | None]:
        kept = _once_each(scores)
        rows = [_row(DecisionRow, score.sample_metadata) for score in kept]
        return decision_figures(rows, [_kept(score, _DECISION) for score in kept])

    return _figures(compute)


@scorer(metrics=[decision_differences()])
def reply_decisions() -> Scorer:
    """Scores a reply with its decision: 1 is favourable. Replies without a decision are counted and not guessed."""

    async def score(state: TaskState, target: Target) -> Score:
        row, reply = _row(DecisionRow, state.metadata), state.output.completion
        value = decision_in(reply, Choice(tuple(row.options), row.favourable), state.input_text)
        shown = {"axis": row.axis, "descriptor": row.descriptor, _DECISION: value}
        return Score(
            value=shown, answer=reply, metadata={_DECISION: value, _TEMPERATURE: get_model().config.temperature}
        )

    return score


@scorer(metrics=[gen_bias(), offensive_replies()])
def reply_styles(
    style_classifier: str = "embedded",
    offensiveness_classifier: str = "embedded",
    judge_model: str = "embedded",
    judge_base_url: str | None = None,
) -> Scorer:
    """Scores a reply with its style vector and its probability of being offensive. See `load_classifiers`."""
    names = (style_classifier, offensiveness_classifier, judge_model, judge_base_url)
    classifiers = cache(partial(load_classifiers, *names))

    def classify(asked: list[tuple[PromptRow, str]]) -> list[tuple[list[float], float | None]]:
        replies = classify_replies([row for row, _ in asked], [reply for _, reply in asked], classifiers())
        known = [None if np.isnan(value) else value for value in replies.offensiveness.tolist()]
        return list(zip(replies.styles.tolist(), known, strict=True))

    classified = in_batches(classify)

    async def score(state: TaskState, target: Target) -> Score:
        row, reply = _row(PromptRow, state.metadata), state.output.completion
        if is_empty(reply):
            return Score.unscored(reason="no_response", answer=reply, explanation="an empty reply, which is left out")
        styles, offensiveness = await classified((row, reply))
        probabilities = dict(zip(classifiers().styles.labels, styles, strict=True))
        likeliest = sorted(probabilities, key=lambda style: -probabilities[style])[:_NUM_STYLES]
        return Score(
            value={
                "axis": row.axis,
                "descriptor": row.descriptor,
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
