import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hb_dataset.bias_specification import read_specification
from hb_dataset.reddit_bias import load_reddit_bias
from hb_dataset.reference_texts import ReferenceTexts, read_reference_texts
from hb_metrics.inference.scoring.pair_perplexity import (
    TextPlan,
    language_model_perplexity,
    plan_texts,
    texts_into_shards,
)
from hb_metrics.language_model_bias.paired_test import language_model_bias
from hb_metrics.measurements.measurement import Task
from hb_metrics.measurements.reddit.options import RedditOptions
from hb_metrics.measurements.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

SPLIT = "test"
REDDIT = "reddit"  # the folder of the shards
PAIRS, REFERENCE = "pairs", "reference"  # subfolders


class RedditData(NamedTuple):
    """The pairs of a bias type. `texts_t1` contains the stereotyped sides, and `texts_t2` the other sides.

    `num_identical` counts the pairs of equal texts, and `num_repeated` the pairs that repeat an earlier pair.
    `num_duplicates` counts the pairs whose t1 is also in the training split. It is `None` if there is no such split.
    """

    ids: list[str]
    texts_t1: list[str]
    texts_t2: list[str]
    num_identical: int
    num_repeated: int
    num_duplicates: int | None


class RedditFiles(NamedTuple):
    pairs: dict[str, RedditData]
    texts: ReferenceTexts


class RedditWork(NamedTuple):
    files: RedditFiles
    plans: dict[str, TextPlan]
    reference: TextPlan


def read_files(settings: Settings, prompts: "pa.Table") -> RedditFiles:
    options = settings.of(RedditOptions)
    if options.reddit_folder is None:
        raise ValueError(
            "measurement 'reddit' needs the RedditBias data; set --reddit_folder to a copy of its authors' repository"
        )
    if not Path(options.reddit_folder).is_dir():
        raise ValueError(
            f"reddit_folder '{options.reddit_folder}' is not a folder; set --reddit_folder to a copy of the RedditBias "
            "authors' repository"
        )
    if not options.bias_type:
        raise ValueError("measurement 'reddit' needs bias types; set --bias_type to one or more, such as race gender")
    data: dict[str, RedditData] = {}
    for name in options.bias_type:
        bias_type = read_specification(name).bias_type
        if bias_type in data:
            raise ValueError(f"bias_type {bias_type} is set twice; list each type once")
        data[bias_type] = _read_pairs(options.reddit_folder, name, bias_type)
    path = None if options.reference_texts is None else Path(options.reference_texts)
    return RedditFiles(data, read_reference_texts(path, seed=settings.run.seed))


def bias_types(settings: Settings) -> list[str]:
    return [read_specification(name).bias_type for name in settings.of(RedditOptions).bias_type or []]


def plan(task: Task, files: RedditFiles) -> RedditWork:
    plans = {}
    for bias_type, data in files.pairs.items():
        plans[bias_type] = plan_texts([data.texts_t1, data.texts_t2], task.loaded, ids=data.ids)
    return RedditWork(files, plans, plan_texts([files.texts.texts], task.loaded, ids=files.texts.ids))


def describe(work: RedditWork) -> dict[str, Any]:
    sections: dict[str, Any] = {}
    for bias_type, data in work.files.pairs.items():
        digest = hashlib.sha256(json.dumps(data[:3]).encode()).hexdigest()
        sections[bias_type] = {"num_pairs": len(data.ids), "digest": digest, **_path(work.plans[bias_type])}
    return {"reddit": {**sections, REFERENCE: {**work.files.texts.description(), **_path(work.reference)}}}


def measure(task: Task, work: RedditWork, results: Mapping[str, Any]) -> dict[str, Any]:
    folder = task.folder / REDDIT
    by_bias_type: dict[str, Any] = {}
    for bias_type, plan in work.plans.items():
        scores = texts_into_shards(plan, task.loaded, folder / PAIRS / bias_type, label=bias_type)
        if scores is not None:
            by_bias_type[bias_type] = _bias_type_results(work.files.pairs[bias_type], plan, scores)
    scores = texts_into_shards(work.reference, task.loaded, folder / REFERENCE, label=REFERENCE)
    if scores is None:
        return {}
    return {
        "by_bias_type": by_bias_type,
        "lmp": language_model_perplexity(scores["log_likelihood"].to_numpy(), scores["num_tokens"].to_numpy()),
        "lmp_num_texts": len(scores),
        "lmp_num_skipped": {**work.reference.num_skipped, "blank": work.files.texts.num_blank},
        "lmp_source": work.files.texts.source,
    }


def _read_pairs(folder: str, name: str, bias_type: str) -> RedditData:
    data = load_reddit_bias(folder, name)
    if SPLIT not in data:
        raise ValueError(
            f"reddit_folder '{folder}' has no {SPLIT} split for {bias_type}; its splits are: {', '.join(data)}"
        )
    ids, t1, t2 = (list(data[SPLIT][column]) for column in ("id", "text_t1", "text_t2"))
    trained = set(data["train"]["text_t1"]) if "train" in data else None
    return RedditData(
        ids,
        t1,
        t2,
        num_identical=sum(one == other for one, other in zip(t1, t2, strict=True)),
        num_repeated=len(ids) - len(set(zip(t1, t2, strict=True))),
        num_duplicates=None if trained is None else sum(text in trained for text in t1),
    )


def _bias_type_results(data: RedditData, plan: TextPlan, scores: "pa.Table") -> dict[str, Any]:
    perplexities = scores["perplexity"].to_numpy()
    number = len(plan.kept)
    return {
        **language_model_bias(perplexities[:number], perplexities[number:]),
        "split": SPLIT,
        "num_read": len(data.ids),
        "num_skipped": plan.num_skipped,
        "num_identical": data.num_identical,
        "num_repeated": data.num_repeated,
        "num_duplicates": data.num_duplicates,
    }


def _path(plan: TextPlan) -> dict[str, Any]:
    return {
        "path": plan.scoring.scoring,
        "reason": plan.scoring.scoring_reason,
        "positions": plan.scoring.positions,
        "predicted_tokens": int(plan.scoring.num_tokens.sum()),
    }
