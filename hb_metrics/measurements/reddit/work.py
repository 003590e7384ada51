import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hb_dataset.bias_specification import read_specification
from hb_dataset.dialogue_pairs import Dialogue, read_dialogue
from hb_dataset.reddit_bias import load_reddit_bias
from hb_metrics.collect.scoring.perplexity import TextPlan, plan_texts
from hb_metrics.collect.scoring.scoring_shards import score_into_shards
from hb_metrics.measurements.measurement import Task
from hb_metrics.measurements.reddit.compute import PAIRS, REDDIT, REFERENCE, SPLIT
from hb_metrics.measurements.reddit.options import RedditOptions
from hb_metrics.measurements.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa


NUM_REFERENCE_TEXTS = 500  # replies by people, on which LMP is measured


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
    reference: Dialogue


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
    return RedditFiles(data, read_dialogue(num_replies=NUM_REFERENCE_TEXTS, seed=settings.run.seed))


def bias_types(settings: Settings) -> list[str]:
    return [read_specification(name).bias_type for name in settings.of(RedditOptions).bias_type or []]


def plan(task: Task, files: RedditFiles) -> RedditWork:
    plans = {}
    for bias_type, data in files.pairs.items():
        plans[bias_type] = plan_texts([data.texts_t1, data.texts_t2], task.loaded, ids=data.ids)
    return RedditWork(files, plans, plan_texts([files.reference.replies], task.loaded, ids=files.reference.ids))


def describe(work: RedditWork) -> dict[str, object]:
    sections: dict[str, object] = {}
    for bias_type, data in work.files.pairs.items():
        digest, plan = hashlib.sha256(json.dumps(data[:3]).encode()).hexdigest(), work.plans[bias_type]
        counts = {name: getattr(data, name) for name in ("num_identical", "num_repeated", "num_duplicates")}
        sections[bias_type] = {"num_pairs": len(data.ids), "digest": digest, **counts, **_path(plan)}
    texts = work.files.reference
    digest = hashlib.sha256(json.dumps([texts.ids, texts.replies]).encode()).hexdigest()
    about = {"source": texts.source, "digest": digest, "num_texts": len(texts.ids)}
    return {"reddit": {**sections, REFERENCE: {**about, **_path(work.reference)}}}


def collect(task: Task, work: RedditWork) -> None:
    folder = task.folder / REDDIT
    plans = [(bias_type, plan, folder / PAIRS / bias_type) for bias_type, plan in work.plans.items()]
    for label, plan, shards in [*plans, (REFERENCE, work.reference, folder / REFERENCE)]:
        score_into_shards(plan.scoring, {"id": plan.ids}, shards, task.loaded.model, inputs=plan.texts, label=label)


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


def _path(plan: TextPlan) -> dict[str, object]:
    return {
        "path": plan.scoring.scoring,
        "reason": plan.scoring.scoring_reason,
        "positions": plan.scoring.positions,
        "predicted_tokens": int(plan.scoring.num_tokens.sum()),
        "num_skipped": plan.num_skipped,
    }
