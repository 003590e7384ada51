"""Reads the answers of a run as decisions: from the probabilities of options, or from replies.

The decision in free text is the probability of the favourable label, which a judge or the style classifier assigned.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hb_dataset.own_prompts import Choice, FreeText, OwnPrompt, Scale, stored_prompts
from hb_metrics.layout.numbers import share
from hb_metrics.measurements.results import Run
from hb_metrics.reply_checks.answers import read_choice, read_number
from hb_metrics.reply_checks.english import is_english
from hb_metrics.reply_checks.first_tokens import option_masses
from hb_metrics.reply_checks.refusal_rules import match_rules, read_refusal_rules
from hb_metrics.run.replies import LeftOutError, with_questions
from hb_metrics.run.run_folder import JUDGE, STYLES
from hb_metrics.run.schema import by_id, rows_of

DECISIONS = "decisions"  # the subfolder of the run's folder
QUESTIONS_FILE, FILLED_FILE = "questions.parquet", "prompts.parquet"
OPTIONS = "options"  # shards: the log-likelihood of each option
_OF_TOKENS = ["id", "tokens", "log_probabilities"]  # of servers, which give the likeliest tokens


class About(NamedTuple):
    """The columns of a filled prompt that an answer keeps: its first attributes."""

    own_id: str
    axis: str | None
    descriptor: str | None
    bucket: str | None
    order: int


class Answer(NamedTuple):
    """The answer to a filled prompt.

    Attributes:
        own_id: The id of the prompt in the file of prompts.
        axis: The axis, or `None` if the prompt is about nobody in particular.
        group: The name's group.
        order: 1 if the options were listed in reverse order.
        value: The decision from 0 to 1, where 1 is favourable. `None` if the answer contains no decision.
        mass: The probability that the options have together, if decisions are probabilities.
        shown: The answer for readers.
    """

    own_id: str
    axis: str | None
    term: str | None
    group: str | None
    order: int
    value: float | None
    is_refusal: bool
    mass: float | None
    prompt: str
    shown: str


def read_answers(run: Run) -> tuple[list[OwnPrompt], list[Answer]]:
    table = run.tables.inside(DECISIONS).read(QUESTIONS_FILE, ("id", "prompt", "outcome", "favourable"))
    prompts = stored_prompts(table)
    if run.record.decisions.answers == "probabilities":
        return prompts, _from_probabilities(run, prompts)
    return prompts, _from_replies(run, prompts)


def _from_probabilities(run: Run, prompts: Sequence[OwnPrompt]) -> list[Answer]:
    outcomes = {prompt.id: prompt.outcome for prompt in prompts}
    tables = run.tables.inside(DECISIONS)
    filled = tables.read(FILLED_FILE, ("id", "text", "question", *About._fields))
    has_tokens = (run.record.decisions.scoring or "").endswith("tokens")
    stored = tables.read(OPTIONS, _OF_TOKENS if has_tokens else _Option._fields)
    tokens, log_probabilities = (by_id(stored, name) if has_tokens else {} for name in _OF_TOKENS[1:])
    masses = {} if has_tokens else option_probabilities(stored)
    answers = []
    for identifier, about, shown in zip(filled["id"].to_pylist(), rows_of(filled, About), _shown(filled), strict=True):
        outcome = outcomes[about.own_id]
        assert isinstance(outcome, Choice)
        if has_tokens:
            pairs = zip(tokens[identifier], log_probabilities[identifier], strict=True)
            of_options = option_masses(pairs, outcome.options) or {}
        else:
            of_options = masses[identifier]
        total = sum(of_options.values())
        value = of_options[outcome.favourable] / total if total else None
        words = ", ".join(f"{option}: {share(mass, 0)}" for option, mass in of_options.items())
        mass = total if of_options else None
        answers.append(Answer(*about, value, False, mass, shown, f"probability of {words or 'no option'}"))
    return answers


class _Option(NamedTuple):
    prompt_id: str
    option: str
    form: str
    log_likelihood: float


def option_probabilities(table: pa.Table) -> dict[str, dict[str, float]]:
    """Returns the probability of each option by prompt id: {prompt id: {option: probability}}.

    `table` has the columns prompt_id, option, form and log_likelihood. The probabilities of an option's forms are
    added. If an option begins with another option, as "approve later" with "approve", its probability is subtracted
    from that of the shorter option, which contains it.
    """
    forms: dict[str, dict[tuple[str, str], float]] = {}
    for prompt, option, form, log_likelihood in rows_of(table, _Option):
        forms.setdefault(prompt, {})[option, form] = float(np.exp(log_likelihood))
    by_prompt: dict[str, dict[str, float]] = {}
    for prompt, masses in forms.items():
        of_prompt = by_prompt.setdefault(prompt, {})
        for (option, form), mass in masses.items():
            longer = [other for _, other in masses if other != form and other.startswith(form)]
            # Of "approve later" and "approve later today", only the shorter one is subtracted: it contains the longer.
            outer = [long for long in longer if not any(long != short and long.startswith(short) for short in longer)]
            inside = sum(value for (_, other), value in masses.items() if other in outer)
            of_prompt[option] = of_prompt.get(option, 0.0) + max(mass - inside, 0.0)
    return by_prompt


def _from_replies(run: Run, prompts: Sequence[OwnPrompt]) -> list[Answer]:
    outcomes = {prompt.id: prompt.outcome for prompt in prompts}
    english = {prompt.id for prompt in prompts if _is_english(prompt)}
    table = run.tables.reply_table(*About._fields)
    rules = read_refusal_rules()
    replies = [reply or "" for reply in table["reply"].to_pylist()]
    refused = match_rules(replies, rules).refusals >= 0
    labels = {outcome.favourable for outcome in outcomes.values() if isinstance(outcome, FreeText)}
    shares = {label: _label_probabilities(run, label) for label in labels}
    answers = []
    rows = zip(table["id"].to_pylist(), rows_of(table, About), replies, refused, _shown(table), strict=True)
    for identifier, about, reply, is_refused, shown in rows:
        outcome = outcomes.get(about.own_id)
        if outcome is not None:
            if isinstance(outcome, FreeText):
                value = shares[outcome.favourable].get(identifier)
            else:  # "No. I can't answer that." is no decision
                is_english = about.own_id in english
                value = None if is_refused else decision_in(reply, outcome, shown, is_english=is_english)
            answers.append(Answer(*about, value, value is None and bool(is_refused), None, shown, reply))
    return answers


def _label_probabilities(run: Run, label: str) -> dict[str, float]:
    """Returns the probability of a label by reply id, without the replies for which a judge gave no answer."""
    name = _rubric_of(run, label)
    source = "generation" if name is None else "judge"
    if source not in run.results.measured:
        raise LeftOutError(f"it reads the labels of {source}, which are missing")
    if name is None:
        ids, values = run.tables.vectors(STYLES)
        column = run.record.style_classifier.labels.index(label)
        return dict(zip(ids, values[:, column].tolist(), strict=True))
    ids, values = run.tables.vectors(f"{JUDGE}/{name}")
    column = run.record.judge[name].rubric["labels"].index(label)
    return {ids[row]: float(values[row, column]) for row in np.flatnonzero(values[:, -1] == 0)}


def _rubric_of(run: Run, label: str) -> str | None:
    """Returns the name of the first rubric with a label, or `None` if it is a label of the style classifier."""
    judges = run.record.judge if "judge" in run.record.content else {}
    return next((name for name, judge in judges.items() if label in judge.rubric["labels"]), None)


def labelled_by(run: Run, prompts: Sequence[OwnPrompt]) -> dict[str, str | None]:
    """Returns the digest of the judge or classifier that decided whether free text has each favourable label."""
    digests: dict[str, str | None] = {}
    for label in {prompt.outcome.favourable for prompt in prompts if isinstance(prompt.outcome, FreeText)}:
        name = _rubric_of(run, label)
        digests[label] = (run.record.style_classifier if name is None else run.record.judge[name]).digest
    return digests


def _is_english(prompt: OwnPrompt) -> bool:
    return is_english(prompt.own_words, prompt.outcome.options if isinstance(prompt.outcome, Choice) else ())


def decision_in(reply: str, outcome: Choice | Scale, prompt: str = "", *, is_english: bool = True) -> float | None:
    """Returns the decision in a reply, from 0 (unfavourable) to 1 (favourable), or `None` if there is none."""
    if isinstance(outcome, Choice):
        option = read_choice(reply, outcome.options, prompt, is_english=is_english)
        return None if option is None else float(option == outcome.favourable)
    number = read_number(reply, outcome.low, outcome.high, prompt, is_english=is_english)
    if number is None:
        return None
    part = (number - outcome.low) / (outcome.high - outcome.low)
    return part if outcome.higher_is_favourable else 1 - part


def _shown(table: pa.Table) -> list[str]:
    return with_questions(table["text"].to_pylist(), table["question"].to_pylist())
