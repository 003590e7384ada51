import hashlib
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hb_dataset.bias_specification import read_specification
from hb_dataset.dialogue_pairs import DialoguePairs, read_dialogue
from hb_dataset.reddit_bias import load_reddit_bias
from hb_metrics.collect.scoring.perplexity import TextPlan, plan_texts
from hb_metrics.collect.scoring.scoring_shards import score_into_shards
from hb_metrics.measurements.measurement import Planned, Task
from hb_metrics.measurements.reddit.compute import PAIRS, REDDIT_FOLDER, REFERENCE
from hb_metrics.measurements.reddit.options import RedditOptions
from hb_metrics.measurements.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa


SPLIT = "test"
NUM_REFERENCE_TEXTS = 500  # replies by people, on which LMP is measured


class RedditData(NamedTuple):
    """The pairs of a bias type. `texts_t1` contains the stereotyped sides, and `texts_t2` the other sides.

    `counts` are part of the record: `num_identical` counts the pairs of equal texts, and `num_repeated` the pairs that
    repeat an earlier pair. `num_duplicates` counts the pairs whose t1 is also in the training split. It is `None` if
    there is no such split.
    """

    ids: list[str]
    texts_t1: list[str]
    texts_t2: list[str]
    counts: dict[str, int | None]


RedditFiles = tuple[dict[str, RedditData], DialoguePairs]  # the pairs of each bias type, and the reference texts


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
    return data, read_dialogue(num_replies=NUM_REFERENCE_TEXTS, seed=settings.run.seed)


def bias_types(settings: Settings) -> list[str]:
    return [read_specification(name).bias_type for name in settings.of(RedditOptions).bias_type or []]


def plan(task: Task, files: RedditFiles) -> Planned:
    pairs, texts = files
    reference = plan_texts([texts.replies], task.loaded, ids=texts.ids)
    plans, sections = [(REFERENCE, reference, REFERENCE)], dict[str, object]()
    for bias_type, data in pairs.items():
        scores = plan_texts([data.texts_t1, data.texts_t2], task.loaded, ids=data.ids)
        plans.insert(-1, (bias_type, scores, f"{PAIRS}/{bias_type}"))
        about = {"num_pairs": len(data.ids), "digest": _digest(data[:3])}
        sections[bias_type] = {**about, **data.counts, **_path(scores)}
    about = {"source": texts.source, "digest": _digest([texts.ids, texts.replies]), "num_texts": len(texts.ids)}
    return Planned({"reddit": {**sections, REFERENCE: {**about, **_path(reference)}}}, partial(collect, task, plans))


def collect(task: Task, plans: list[tuple[str, TextPlan, str]]) -> None:
    for label, plan, name in plans:
        shards = task.folder / REDDIT_FOLDER / name
        score_into_shards(plan.scoring, {"id": plan.ids}, shards, task.loaded.model, inputs=plan.texts, label=label)


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _read_pairs(folder: str, name: str, bias_type: str) -> RedditData:
    data = load_reddit_bias(folder, name)
    if SPLIT not in data:
        raise ValueError(
            f"reddit_folder '{folder}' has no {SPLIT} split for {bias_type}; its splits are: {', '.join(data)}"
        )
    ids, t1, t2 = (list(data[SPLIT][column]) for column in ("id", "text_t1", "text_t2"))
    trained = set(data["train"]["text_t1"]) if "train" in data else None
    counts = {
        "num_identical": sum(one == other for one, other in zip(t1, t2, strict=True)),
        "num_repeated": len(ids) - len(set(zip(t1, t2, strict=True))),
        "num_duplicates": None if trained is None else sum(text in trained for text in t1),
    }
    return RedditData(ids, t1, t2, counts)


def _path(plan: TextPlan) -> dict[str, object]:
    return {
        "path": plan.scoring.scoring,
        "reason": plan.scoring.scoring_reason,
        "positions": plan.scoring.positions,
        "predicted_tokens": int(plan.scoring.num_tokens.sum()),
        "num_skipped": plan.num_skipped,
    }
