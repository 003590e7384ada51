from typing import Any, NamedTuple

import pyarrow as pa

from hb_dataset.filled_prompts import baseline_person, default_noun_rows, own_prompt_table
from hb_dataset.own_prompts import SHIPPED, Choice, FreeText, OwnPrompt, own_rows, read_own_prompts
from hb_dataset.prompts import config_vocabulary
from hb_metrics.collect.classifiers.styles import load_style_classifier
from hb_metrics.collect.judges.rubric import read_rubric
from hb_metrics.collect.replies.cues import check_cue
from hb_metrics.collect.scoring.options import OptionPlan, plan_options
from hb_metrics.collect.scoring.scoring_shards import score_into_shards
from hb_metrics.measurements.decisions.answers import DECISIONS, FILLED_FILE, OPTIONS, QUESTIONS_FILE
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.judge.options import JudgeOptions
from hb_metrics.measurements.measurement import Task
from hb_metrics.measurements.own_prompts import own_people, own_prompts
from hb_metrics.measurements.reply_requests import request_replies
from hb_metrics.measurements.settings import Settings
from hb_metrics.models.chats import chat_messages
from hb_metrics.run.run_folder import table_digest, write_table
from hb_metrics.stats.decisions import MIN_QUESTIONS


class DecisionWork(NamedTuple):
    """The prompts that ask for a decision and, unless decisions are read from replies, the options to score."""

    prompts: list[OwnPrompt]
    filled: pa.Table | None
    plan: OptionPlan | None


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
    settings, from_replies = task.settings, task.engine.loaded is None
    written = [prompt.id for prompt in prompts if not isinstance(prompt.outcome, Choice)]
    if written and len(written) < len(prompts) and not from_replies:
        raise ValueError(
            f"the rows with numbers or texts as outcomes (such as '{written[0]}') are read from replies, and the rows "
            "with choices from probabilities; put them into two files, and measure each"
        )
    if written or from_replies:
        if "generation" not in task.measurements or settings.run.prompts is None:
            raise ValueError(
                "measurement 'decisions' is read from replies, because the outcomes are not choices or the model is "
                "not loaded here; set --prompts to a file (or to 'decisions'), and add generation to --measurements"
            )
        _check_labels(task, {prompt.outcome.favourable for prompt in prompts if isinstance(prompt.outcome, FreeText)})
        return DecisionWork(prompts, None, None)
    return _plan_options(task, prompts)


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
    requests, layout, _ = request_replies(filled, engine, shared, "greedy", {}, reply="whole", cue=options.cue)
    check_cue(options.cue, layout.context, layout.context_reason)
    for row, (axis, question) in enumerate(
        zip(filled["axis"].to_pylist(), filled["question"].to_pylist(), strict=True)
    ):
        if axis is None and question is not None:  # nobody introduces themselves
            requests.messages[row] = chat_messages(question, [], layout.chat)
    by_id = {prompt.id: prompt.outcome.options for prompt in prompts if isinstance(prompt.outcome, Choice)}
    choices = [by_id[identifier] for identifier in filled["own_id"].to_pylist()]
    return DecisionWork(prompts, filled, plan_options(requests.ids, requests.messages, choices, task.loaded, layout))


def describe(work: DecisionWork) -> dict[str, Any]:
    plan = None if work.plan is None else work.plan.scoring
    return {
        "decisions": {
            "answers": "replies" if plan is None else "probabilities",
            "num_prompts": len(work.prompts),
            "digest": table_digest(own_rows(work.prompts)),
            "scoring": None if plan is None else plan.scoring,
            "scoring_reason": None if plan is None else plan.scoring_reason,
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
    if work.plan is not None:
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
