"""Measures regard: how a model continues prompts about groups of people, in many syntactic structures.

Aggarwal et al. (2022): prompts in a hundred structures, continuations drawn with several seeds, the regard of each
towards the group it is about, and whether the verdict of the one fixed structure holds.
"""

import hashlib
from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from hb_dataset.prompt_groups import PromptGroup, find_groups
from hb_dataset.seeded_draws import seeded_generator
from hb_dataset.structured_prompts import structured_prompt_table
from hb_dataset.structures import FIXED_STRUCTURE
from hb_dataset.vocabulary import read_vocabulary
from hb_metrics.inference.classifiers.censoring import mask_groups
from hb_metrics.inference.classifiers.classifier import Classifier, classify_into_shards, probability_array
from hb_metrics.inference.classifiers.regard import REGARDS, load_regard_classifier
from hb_metrics.inference.replies.continuations import (
    ContinuationPlan,
    count_continuations,
    plan_continuations,
)
from hb_metrics.inference.replies.decoding_shards import decode_into_shards, read_decoded
from hb_metrics.inference.replies.paraphrases import (
    ParaphrasePlan,
    checked_paraphrases,
    kept_prompts,
    plan_paraphrases,
    summary,
)
from hb_metrics.measurements.measurement import Task
from hb_metrics.measurements.regard.options import RegardOptions
from hb_metrics.measurements.settings import Settings
from hb_metrics.regard_bias.cell_means import EmptyClassError
from hb_metrics.regard_bias.regard_results import regard_bias

if TYPE_CHECKING:
    from hb_metrics.inference.models.loading import LoadedModel

REGARD = "regard"  # the folder of the shards
# Its subfolders.
PARAPHRASES, CONTINUATIONS, REGARD_PROBABILITIES = "paraphrases", "continuations", "regard_probabilities"
# How continuations are sampled, as in Sheng et al. (2019); the tokens of the prompt count too.
TEMPERATURE, TOP_K, MAX_TOKENS = 0.7, 40, 40
NUM_SEEDS = 10  # continuations of a prompt at most, as in Aggarwal et al. (2022)
_NO_SPACE_BEFORE = (".", ",", ";", ":", "!", "?", "'", "’", ")", "…")


class Paraphraser(NamedTuple):
    """A model that writes the structured prompts, and what it is to write."""

    loaded: "LoadedModel"
    plan: ParaphrasePlan


class RegardWork(NamedTuple):
    """What is continued and classified.

    Attributes:
        prompts: Prompts of the grammar, with the columns of `structured_prompts.STRUCTURED_SCHEMA`; with a paraphraser
            the fixed ones, which it starts from.
        groups: Whom they are about.
        pairs: Name → the advantaged and the disadvantaged group.
        classifier: Classifies regard.
        paraphraser: The model that writes the other prompts; `None`: the grammar has written them.
        plan: The continuations of `prompts`.
    """

    prompts: pa.Table
    groups: tuple[PromptGroup, ...]
    pairs: dict[str, tuple[str, str]]
    classifier: Classifier
    paraphraser: Paraphraser | None
    plan: ContinuationPlan


def plan(task: Task, files: None) -> RegardWork:
    """Writes the prompts, loads the classifier and plans the continuations.

    Raises:
        ValueError: Groups, pairs, classifier or paraphraser are not valid, or the model cannot continue them.
        OSError: There is no such file or model.
    """
    from hb_metrics.inference.devices import input_device

    options, shared = task.settings.of(RegardOptions), task.settings.run
    groups, pairs = groups_and_pairs(task.settings)
    only_fixed = options.regard_structures == "fixed" or options.paraphraser is not None
    prompts = structured_prompt_table(groups, "original" if only_fixed else "all")
    classifier = load_regard_classifier(
        options.regard_classifier,
        device=input_device(task.loaded.model),
        trust_remote_code=shared.trust_remote_code,
    )
    return RegardWork(
        prompts=prompts,
        groups=groups,
        pairs=pairs,
        classifier=classifier,
        paraphraser=_plan_paraphraser(task, prompts, groups),
        plan=_plan(task, prompts),
    )


def groups_and_pairs(settings: Settings) -> tuple[tuple[PromptGroup, ...], dict[str, tuple[str, str]]]:
    """Whom the prompts are about, and which of them are compared, by the name of the pair.

    Raises:
        ValueError: A group or a pair is not valid.
        OSError: The vocabulary is not there.
    """
    options, folder = settings.of(RegardOptions), settings.run.vocabulary_dir
    groups, pairs = find_groups(options.regard_groups, None if folder is None else read_vocabulary(folder))
    if options.regard_pairs is None:
        return groups, {pair.name: (pair.advantaged, pair.disadvantaged) for pair in pairs}
    return groups, _pairs(options.regard_pairs, [group.name for group in groups])


def describe(work: RegardWork) -> dict[str, Any]:
    """What run.json records of groups, decoding, classifier and paraphraser."""
    section = {
        "name": work.classifier.name,
        "is_embedded": work.classifier.is_embedded,
        "digest": work.classifier.digest,
        "notes": list(work.classifier.notes),
        "groups": [group.name for group in work.groups],
        "groups_digest": hashlib.sha256(repr(work.groups).encode()).hexdigest(),
        "pairs": {name: list(pair) for name, pair in work.pairs.items()},
        **work.plan.description(),
        "paraphraser": None if work.paraphraser is None else work.paraphraser.plan.description(),
    }
    return {"regard": section}


def measure(task: Task, work: RegardWork, results: Mapping[str, Any]) -> dict[str, Any]:
    """Continues the prompts and classifies the continuations that are not on disk yet, and compares groups.

    Returns:
        Plain values for results.json. Empty on all processes but the main one.
    """
    folder, shared = task.folder / REGARD, task.settings.run
    prompts, plan, paraphrases = work.prompts, work.plan, None
    if work.paraphraser is not None:
        written = _paraphrase(work.paraphraser, folder / PARAPHRASES)
        prompts = pa.concat_tables([prompts, kept_prompts(written, prompts)])
        plan, paraphrases = _plan(task, prompts), summary(written)
    made = decode_into_shards(plan, task.loaded, folder / CONTINUATIONS, batch_size=shared.batch_size)
    continuations = read_decoded(plan, folder / CONTINUATIONS) if made is None else made
    rows_with_text = continuations.filter(continuations["continuation"].is_valid())
    if not len(rows_with_text):
        raise ValueError(
            f"the continuations of all {prompts.num_rows} prompts are empty, so there is no regard to classify"
        )
    texts = [
        whole_text(text, continuation)
        for text, continuation in zip(
            rows_with_text["text"].to_pylist(), rows_with_text["continuation"].to_pylist(), strict=True
        )
    ]
    about = {row["id"]: row for row in prompts.to_pylist()}
    rows = [about[prompt_id] for prompt_id in rows_with_text["prompt_id"].to_pylist()]
    silent = continuations.filter(continuations["continuation"].is_null())
    blank = [about[prompt_id]["group"] for prompt_id in silent["prompt_id"].to_pylist()]
    mentions = {group.name: group.mentions for group in work.groups}
    texts = mask_groups(texts, [mentions[row["group"]] for row in rows])
    ids = rows_with_text["id"].to_pylist()
    regards = classify_into_shards(texts, ids, work.classifier, folder / REGARD_PROBABILITIES, label="regard")
    if regards is None:
        return {}
    labels = [REGARDS[index] for index in probability_array(regards).argmax(axis=1)]
    settings: dict[str, Any] = {
        "structures": [row["structure"] for row in rows],
        "prompts": [row["verb_phrase"] for row in rows],
        "seeds": rows_with_text["seed_index"].to_pylist(),
        "pairs": work.pairs or None,
        "confidence_level": shared.confidence_level,
        "fixed_structure": FIXED_STRUCTURE,
        "seed": shared.seed,
    }
    groups, kl_error = [row["group"] for row in rows], None
    try:
        bias = regard_bias(labels, groups, **settings)
    except EmptyClassError as error:  # that a label never occurs is a result, and no reason to lose a run
        bias, kl_error = regard_bias(labels, groups, kl=False, **settings), str(error)
    structures = {row["structure"]: {name: row[name] for name in ("kind", "parse", "generalizes")} for row in rows}
    return {
        "bias": bias,
        "kl_error": kl_error,
        "structures": structures,
        "num_prompts": len(set(plan.prompt_ids)),
        "num_structures": len(structures),
        "num_seeds": len(set(plan.seed_indices)),
        **count_continuations(continuations),
        "num_blank_by_group": {group.name: blank.count(group.name) for group in work.groups},
        "num_cut_for_classifier": sum(regards["truncated"].to_pylist()),
        "paraphrases": paraphrases,
        "examples": _examples(rows, rows_with_text, labels),
    }


def draw_continuations(prompts: pa.Table, number: int | None, num_seeds: int, *, seed: int) -> list[tuple[int, int]]:
    """Draws which continuations are made: in each structure the same verb phrases and seeds for all groups.

    Args:
        prompts: Structured prompts, with `group`, `verb_phrase`, `prompt_type` and `structure`.
        number: How many for each group in each structure; `None`: each prompt with all seeds. The fixed structure's
            prompts always have all.
        num_seeds: Continuations of the same prompt at most.
        seed: The seed of the draw.

    Returns:
        Row of the prompt and index of the seed, in the order of the prompts. Verb phrases of occupation and respect
        take turns, and none comes a second time before all have come.
    """
    columns = [prompts[name].to_pylist() for name in ("structure", "verb_phrase", "prompt_type")]
    types = dict(zip(*columns[1:], strict=True))
    chosen: dict[str, dict[str, list[int]]] = {}
    drawn = []
    for row, (structure, verb_phrase, _) in enumerate(zip(*columns, strict=True)):
        if number is None or structure == FIXED_STRUCTURE:
            indices = list(range(num_seeds))
        else:
            if structure not in chosen:
                chosen[structure] = _draw(types, number, num_seeds, seeded_generator(seed, "regard", structure))
            indices = chosen[structure].get(verb_phrase, [])
        drawn += [(row, index) for index in indices]
    return drawn


def whole_text(prompt: str, continuation: str) -> str:
    """A prompt and its continuation as one text."""
    return f"{prompt}{'' if continuation.startswith(_NO_SPACE_BEFORE) else ' '}{continuation}"


def _draw(
    types: Mapping[str, str], number: int, num_seeds: int, generator: np.random.Generator
) -> dict[str, list[int]]:
    """Draws continuations of a structure: verb phrase → indices of seeds, in increasing order."""
    of_type: dict[str, list[str]] = {}
    for verb_phrase, prompt_type in types.items():
        of_type.setdefault(prompt_type, []).append(verb_phrase)
    shuffled = [[members[index] for index in generator.permutation(len(members))] for members in of_type.values()]
    turns = [verb_phrase for verb_phrase in chain(*zip_longest(*shuffled)) if verb_phrase is not None]
    seeds = {verb_phrase: generator.permutation(num_seeds).tolist() for verb_phrase in turns}
    rounds = [(verb_phrase, seeds[verb_phrase][turn]) for turn in range(num_seeds) for verb_phrase in turns]
    drawn: dict[str, list[int]] = {}
    for verb_phrase, seed_index in rounds[:number]:
        drawn.setdefault(verb_phrase, []).append(seed_index)
    return {verb_phrase: sorted(indices) for verb_phrase, indices in drawn.items()}


def _pairs(given: Sequence[str], groups: Sequence[str]) -> dict[str, tuple[str, str]]:
    pairs = {}
    for text in given:
        names = [name.strip() for name in text.split(":")]
        if len(names) != 2 or names[0] == names[1]:
            raise ValueError(
                f"regard_pairs has {text!r}; write advantaged:disadvantaged, two of the groups: {', '.join(groups)}"
            )
        for name in names:
            if name not in groups:
                raise ValueError(
                    f"regard_pairs names the group '{name}', which is not among the groups: {', '.join(groups)}"
                )
        pairs[f"{names[0]} − {names[1]}"] = (names[0], names[1])
    return pairs


def _plan(task: Task, prompts: pa.Table) -> ContinuationPlan:
    options, seed = task.settings.of(RegardOptions), task.settings.run.seed
    return plan_continuations(
        prompts["id"].to_pylist(),
        prompts["text"].to_pylist(),
        task.loaded,
        drawn=draw_continuations(prompts, options.regard_continuations or None, NUM_SEEDS, seed=seed),
        temperature=TEMPERATURE,
        top_k=TOP_K,
        max_tokens=MAX_TOKENS,
        seed=seed,
    )


def _plan_paraphraser(task: Task, prompts: pa.Table, groups: Sequence[PromptGroup]) -> Paraphraser | None:
    name = task.settings.of(RegardOptions).paraphraser
    if name is None:
        return None
    from hb_metrics.inference.devices import input_device
    from hb_metrics.inference.replies.paraphrases import load_paraphraser

    paraphraser = load_paraphraser(
        name, device=input_device(task.loaded.model), trust_remote_code=task.settings.run.trust_remote_code
    )
    return Paraphraser(paraphraser, plan_paraphrases(prompts, groups, paraphraser))


def _paraphrase(paraphraser: Paraphraser, folder: Path) -> pa.Table:
    written = decode_into_shards(paraphraser.plan, paraphraser.loaded, folder)
    return checked_paraphrases(paraphraser.plan, read_decoded(paraphraser.plan, folder) if written is None else written)


def _examples(rows: Sequence[Mapping[str, Any]], written: pa.Table, labels: Sequence[str]) -> list[dict[str, Any]]:
    """One text for each structure and regard label, drawn at random: the first in the order of a hash of its id."""
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
