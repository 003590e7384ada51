"""Finds refusals and disclaimers among the replies, by rules or a classifier, and computes their results."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hb_metrics.inference.classifiers.classifier import Classifier, classify_into_shards, probability_array
from hb_metrics.inference.classifiers.refusal import THRESHOLD, load_refusal_classifier
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.measurement import Task
from hb_metrics.reply_checks.refusal_rules import RULES_FILE, RefusalRules, match_rules, read_refusal_rules
from hb_metrics.reply_checks.refusal_shares import refusal_shares
from hb_metrics.runs.replies import Replies

REFUSAL_PROBABILITIES = "refusal_probabilities"  # the folder of the shards


class RefusalWork(NamedTuple):
    """The rules and the classifier of refusals.

    Attributes:
        rules: The rules of refusals and disclaimers.
        source: The name of the user's own file of rules; `None`: the shipped rules.
        classifier: The classifier that finds refusals in place of the rules; `None`: none.
    """

    rules: RefusalRules
    source: str | None
    classifier: Classifier | None


class FoundRefusals(NamedTuple):
    """Which replies are refusals and disclaimers; every array is [replies].

    Attributes:
        refusals: Whether each is a refusal; bool.
        disclaimers: Whether each is a disclaimer; bool.
        refusal_rules: The index of the rule of refusals; -1: none. `None`: a classifier found them.
        disclaimer_rules: The index of the rule of disclaimers; -1: none.
        num_truncated: The number of replies of which the classifier read only a part.
    """

    refusals: np.ndarray
    disclaimers: np.ndarray
    refusal_rules: np.ndarray | None
    disclaimer_rules: np.ndarray
    num_truncated: int = 0


def plan_refusals(task: Task) -> RefusalWork:
    """Reads the rules and loads the classifier, if there is one.

    Raises:
        ValueError: The rules are not valid, or which label of the classifier means a refusal is not clear.
        OSError: There is no such classifier.
    """
    options = task.settings.of(GenerationOptions)
    classifier = None
    if options.refusal_classifier is not None:
        classifier = load_refusal_classifier(
            options.refusal_classifier,
            device=task.state.device,
            trust_remote_code=task.settings.run.trust_remote_code,
        )
    file = options.refusals_file
    return RefusalWork(read_refusal_rules(file or RULES_FILE), None if file is None else Path(file).name, classifier)


def describe_refusals(work: RefusalWork) -> dict[str, Any]:
    """What refusals and disclaimers are found by: the sections of run.json."""
    sections: dict[str, Any] = {"refusals": {"rules": work.source, "rules_digest": work.rules.digest}}
    if work.classifier is not None:
        sections["refusal_classifier"] = {
            "name": work.classifier.name,
            "is_embedded": work.classifier.is_embedded,
            "digest": work.classifier.digest,
            "version": work.classifier.version,
            "refusal_labels": list(work.classifier.source_labels),
            "threshold": THRESHOLD,
            "notes": list(work.classifier.notes),
        }
    return sections


def measure_refusals(work: RefusalWork, replies: Replies, task: Task) -> FoundRefusals | None:
    """Finds refusals and disclaimers; probabilities of a classifier are kept as shards in the run folder.

    Returns:
        What was found; `None` on all processes but the main one.
    """
    if work.classifier is None:
        return found_by_rules(replies.texts, work.rules) if task.state.is_main_process else None
    scores = classify_into_shards(
        replies.texts, replies.ids, work.classifier, task.folder / REFUSAL_PROBABILITIES, label="refusals"
    )
    if scores is None:
        return None
    by_rules = found_by_rules(replies.texts, work.rules)
    return by_rules._replace(
        refusals=probability_array(scores)[:, 0] >= THRESHOLD,
        refusal_rules=None,
        num_truncated=sum(scores["truncated"].to_pylist()),
    )


def found_by_rules(texts: Sequence[str], rules: RefusalRules) -> FoundRefusals:
    """Refusals and disclaimers by rules."""
    matches = match_rules(texts, rules)
    return FoundRefusals(matches.refusals >= 0, matches.disclaimers >= 0, matches.refusals, matches.disclaimers)


def refusals_table(ids: Sequence[str], found: FoundRefusals) -> pa.Table:
    """The columns of refusals.parquet: `id` of each reply's prompt, `refusal` and `disclaimer`."""
    return pa.table({"id": list(ids), "refusal": found.refusals, "disclaimer": found.disclaimers})


def refusals_results(
    replies: Replies, found: FoundRefusals, rules: RefusalRules, confidence_level: float
) -> dict[str, Any]:
    """Shares of refusals and of disclaimers, and which rules found how many.

    Returns:
        Plain values for results.json: `refusals` and `disclaimers`, each what `refusal_shares` returns, with `by_rule`
        (phrase → how many replies it is the first to match; `None`: a classifier found them);
        `num_cut_for_classifier`.
    """
    results: dict[str, Any] = {"num_cut_for_classifier": found.num_truncated}
    for kind, flags, indices, of_kind in (
        ("refusals", found.refusals, found.refusal_rules, rules.refusals),
        ("disclaimers", found.disclaimers, found.disclaimer_rules, rules.disclaimers),
    ):
        results[kind] = refusal_shares(
            flags, replies.descriptors, replies.templates, replies.axes, confidence_level=confidence_level
        )
        results[kind]["by_rule"] = None
        if indices is not None:
            counts = Counter(indices[indices >= 0].tolist())
            results[kind]["by_rule"] = {of_kind[index].phrase: number for index, number in counts.most_common()}
    return results
