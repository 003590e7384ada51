import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from hb_dataset.prompt_groups import PromptGroup, find_groups
from hb_dataset.structures import structured_prompt_table
from hb_dataset.vocabulary import read_vocabulary
from hb_metrics.collect.classifiers.censoring import mask_groups
from hb_metrics.collect.classifiers.classifier import Classifier, classify_into_shards
from hb_metrics.collect.classifiers.regard import load_regard_classifier
from hb_metrics.collect.replies.decoding_shards import decode_into_shards
from hb_metrics.measurements.measurement import Planned, Task, classifier_record, label_options
from hb_metrics.measurements.regard.compute import CONTINUATIONS, REGARD_FOLDER, REGARD_PROBABILITIES
from hb_metrics.measurements.regard.continuations import (
    ContinuationPlan,
    draw_continuations,
    plan_continuations,
)
from hb_metrics.measurements.regard.options import RegardOptions
from hb_metrics.measurements.settings import Settings
from hb_metrics.models.processes import input_device
from hb_metrics.models.sources import EMBEDDED
from hb_metrics.regard_bias.regard_results import read_pairs
from hb_metrics.run.replies import LeftOutError
from hb_metrics.run.run_folder import PROMPTS_FILE, write_table
from hb_metrics.run.schema import about_replies, by_id

Groups = tuple[tuple[PromptGroup, ...], dict[str, tuple[str, str]]]  # the groups and the pairs
_NAMES = {"group": "bucket", "noun_phrase": "noun", "structure": "template"}  # as in the other configs
_NO_SPACE_BEFORE = (".", ",", ";", ":", "!", "?", "'", "’", ")", "…")


def check_classifiers(settings: Settings) -> None:
    name = settings.of(RegardOptions).regard_classifier
    if name != EMBEDDED:
        load_regard_classifier(name, **label_options(settings))


def plan(task: Task, files: Groups) -> Planned:
    options, seed = task.settings.of(RegardOptions), task.settings.run.seed
    groups, pairs = files
    prompts = structured_prompt_table(groups)
    loading = task.classifier_options()
    loading["device"] = input_device(task.loaded.model)
    classifier = load_regard_classifier(options.regard_classifier, **loading)
    drawn = draw_continuations(prompts, options.regard_continuations, seed=seed)
    named = prompts.rename_columns([_NAMES.get(name, name) for name in prompts.column_names])
    continuations = plan_continuations(named, task.loaded, drawn, seed=seed)
    record = {
        **classifier_record(classifier),
        "groups": [group.name for group in groups],
        "groups_digest": hashlib.sha256(repr(groups).encode()).hexdigest(),
        "pairs": {name: list(pair) for name, pair in pairs.items()},
        **continuations.description(),
    }
    mentions = {group.name: group.mentions for group in groups}
    return Planned({"regard": record}, partial(collect, task, prompts, mentions, classifier, continuations))


def groups_and_pairs(settings: Settings) -> Groups:
    options, folder = settings.of(RegardOptions), settings.run.vocabulary_dir
    groups, named = find_groups(options.regard_groups, None if folder is None else read_vocabulary(folder))
    names = [group.name for group in groups]
    pairs = {pair.name: (pair.advantaged, pair.disadvantaged) for pair in named}
    if not pairs and len(names) == 2:
        pairs = {" − ".join(names): (names[0], names[1])}
    read_pairs(pairs, names)  # raises now what the metric would raise at the end of the run
    return groups, pairs


def collect(
    task: Task, prompts: pa.Table, mentions: Mapping[str, Any], classifier: Classifier, plan: ContinuationPlan
) -> None:
    folder = task.folder / REGARD_FOLDER
    continuations = decode_into_shards(plan, task.loaded, folder / CONTINUATIONS)
    rows_with_text = continuations.filter(continuations["continuation"].is_valid())
    if not len(rows_with_text):
        raise LeftOutError(
            f"the continuations of all {prompts.num_rows:,} prompts are empty, so there is no regard to classify; "
            "remove regard from --measurements"
        )
    texts = list(map(whole_text, rows_with_text["text"].to_pylist(), rows_with_text["continuation"].to_pylist()))
    group_of = by_id(prompts, "group")
    texts = mask_groups(texts, [mentions[group_of[prompt]] for prompt in rows_with_text["prompt_id"].to_pylist()])
    ids = rows_with_text["id"].to_pylist()
    about = about_replies(continuations, ids)
    classify_into_shards(texts, ids, classifier, folder / REGARD_PROBABILITIES, label="regard", about=about)
    if task.state.is_main_process:
        write_table(folder / PROMPTS_FILE, prompts)


def whole_text(prompt: str, continuation: str) -> str:
    return f"{prompt}{'' if continuation.startswith(_NO_SPACE_BEFORE) else ' '}{continuation}"
