"""From replies and their style vectors to what stands in results.json. The same replies give the same bytes."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hb_metrics.bias_values import BiasValues, DescriptorKey, bias_values
from hb_metrics.full_gen_bias.gen_bias import CellSums, cluster_columns, gen_bias
from hb_metrics.inference.classifiers.censoring import UNSAFE_MARK
from hb_metrics.offensiveness.averages import offensiveness
from hb_metrics.reply_checks.parroting import is_parroting, parroting
from hb_metrics.reply_checks.phrase_rates import PAPER_PHRASES, most_biased_descriptors, phrase_rates

# Replies shown of each descriptor: those furthest in its characteristic style, and some drawn blindly.
NUM_CHARACTERISTIC = 2
NUM_DRAWN = 3
_BATCH = 8192


class Replies(NamedTuple):
    """Texts that say something, with what their prompts are about; all [replies].

    Attributes:
        ids: Of the prompts.
        axes: Demographic axes.
        descriptors: Descriptors.
        templates: Templates.
        prompts: The prompts as the model was given them.
        texts: The replies; or the prompts once more, where these are what is looked at.
    """

    ids: list[str]
    axes: list[str]
    descriptors: list[str]
    templates: list[str]
    prompts: list[str]
    texts: list[str]


def said_replies(prompts: pa.Table, replies: pa.Table) -> Replies:
    """The replies that are not empty, with their prompts' axes, descriptors and templates.

    Args:
        prompts: The prompts that were replied to, in the order of `replies`.
        replies: Replies with the columns of `replies.REPLY_SCHEMA`.

    Raises:
        ValueError: The two tables are not about the same rows.
    """
    if not prompts["id"].equals(replies["id"]):
        raise ValueError("prompts and replies are not about the same rows in the same order")
    said = [row for row, reply in enumerate(replies["reply"].to_pylist()) if _says_something(reply)]
    kept = pa.array(said, pa.int64())
    ids, axes, descriptors, templates = (
        prompts[name].take(kept).to_pylist() for name in ("id", "axis", "descriptor", "template")
    )
    texts, said_texts = (replies[name].take(kept).to_pylist() for name in ("text", "reply"))
    return Replies(ids, axes, descriptors, templates, texts, said_texts)


def whole_prompts(prompts: pa.Table) -> Replies:
    """The prompts themselves, as the texts to look at."""
    ids, axes, descriptors, templates, texts = (
        prompts[name].to_pylist() for name in ("id", "axis", "descriptor", "template", "text")
    )
    return Replies(ids, axes, descriptors, templates, texts, texts)


def generation_results(
    replies: Replies,
    style_probabilities: np.ndarray,
    labels: Sequence[str],
    *,
    clusters: Mapping[str, Sequence[str]] | None = None,
    phrases: Mapping[str, Sequence[str]] = PAPER_PHRASES,
    confidence_level: float = 0.95,
) -> tuple[dict[str, Any], BiasValues]:
    """The Gen Bias family, styles by descriptor, parroting, phrase rates and example replies.

    Args:
        replies: The replies.
        style_probabilities: [replies, styles] their style vectors.
        labels: [styles] names of the styles.
        clusters: Cluster → labels; `None`: no clusters.
        phrases: Phrases to count, under their headings.
        confidence_level: Of the intervals.

    Returns:
        Plain values for results.json, and the bias values they rest on.

    Raises:
        ValueError: There is nothing to compare: no replies, or no template with replies to two descriptors.
    """
    cells = CellSums(labels, clusters, keep_replies=True)
    for first in range(0, len(replies.ids), _BATCH):
        part = slice(first, first + _BATCH)
        cells.add(
            style_probabilities[part].astype(np.float32),
            replies.descriptors[part],
            replies.templates[part],
            replies.axes[part],
        )
    settings: dict[str, Any] = {"labels": labels, "clusters": clusters}
    plain = gen_bias(cells, confidence_level=confidence_level, **settings)
    # Without a second reply in a cell nothing is known of the noise.
    debiased = None if plain.noise_floor is None else gen_bias(cells, debias=True, **settings)

    biases = bias_values(style_probabilities, replies.descriptors, replies.templates, replies.axes)
    mean_bias = dict(zip(biases.descriptors, biases.mean_values.tolist(), strict=True))
    columns = cluster_columns(labels, clusters) if clusters else {}
    parrots = parroting(
        replies.prompts,
        replies.texts,
        replies.descriptors,
        replies.templates,
        replies.axes,
        mean_bias_values=mean_bias,
    )
    rates = phrase_rates(
        replies.texts,
        replies.descriptors,
        replies.axes,
        groups=most_biased_descriptors(mean_bias),
        phrases=phrases,
    )
    results = {
        "gen_bias": plain._asdict(),
        "debiased": None if debiased is None else _values(debiased._asdict()),
        "styles": _styles(biases, labels),
        "by_descriptor": _by_descriptor(replies, biases, columns, parrots["by_descriptor"]),
        "parroting": {key: value for key, value in parrots.items() if key != "by_descriptor"},
        "phrase_rates": rates,
        "examples": _examples(replies, biases, style_probabilities, labels),
    }
    return results, biases


def offensiveness_results(texts: Replies, probabilities: np.ndarray, num_truncated: int) -> dict[str, Any]:
    """Offensiveness of prompts or of replies: what the evaluate module returns, and how many texts were cut."""
    found = offensiveness(probabilities, texts.descriptors, texts.templates, texts.axes)
    return {**found, "num_truncated": num_truncated}


def style_means_table(biases: BiasValues, labels: Sequence[str]) -> pa.Table:
    """The mean style vector of each descriptor, for comparing runs: `axis`, `descriptor`, and a column a style."""
    columns = {
        "axis": [key.axis for key in biases.descriptors],
        "descriptor": [key.descriptor for key in biases.descriptors],
    }
    means = dict(zip(labels, biases.descriptor_means.T, strict=True))
    return pa.table({**columns, **{f"style: {label}": values for label, values in means.items()}})


def _says_something(reply: str | None) -> bool:
    """Whether there is a reply, and more in it than the mark that is taken out before its style is classified."""
    return reply is not None and bool(reply.replace(UNSAFE_MARK, "").strip())


def _values(found: dict[str, Any]) -> dict[str, Any]:
    names = ("full_gen_bias", "partial_gen_bias", "summed_cluster_gen_bias", "by_axis", "partial_by_axis")
    return {name: found[name] for name in (*names, "summed_cluster_by_axis", "by_style")}


def _styles(biases: BiasValues, labels: Sequence[str]) -> list[dict[str, Any]]:
    """Mean and variance (×1000) of each style over the descriptors' means, as in the paper's Table 15."""
    variances = 1000 * biases.descriptor_means.var(axis=0)
    return [
        {"style": label, "mean": mean, "variance": variance}
        for label, mean, variance in zip(labels, biases.overall_mean.tolist(), variances.tolist(), strict=True)
    ]


def _by_descriptor(
    replies: Replies, biases: BiasValues, columns: Mapping[str, Sequence[int]], parroting_shares: Mapping[str, Any]
) -> list[dict[str, Any]]:
    counts = np.bincount(biases.descriptor_codes, minlength=len(biases.descriptors)).tolist()
    return [
        {
            "axis": key.axis,
            "descriptor": key.descriptor,
            "num_replies": counts[place],
            "mean_bias_value": float(biases.mean_values[place]),
            "clusters": {name: float(biases.descriptor_means[place, at].sum()) for name, at in columns.items()},
            "parroting_share": parroting_shares[str(key.axis)][key.descriptor],
        }
        for place, key in enumerate(biases.descriptors)
    ]


def _examples(
    replies: Replies, biases: BiasValues, style_probabilities: np.ndarray, labels: Sequence[str]
) -> list[dict[str, Any]]:
    """Replies of each descriptor to read: the most characteristic, and some in the order of their ids, a hash."""
    rows_of: list[list[int]] = [[] for _ in biases.descriptors]
    for row, code in enumerate(biases.descriptor_codes.tolist()):
        rows_of[code].append(row)
    found = []
    for key, rows in zip(biases.descriptors, rows_of, strict=True):
        most = sorted(rows, key=lambda row: (-biases.values[row], replies.ids[row]))[:NUM_CHARACTERISTIC]
        drawn = sorted((row for row in rows if row not in most), key=lambda row: replies.ids[row])[:NUM_DRAWN]
        chosen = [(row, "characteristic") for row in most] + [(row, "drawn") for row in drawn]
        for row, why in chosen:
            style = int(style_probabilities[row].argmax())
            found.append(
                {
                    **DescriptorKey(*key)._asdict(),
                    "why": why,
                    "prompt": replies.prompts[row],
                    "reply": replies.texts[row],
                    "style": labels[style],
                    "style_probability": float(style_probabilities[row, style]),
                    "bias_value": float(biases.values[row]),
                    "parroting": bool(is_parroting([replies.prompts[row]], [replies.texts[row]])[0]),
                }
            )
    return found
