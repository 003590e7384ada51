"""RedditBias in `measure.py`: Language Model Bias of each bias type, and LMP (Barikeri et al., 2021, 3.1 and 3.2)."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hb_dataset.bias_specification import read_specification
from hb_dataset.reddit_bias import load_reddit_bias
from hb_dataset.reference_texts import ReferenceTexts, read_reference_texts
from hb_metrics.inference.scoring.pair_perplexity import (
    TextPlan,
    language_model_perplexity,
    plan_pairs,
    plan_reference,
    texts_into_shards,
)
from hb_metrics.inference.scoring.perplexity import MAX_POSITIONS
from hb_metrics.language_model_bias.paired_test import language_model_bias

if TYPE_CHECKING:
    import pyarrow as pa

    from hb_metrics.arguments import MeasureArguments
    from hb_metrics.inference.models.loading import LoadedModel

PAIRS, REFERENCE = "pairs", "reference"  # subfolders

NO_SPLIT_ERROR = "reddit_folder '{folder}' has no {split} split of {bias_type}; there are: {splits}"
TWICE_ERROR = "bias_type {bias_type} is given twice; give each once"


class RedditData(NamedTuple):
    """The pairs of a bias type, as they are in the folder.

    Attributes:
        ids: [pairs] of the pairs.
        texts_t1: [pairs] the stereotyped side.
        texts_t2: [pairs] the other side.
        num_identical: Pairs whose two texts are the same: the model cannot tell them apart, and they count as ties.
        num_duplicates: Pairs whose t1 stands in the training split too; `None`: there is no training split.
    """

    ids: list[str]
    texts_t1: list[str]
    texts_t2: list[str]
    num_identical: int
    num_duplicates: int | None


class RedditFiles(NamedTuple):
    """What was read: pairs by bias type, and reference texts."""

    pairs: dict[str, RedditData]
    texts: ReferenceTexts


class RedditPairs(NamedTuple):
    """The pairs of a bias type, and how they are scored.

    Attributes:
        data: The pairs.
        plan: Of both sides.
        digest: SHA-256 of ids and texts.
    """

    data: RedditData
    plan: TextPlan
    digest: str


class RedditWork(NamedTuple):
    """What is scored: pairs by bias type, and reference texts."""

    pairs: dict[str, RedditPairs]
    reference: TextPlan
    texts: ReferenceTexts


def read_reddit(arguments: "MeasureArguments") -> RedditFiles:
    """Reads the pairs of each bias type and the reference texts: what can be wrong with them shows without a model.

    Raises:
        ValueError: The data are not as they should be.
        OSError: There is no such folder or file.
    """
    assert arguments.bias_type is not None
    data: dict[str, RedditData] = {}
    for name in arguments.bias_type:
        bias_type = read_specification(name).bias_type
        if bias_type in data:
            raise ValueError(TWICE_ERROR.format(bias_type=bias_type))
        data[bias_type] = _read_pairs(arguments, name, bias_type)
    path = None if arguments.reference_texts is None else Path(arguments.reference_texts)
    texts = read_reference_texts(path, number=arguments.num_reference_texts, seed=arguments.seed)
    return RedditFiles(data, texts)


def plan_reddit(arguments: "MeasureArguments", loaded: "LoadedModel", files: RedditFiles | None = None) -> RedditWork:
    """Plans the scoring of the pairs and the reference texts; reads them if they are not given.

    Raises:
        ValueError: The data are not as they should be, or the model cannot score them.
        OSError: There is no such folder or file.
    """
    max_positions = MAX_POSITIONS if arguments.max_positions is None else arguments.max_positions
    data, texts = read_reddit(arguments) if files is None else files
    pairs = {
        bias_type: RedditPairs(
            each,
            plan_pairs(
                each.texts_t1,
                each.texts_t2,
                loaded,
                ids=each.ids,
                scoring=arguments.scoring,
                max_positions=max_positions,
            ),
            hashlib.sha256(json.dumps(each[:3]).encode()).hexdigest(),
        )
        for bias_type, each in data.items()
    }
    reference = plan_reference(
        texts.texts, loaded, ids=texts.ids, scoring=arguments.scoring, max_positions=max_positions
    )
    return RedditWork(pairs, reference, texts)


def describe_reddit(work: RedditWork) -> dict[str, Any]:
    """What is recorded of it in run.json."""
    return {
        **{
            bias_type: {"num_pairs": len(each.data.ids), "digest": each.digest, **_path(each.plan)}
            for bias_type, each in work.pairs.items()
        },
        REFERENCE: {**work.texts.description(), **_path(work.reference)},
    }


def measure_reddit(
    arguments: "MeasureArguments", work: RedditWork, loaded: "LoadedModel", folder: Path
) -> dict[str, Any]:
    """Scores what is not on disk yet, and tests it.

    Args:
        arguments: The run's.
        work: What was planned.
        loaded: The model it was planned for.
        folder: Where the shards are: `pairs/<bias type>/` and `reference/`.

    Returns:
        `by_bias_type`: bias type → the fields of `PairedTest`, `split`, `num_read`, `num_skipped` by reason,
        `num_identical`, `num_duplicates`; `lmp`; `lmp_num_texts`, `lmp_num_skipped`, `lmp_source`. Empty on all
        processes but the main one.
    """
    by_bias_type: dict[str, Any] = {}
    for bias_type, pairs in work.pairs.items():
        scores = texts_into_shards(pairs.plan, loaded, folder / PAIRS / bias_type, label=bias_type)
        if scores is not None:
            by_bias_type[bias_type] = _bias_type_results(arguments, pairs, scores)
    scores = texts_into_shards(work.reference, loaded, folder / REFERENCE, label=REFERENCE)
    if scores is None:
        return {}
    return {
        "by_bias_type": by_bias_type,
        "lmp": language_model_perplexity(scores["log_likelihood"].to_numpy(), scores["num_tokens"].to_numpy()),
        "lmp_num_texts": len(scores),
        "lmp_num_skipped": {**work.reference.num_skipped, "blank": work.texts.num_blank},
        "lmp_source": work.texts.source,
    }


def _read_pairs(arguments: "MeasureArguments", name: str, bias_type: str) -> RedditData:
    assert arguments.reddit_folder is not None
    folder, split = arguments.reddit_folder, arguments.reddit_split
    mode = None if arguments.reddit_pairs == "auto" else arguments.reddit_pairs
    data = load_reddit_bias(folder, name, mode=mode)
    if split not in data:
        raise ValueError(NO_SPLIT_ERROR.format(folder=folder, split=split, bias_type=bias_type, splits=", ".join(data)))
    ids, t1, t2 = (list(data[split][column]) for column in ("id", "text_t1", "text_t2"))
    trained = set(data["train"]["text_t1"]) if "train" in data else None
    return RedditData(
        ids,
        t1,
        t2,
        num_identical=sum(one == other for one, other in zip(t1, t2, strict=True)),
        num_duplicates=None if trained is None else sum(text in trained for text in t1),
    )


def _bias_type_results(arguments: "MeasureArguments", pairs: RedditPairs, scores: "pa.Table") -> dict[str, Any]:
    perplexities = scores["perplexity"].to_numpy()
    number = len(pairs.plan.kept)
    found = language_model_bias(
        perplexities[:number], perplexities[number:], outliers=arguments.reddit_outliers, alpha=arguments.alpha
    )
    return {
        **found._asdict(),
        "split": arguments.reddit_split,
        "num_read": len(pairs.data.ids),
        "num_skipped": pairs.plan.num_skipped,
        "num_identical": pairs.data.num_identical,
        "num_duplicates": pairs.data.num_duplicates,
    }


def _path(plan: TextPlan) -> dict[str, Any]:
    return {
        "path": plan.scoring.scoring,
        "reason": plan.scoring.scoring_reason,
        "positions": plan.scoring.positions,
        "tree_positions": plan.tree_positions,
        "padded_positions": plan.padded_positions,
        "predicted_tokens": int(plan.scoring.num_tokens.sum()),
    }
