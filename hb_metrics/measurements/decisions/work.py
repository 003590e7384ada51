from typing import Any, NamedTuple

import pyarrow as pa

from hb_dataset.filled_prompts import baseline_person, default_noun_rows, own_prompt_table
from hb_dataset.own_prompts import SHIPPED, Choice, FreeText, OwnPrompt, own_rows, read_own_prompts
from hb_dataset.prompts import config_vocabulary
from hb_metrics.collect.classifiers.styles import load_style_classifier
from hb_metrics.collect.judges.rubric import read_rubric
from hb_metrics.collect.replies.cues import check_cue
from hb_metrics.collect.replies.decoding_settings import decoding_preset
from hb_metrics.collect.replies.requests import make_requests
from hb_metrics.collect.scoring.options import OptionPlan, plan_options
from hb_metrics.collect.scoring.scoring_shards import score_into_shards
from hb_metrics.collect.scoring.served_options import ServedOptionPlan
from hb_metrics.measurements.decisions.answers import DECISIONS, FILLED_FILE, OPTIONS, QUESTIONS_FILE
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.judge.options import JudgeOptions
from hb_metrics.measurements.measurement import Task
from hb_metrics.measurements.own_prompts import own_people, own_prompts
from hb_metrics.measurements.settings import Settings
from hb_metrics.models.chats import ChatOptions, chat_messages
from hb_metrics.run.run_folder import table_digest, write_table
from hb_metrics.stats.decisions import MIN_QUESTIONS


class DecisionWork(NamedTuple):
    """The prompts that ask for a decision and, unless decisions are read from replies, the options to score.

    `scoring_reason` explains how options are scored, or why a server does not score them.
    """

    prompts: list[OwnPrompt]
    filled: pa.Table | None = None
    plan: OptionPlan | ServedOptionPlan | None = None
    scoring: str | None = None
    scoring_reason: str | None = None


def read_files(settings: Settings, prompts: pa.Table) -> list[OwnPrompt]:
    run = settings.run
    known = read_own_prompts(SHIPPED) if run.prompts is None else own_prompts(settings)
    asked = [prompt for prompt in known if prompt.outcome]
    if not asked:
        raise ValueError(
            f"measurement 'decisions' needs prompts with an outcome, but no row of '{run.prompts}' has one; add the "
            "column outcome (such as 'choice: yes | no') and the column favourable, or remove decisions from "
            "--measurements"
        )
    return quick_sample(asked) if run.prompts is None and run.quick else asked


def quick_sample(prompts: list[OwnPrompt]) -> list[OwnPrompt]:
    """Selects one prompt in each of the first topics: the first one, where "yes" is favourable, or the last ("no")."""
    by_topic: dict[str | None, list[OwnPrompt]] = {}
    for prompt in prompts:
        if prompt.more["wording"] == "1":
            by_topic.setdefault(prompt.topic, []).append(prompt)
    return [of_topic[-(number % 2)] for number, of_topic in enumerate(list(by_topic.values())[:MIN_QUESTIONS])]


def orders_of(prompts: list[OwnPrompt], *, is_quick: bool) -> dict[int, list[OwnPrompt]]:
    """Returns the prompts with each order of the options. In a quick trial, each prompt has one of the two orders."""
    if not is_quick:
        return {0: prompts, 1: prompts}
    return {order: [prompt for row, prompt in enumerate(prompts) if row // 2 % 2 == order] for order in (0, 1)}


def plan(task: Task, prompts: list[OwnPrompt]) -> DecisionWork:
    engine, written = task.engine, [prompt.id for prompt in prompts if not isinstance(prompt.outcome, Choice)]
    if written and len(written) < len(prompts) and engine.loaded is not None:
        raise ValueError(
            f"the rows with numbers or texts as outcomes (such as '{written[0]}') are read from replies, and the rows "
            "with choices from probabilities; put them into two files, and measure each"
        )
    work, why = DecisionWork(prompts), "not all outcomes are choices"
    if not written:
        work, why = _plan_options(task, prompts) if engine.gives_options else work, "the model does not run here"
        if work.plan is not None:
            return work
        why = work.scoring_reason or why
    if "generation" not in task.measurements or task.settings.run.prompts is None:
        raise ValueError(
            f"measurement 'decisions' is read from replies, because {why}; set --prompts to a file (or to "
            "'decisions'), and add generation to --measurements"
        )
    _check_labels(task, {prompt.outcome.favourable for prompt in prompts if isinstance(prompt.outcome, FreeText)})
    return work


def _check_labels(task: Task, favourable: set[str]) -> None:
    """Checks that one judge, or the style classifier, assigns each favourable label of texts."""
    if not favourable:
        return
    known = [label for name in task.settings.of(JudgeOptions).judge or [] for label in read_rubric(name).labels]
    if not favourable <= {*known}:
        classifier = task.settings.of(GenerationOptions).style_classifier
        known += load_style_classifier(classifier, **task.classifier_options()).labels
    for label in sorted(favourable):
        if known.count(label) != 1:
            raise ValueError(
                f"the favourable label '{label}' is a label of {known.count(label)} judges or classifiers; set --judge "
                "to one rubric with this label, or --style_classifier to a classifier with it"
            )


def _plan_options(task: Task, prompts: list[OwnPrompt]) -> DecisionWork:
    """Prepares each prompt with each term, or name, and without one, in both orders of its options."""
    settings, engine = task.settings, task.engine
    shared, options = settings.run, settings.of(GenerationOptions)
    vocabulary = config_vocabulary(shared.dataset_config, shared.vocabulary_dir)
    people = default_noun_rows(own_people(settings, prompts, vocabulary))
    people += default_noun_rows([baseline_person(noun) for noun in vocabulary.nouns])
    asked = orders_of(prompts, is_quick=shared.prompts is None and shared.quick)
    filled = pa.concat_tables([own_prompt_table(of_order, people, order=order) for order, of_order in asked.items()])
    layout = engine.layout(context=shared.context, tag=shared.tag, chat=ChatOptions(**shared.chat()))
    decoding = decoding_preset("greedy", None, "whole")  # it has no effect, because nothing is generated
    requests = make_requests(filled, decoding=decoding, chat=layout.chat, tag=layout.tag, cue=options.cue)
    check_cue(options.cue, layout.context, layout.context_reason)
    for row, (axis, question) in enumerate(
        zip(filled["axis"].to_pylist(), filled["question"].to_pylist(), strict=True)
    ):
        if axis is None and question is not None:  # nobody introduces themselves
            requests.messages[row] = chat_messages(question, [], layout.chat)
    by_id = {prompt.id: prompt.outcome.options for prompt in prompts if isinstance(prompt.outcome, Choice)}
    choices = [by_id[identifier] for identifier in filled["own_id"].to_pylist()]
    if engine.loaded is not None:
        found = plan_options(requests.ids, requests.messages, choices, engine.loaded, layout)
        return DecisionWork(prompts, filled, found, found.scoring.scoring, found.scoring.scoring_reason)
    served = engine.plan_options(requests, layout, choices)
    if isinstance(served, str):
        return DecisionWork(prompts, scoring_reason=served)
    return DecisionWork(prompts, filled, served, served.scoring, served.scoring_reason)


def describe(work: DecisionWork) -> dict[str, Any]:
    labels = sorted({prompt.outcome.favourable for prompt in work.prompts if isinstance(prompt.outcome, FreeText)})
    return {
        "decisions": {
            "answers": "replies" if work.plan is None else "probabilities",
            "num_prompts": len(work.prompts),
            "digest": table_digest(own_rows(work.prompts)),
            "scoring": work.scoring,
            "scoring_reason": work.scoring_reason,
            **({"labels": labels} if labels else {}),
        }
    }


def collect(task: Task, work: DecisionWork) -> None:
    folder = task.folder / DECISIONS
    if task.state.is_main_process:
        folder.mkdir(exist_ok=True)
        write_table(folder / QUESTIONS_FILE, own_rows(work.prompts))
        if work.filled is not None:
            write_table(folder / FILLED_FILE, work.filled)
    task.state.wait_for_everyone()
    if isinstance(work.plan, ServedOptionPlan):
        task.engine.score_options(work.plan, folder / OPTIONS)
    elif work.plan is not None:
        score_into_shards(
            work.plan.scoring,
            work.plan.columns,
            folder / OPTIONS,
            task.loaded.model,
            scores=["log_likelihood"],
            inputs=list(zip(work.plan.columns["text"], work.plan.columns["form"], strict=True)),
            label="decisions",
            unit="option",
        )
