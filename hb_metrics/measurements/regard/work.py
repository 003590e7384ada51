import hashlib
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

import pyarrow as pa

from hb_dataset.prompt_groups import PromptGroup, find_groups
from hb_dataset.structured_prompts import structured_prompt_table
from hb_dataset.structures import FIXED_STRUCTURE
from hb_dataset.vocabulary import read_vocabulary
from hb_metrics.inference.classifiers.censoring import mask_groups
from hb_metrics.inference.classifiers.classifier import Classifier, classify_into_shards, probability_array
from hb_metrics.inference.classifiers.regard import REGARDS, load_regard_classifier
from hb_metrics.inference.devices import input_device
from hb_metrics.inference.models.loading import LoadedModel, load_model
from hb_metrics.inference.replies.decoding_shards import decode_into_shards
from hb_metrics.measurements.measurement import Task, classifier_record
from hb_metrics.measurements.regard.continuations import (
    ContinuationPlan,
    draw_continuations,
    plan_continuations,
)
from hb_metrics.measurements.regard.options import RegardOptions
from hb_metrics.measurements.regard.paraphrases import (
    ParaphrasePlan,
    kept_prompts,
    paraphrase_into_shards,
    plan_paraphrases,
    summary,
)
from hb_metrics.measurements.settings import Settings
from hb_metrics.regard_bias.regard_results import regard_bias
from hb_metrics.runs.replies import verdicts

REGARD = "regard"  # the folder of the shards
# The subfolders of `REGARD`.
PARAPHRASES, CONTINUATIONS, REGARD_PROBABILITIES = "paraphrases", "continuations", "regard_probabilities"
Groups = tuple[tuple[PromptGroup, ...], dict[str, tuple[str, str]]]  # the groups and the pairs
_NO_SPACE_BEFORE = (".", ",", ";", ":", "!", "?", "'", "’", ")", "…")


class Paraphraser(NamedTuple):
    loaded: LoadedModel
    plan: ParaphrasePlan


class RegardWork(NamedTuple):
    """The prompts, the classifier and the plans for measuring regard.

    `prompts` contains the grammar's prompts or, with a paraphraser, the fixed prompts to paraphrase. Its columns are
    those of `structured_prompts.STRUCTURED_SCHEMA`. `pairs` contains the advantaged and the disadvantaged group of each
    pair.
    """

    prompts: pa.Table
    groups: tuple[PromptGroup, ...]
    pairs: dict[str, tuple[str, str]]
    classifier: Classifier
    paraphraser: Paraphraser | None
    plan: ContinuationPlan


def read_files(settings: Settings, prompts: pa.Table) -> Groups:
    return groups_and_pairs(settings)


def plan(task: Task, files: Groups) -> RegardWork:
    options, shared = task.settings.of(RegardOptions), task.settings.run
    groups, pairs = files
    prompts = structured_prompt_table(groups, fixed_only=options.paraphraser is not None)
    loading = task.classifier_options()
    loading["device"] = input_device(task.loaded.model)
    classifier = load_regard_classifier(options.regard_classifier, **loading)
    paraphraser = None
    if options.paraphraser is not None:
        loaded = load_model(
            options.paraphraser, device=input_device(task.loaded.model), trust_remote_code=shared.trust_remote_code
        )
        paraphraser = Paraphraser(loaded, plan_paraphrases(prompts, groups, loaded))
    return RegardWork(prompts, groups, pairs, classifier, paraphraser, _plan(task, prompts))


def groups_and_pairs(settings: Settings) -> Groups:
    options, folder = settings.of(RegardOptions), settings.run.vocabulary_dir
    groups, pairs = find_groups(options.regard_groups, None if folder is None else read_vocabulary(folder))
    if options.regard_pairs is None:
        return groups, {pair.name: (pair.advantaged, pair.disadvantaged) for pair in pairs}
    return groups, _pairs(options.regard_pairs, [group.name for group in groups])


def describe(work: RegardWork) -> dict[str, Any]:
    section = {
        **classifier_record(work.classifier),
        "groups": [group.name for group in work.groups],
        "groups_digest": hashlib.sha256(repr(work.groups).encode()).hexdigest(),
        "pairs": {name: list(pair) for name, pair in work.pairs.items()},
        **work.plan.description(),
        "paraphraser": None if work.paraphraser is None else work.paraphraser.plan.description(),
    }
    return {"regard": section}


def measure(task: Task, work: RegardWork, results: Mapping[str, Any]) -> dict[str, Any]:
    folder, shared = task.folder / REGARD, task.settings.run
    prompts, plan, paraphrases = work.prompts, work.plan, None
    if work.paraphraser is not None:
        written = paraphrase_into_shards(work.paraphraser.plan, work.paraphraser.loaded, folder / PARAPHRASES)
        prompts = pa.concat_tables([prompts, kept_prompts(written, prompts)])
        plan, paraphrases = _plan(task, prompts), summary(written)
    continuations = decode_into_shards(plan, task.loaded, folder / CONTINUATIONS, batch_size=shared.batch_size)
    rows_with_text = continuations.filter(continuations["continuation"].is_valid())
    if not len(rows_with_text):
        raise ValueError(
            f"the continuations of all {prompts.num_rows:,} prompts are empty, so there is no regard to classify; "
            "remove regard from --measurements"
        )
    texts = list(map(whole_text, rows_with_text["text"].to_pylist(), rows_with_text["continuation"].to_pylist()))
    about = {row["id"]: row for row in prompts.to_pylist()}
    rows = [about[prompt_id] for prompt_id in rows_with_text["prompt_id"].to_pylist()]
    silent = continuations.filter(continuations["continuation"].is_null())
    mentions = {group.name: group.mentions for group in work.groups}
    texts = mask_groups(texts, [mentions[row["group"]] for row in rows])
    ids = rows_with_text["id"].to_pylist()
    regards = classify_into_shards(texts, ids, work.classifier, folder / REGARD_PROBABILITIES, label="regard")
    if regards is None:
        return {}
    found = verdicts(probability_array(regards)[:, : len(REGARDS)])
    answered = found >= 0
    if not answered.any():
        raise ValueError(
            f"the classifier found no single likeliest label for any of the {len(ids):,} continuations; set "
            "--regard_classifier or --judge_model to a better model"
        )
    rows_with_text, rows = rows_with_text.filter(pa.array(answered)), list(compress(rows, answered))
    labels = [REGARDS[index] for index in found[answered]]
    bias = regard_bias(
        labels,
        [row["group"] for row in rows],
        structures=[row["structure"] for row in rows],
        prompts=[row["verb_phrase"] for row in rows],
        seeds=rows_with_text["seed_index"].to_pylist(),
        pairs=work.pairs,
        confidence_level=shared.confidence_level,
        fixed_structure=FIXED_STRUCTURE,
    )
    structures = {row["structure"]: {name: row[name] for name in ("kind", "parse", "generalizes")} for row in rows}
    return {
        "bias": bias,
        "structures": structures,
        "num_prompts": len(set(plan.prompt_ids)),
        "num_structures": len(structures),
        "num_seeds": len(set(plan.seed_indices)),
        "num_continuations": len(continuations),
        "num_blank": len(silent),
        "num_truncated": sum(continuations["truncated"].to_pylist()),
        "num_unanswered": int((~answered).sum()),
        "num_cut_for_classifier": sum(regards["truncated"].to_pylist()),
        "paraphrases": paraphrases,
        "examples": _examples(rows, rows_with_text, labels),
    }


def whole_text(prompt: str, continuation: str) -> str:
    return f"{prompt}{'' if continuation.startswith(_NO_SPACE_BEFORE) else ' '}{continuation}"


def _pairs(given: Sequence[str], groups: Sequence[str]) -> dict[str, tuple[str, str]]:
    pairs = {}
    for text in given:
        names = [name.strip() for name in text.split(":")]
        if len(names) != 2 or names[0] == names[1] or not {*names} <= {*groups}:
            raise ValueError(
                f"regard_pairs contains {text!r}; write each pair as advantaged:disadvantaged, using two of these "
                f"groups: {', '.join(groups)}"
            )
        pairs[f"{names[0]} − {names[1]}"] = (names[0], names[1])
    return pairs


def _plan(task: Task, prompts: pa.Table) -> ContinuationPlan:
    seed = task.settings.run.seed
    drawn = draw_continuations(prompts, task.settings.of(RegardOptions).regard_continuations, seed=seed)
    return plan_continuations(prompts["id"].to_pylist(), prompts["text"].to_pylist(), task.loaded, drawn, seed=seed)


def _examples(rows: Sequence[Mapping[str, Any]], written: pa.Table, labels: Sequence[str]) -> list[dict[str, Any]]:
    order = sorted(range(len(rows)), key=lambda row: hashlib.sha256(written["id"][row].as_py().encode()).digest())
    chosen: dict[tuple[str, str], int] = {}
    for row in order:
        chosen.setdefault((rows[row]["structure"], labels[row]), row)
    texts, continuations = written["text"].to_pylist(), written["continuation"].to_pylist()
    return [
        {
            "structure": structure,
            "group": rows[row]["group"],
            "text": texts[row],
            "continuation": continuations[row],
            "regard": label,
        }
        for (structure, label), row in sorted(chosen.items())
    ]
