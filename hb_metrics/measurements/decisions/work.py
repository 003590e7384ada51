from functools import partial
from typing import Any

import pyarrow as pa

from hb_dataset.filled_prompts import baseline_person, default_noun_rows, own_prompt_table
from hb_dataset.own_prompts import SHIPPED, Choice, FreeText, OwnPrompt, own_rows, read_own_prompts
from hb_dataset.prompts import config_vocabulary
from hb_metrics.collect.classifiers.styles import load_style_classifier
from hb_metrics.collect.judges.rubric import read_rubric
from hb_metrics.collect.replies.cues import check_cue, cue_messages
from hb_metrics.measurements.decisions.answers import DECISIONS_FOLDER, FILLED_FILE, OPTIONS, QUESTIONS_FILE
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.judge.options import JudgeOptions
from hb_metrics.measurements.measurement import Planned, Task, label_options
from hb_metrics.measurements.own_prompts import orders_of, own_people, own_prompts, quick_sample
from hb_metrics.measurements.reply_requests import request_replies
from hb_metrics.measurements.settings import Settings
from hb_metrics.models.chats import with_system
from hb_metrics.run.plurals import table_digest
from hb_metrics.run.run_folder import write_table


def read_files(settings: Settings) -> list[OwnPrompt]:
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


def plan(task: Task, prompts: list[OwnPrompt]) -> Planned:
    engine, written = task.engine, [prompt.id for prompt in prompts if not isinstance(prompt.outcome, Choice)]
    if written and len(written) < len(prompts) and engine.loaded is not None:
        raise ValueError(
            f"the rows with numbers or texts as outcomes (such as '{written[0]}') are read from replies, and the rows "
            "with choices from probabilities; put them into two files, and measure each"
        )
    asked: dict[str, object] = {"num_prompts": len(prompts), "digest": table_digest(own_rows(prompts))}
    scores: Any = None
    if not written and engine.gives_options:
        filled, scores = _plan_options(task, prompts)
        if not isinstance(scores, str):
            how = {"scoring": scores.scoring, "scoring_reason": scores.scoring_reason}
            record = {"decisions": {"answers": "probabilities", **asked, **how}}
            return Planned(record, partial(collect, task, prompts, filled, scores))
    why = scores or ("not all outcomes are choices" if written else "the model does not run here")
    if "generation" not in task.measurements or task.settings.run.prompts is None:
        unset = "set --prompts to a file (or to 'decisions'), and " if task.settings.run.prompts is None else ""
        raise ValueError(
            f"measurement 'decisions' is read from replies, because {why}; {unset}add generation to --measurements"
        )
    favourable = _favourable_labels(prompts)
    labels = {"labels": sorted(favourable)} if favourable else {}
    record = {"decisions": {"answers": "replies", **asked, "scoring": None, "scoring_reason": scores, **labels}}
    return Planned(record, partial(collect, task, prompts, None, None))


def check_classifiers(settings: Settings) -> None:
    """Checks that one judge, or the style classifier, assigns each favourable label of texts."""
    favourable = _favourable_labels(read_files(settings))
    known = [label for name in settings.of(JudgeOptions).judge or [] for label in read_rubric(name).labels]
    if not favourable <= {*known}:
        classifier = settings.of(GenerationOptions).style_classifier
        known += load_style_classifier(classifier, **label_options(settings)).labels
    for label in sorted(favourable):
        if known.count(label) != 1:
            raise ValueError(
                f"the favourable label '{label}' is a label of {known.count(label)} judges or classifiers; set --judge "
                "to one rubric with this label, or --style_classifier to a classifier with it"
            )


def _favourable_labels(prompts: list[OwnPrompt]) -> set[str]:
    return {prompt.outcome.favourable for prompt in prompts if isinstance(prompt.outcome, FreeText)}


def _plan_options(task: Task, prompts: list[OwnPrompt]) -> tuple[pa.Table, Any]:
    """Prepares each prompt with each term, or name, and without one, in both orders of its options.

    Returns:
        The filled prompts, and the engine's plan to score the options, or the reason why a server does not score them.
    """
    settings, engine = task.settings, task.engine
    shared, options = settings.run, settings.of(GenerationOptions)
    vocabulary = config_vocabulary(shared.dataset_config, shared.vocabulary_dir)
    people = default_noun_rows(own_people(settings, prompts, vocabulary))
    people += default_noun_rows([baseline_person(noun) for noun in vocabulary.nouns])
    asked = orders_of(prompts, is_quick=shared.prompts is None and shared.quick)
    filled = pa.concat_tables([own_prompt_table(of_order, people, order=order) for order, of_order in asked.items()])
    # The decoding has no effect, because nothing is generated.
    requests, _ = request_replies(filled, engine, shared, "greedy", {}, reply="whole", cue=options.cue)
    layout = requests.layout
    check_cue(options.cue, layout)
    for row, (axis, question) in enumerate(
        zip(filled["axis"].to_pylist(), filled["question"].to_pylist(), strict=True)
    ):
        if axis is None and question is not None:  # nobody introduces themselves
            chat = with_system(layout.chat, filled["system"][row].as_py())
            requests.messages[row] = cue_messages("prompt", question, None, [], chat, layout.tag)
    by_id = {prompt.id: prompt.outcome.options for prompt in prompts if isinstance(prompt.outcome, Choice)}
    choices = [by_id[identifier] for identifier in filled["own_id"].to_pylist()]
    return filled, engine.plan_options(requests, choices)


def collect(task: Task, prompts: list[OwnPrompt], filled: pa.Table | None, scores: Any) -> None:
    folder = task.folder / DECISIONS_FOLDER
    if task.state.is_main_process:
        folder.mkdir(exist_ok=True)
        write_table(folder / QUESTIONS_FILE, own_rows(prompts))
        if filled is not None:
            write_table(folder / FILLED_FILE, filled)
    task.state.wait_for_everyone()
    if scores is not None:
        task.engine.score_options(scores, folder / OPTIONS)
