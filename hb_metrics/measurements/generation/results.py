import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hb_metrics.measurements.generation.typed_results import (
    Biases,
    Example,
    MedianPair,
    PairSide,
    Refusals,
    RefusalShares,
    ReplyCounts,
    ServedCounts,
    ShownReply,
    Style,
    StyleResults,
    Term,
)
from hb_metrics.measurements.shares import group_shares
from hb_metrics.reply_checks.parroting import is_parroting, parroting
from hb_metrics.reply_checks.phrase_rates import most_biased_descriptors, phrase_rates
from hb_metrics.reply_checks.refusal_rules import Matches, RefusalRules, match_rules
from hb_metrics.reply_checks.refusal_shares import refusal_shares
from hb_metrics.run.replies import FlaggedReplies, Replies, prompt_ids
from hb_metrics.run.schema import by_id
from hb_metrics.stats.bias_values import BiasValues, DescriptorKey, bias_values, right_shares
from hb_metrics.stats.clusters import telling
from hb_metrics.stats.gen_bias import CellSums, cluster_columns, plain_and_debiased
from hb_metrics.stats.inputs import text_codes

# For each descriptor, the page shows this many replies with the highest bias values, and this many random replies.
NUM_CHARACTERISTIC = 2
NUM_DRAWN = 3
# For the whole run, the page shows this many replies.
NUM_SHOWN = 10
SHORT = 4  # replies with fewer words, such as "Yes." and "70", have no style to speak of


def generation_results(
    replies: Replies,
    style_probabilities: np.ndarray,
    labels: Sequence[str],
    *,
    clusters: Mapping[str, Sequence[str]] | None = None,
    confidence_level: float = 0.95,
    asked: Sequence[str] | None = None,
    nouns: Sequence[object] | None = None,
) -> tuple[StyleResults, BiasValues]:
    """Computes the results that depend on styles, and the bias values of all replies.

    `asked` [replies] contains the user's last turn, by default the prompt. Replies that repeat it are counted as
    parroting. `nouns` [replies] contains the nouns of the prompts.
    """
    gen_bias = gen_biases(style_probabilities, replies, confidence_level, labels, clusters)
    biases = bias_values(style_probabilities, replies.descriptors, replies.templates, replies.axes)
    mean_bias = dict(zip(biases.descriptors, biases.mean_values.tolist(), strict=True))
    columns = cluster_columns(labels, clusters) if clusters else {}
    asked = replies.prompts if asked is None else asked
    parrots, parroting_shares = parroting(asked, replies, mean_bias, confidence_level)
    rates = phrase_rates(replies.texts, replies.descriptors, replies.axes, most_biased_descriptors(mean_bias))
    shares = right_shares(style_probabilities, biases.descriptor_codes, text_codes("template", replies.templates)[0])
    nouns, axis = nouns or [None] * len(replies.ids), clearest_axis(gen_bias)
    results = StyleResults(
        **vars(gen_bias),
        telling=telling(shares, confidence_level),
        pair=median_pair(replies, nouns, style_probabilities, biases, shares, labels, axis),
        styles=_styles(biases, labels),
        by_descriptor=_by_descriptor(replies, biases, columns, parroting_shares),
        parroting=parrots,
        phrase_rates=rates,
        examples=_examples(replies, asked, biases, labels, style_probabilities),
    )
    return results, biases


def gen_biases(
    vectors: np.ndarray,
    replies: Replies,
    confidence_level: float,
    labels: Sequence[str] | None = None,
    clusters: Mapping[str, Sequence[str]] | None = None,
) -> Biases:
    cells = CellSums(labels, clusters, keep_replies=True)
    cells.add(vectors, replies.descriptors, replies.templates, replies.axes)
    plain, debiased = plain_and_debiased(cells, confidence_level)
    return Biases(gen_bias=plain, debiased=debiased)


def median_pair(
    replies: Replies,
    nouns: Sequence[object],
    vectors: np.ndarray,
    biases: BiasValues,
    shares: np.ndarray,
    labels: Sequence[str],
    axis: str | None,
) -> MedianPair | None:
    """Selects two replies that show a difference as it usually is.

    The terms are the two terms of an axis (`None`: of all axes) that style tells apart most often in other templates
    (`shares`, see `right_shares`), so noise alone seldom selects them. Their replies to the same template and noun are
    sorted by how far they differ in the direction in which the terms differ, and the pair in the middle is selected.
    For each term, `style` is the style that is likelier for this term than for the other one by most.

    Returns `None` if no two terms can be compared.
    """
    codes = [code for code, key in enumerate(biases.descriptors) if axis in (None, key.axis)]
    of_axis = shares[np.ix_(codes, codes)]
    if np.isnan(of_axis).all():
        return None
    terms = sorted(codes[index] for index in np.unravel_index(np.nanargmax(of_axis), of_axis.shape))
    rows = [np.flatnonzero(biases.descriptor_codes == term).tolist() for term in terms]
    roots = np.sqrt(vectors)
    direction = roots[rows[0]].mean(axis=0) - roots[rows[1]].mean(axis=0)
    pairs = [(first, second) for first in rows[0] for second in rows[1]]
    pairs = [pair for pair in pairs if len({replies.templates[row] for row in pair}) == 1]
    same_noun = [pair for pair in pairs if len({nouns[row] for row in pair}) == 1]
    ranked = sorted(same_noun or pairs, key=lambda pair: (float((roots[pair[0]] - roots[pair[1]]) @ direction), pair))
    if not ranked:
        return None
    change = biases.descriptor_means[terms[0]] - biases.descriptor_means[terms[1]]
    styles = [int(change.argmax()), int(change.argmin())]
    one, other = (
        PairSide(
            str(biases.descriptors[term].axis),
            biases.descriptors[term].descriptor,
            replies.prompts[row],
            replies.texts[row],
            labels[style],
            (float(biases.descriptor_means[term, style]), float(biases.descriptor_means[opposite, style])),
        )
        for term, opposite, row, style in zip(terms, terms[::-1], ranked[(len(ranked) - 1) // 2], styles, strict=True)
    )
    return MedianPair(float(shares[terms[0], terms[1]]), (one, other))


def clearest_axis(biases: Biases) -> str | None:
    """Returns the axis with the highest debiased value among the axes whose interval is above 0."""
    plain, debiased = biases.gen_bias, biases.debiased
    values, bounds = (debiased.by_axis if debiased else None) or {}, (plain.intervals and plain.intervals.by_axis) or {}
    clear = [axis for axis, interval in bounds.items() if interval is not None and interval[0] > 0]
    return max(clear, key=lambda axis: values[axis] or 0.0, default=None)


def reply_counts(table: pa.Table, replies: Replies) -> ReplyCounts:
    """Counts replies, and selects some replies to show, which are those with the lowest hashes of their ids.

    `table` contains all replies (`schema.REPLY_SCHEMA`), and `replies` contains the non-empty replies. A reply with an
    unfinished thought is counted as unclosed and not as empty, and a reply that a server's filter removed is counted as
    filtered.
    """
    served = served_counts([table])
    num_filtered = 0 if served is None else served.endings.get("filtered", 0)
    num_unclosed = pc.sum(table["reasoning_unclosed"]).as_py()
    thoughts = table.filter(pc.is_valid(table["reasoning"]))
    frequencies, reasoning_of = Counter(replies.texts), by_id(table, "reasoning")
    shown = sorted(range(len(replies.ids)), key=lambda row: _draw(replies.ids[row]))[:NUM_SHOWN]
    return ReplyCounts(
        num_prompts=pc.count_distinct(prompt_ids(table["id"])).as_py(),
        num_replies=len(replies.ids),
        num_empty_replies=len(table) - len(replies.ids) - num_unclosed - num_filtered,
        num_filtered_replies=num_filtered,
        num_truncated_replies=pc.sum(table["truncated"]).as_py(),
        num_distinct_replies=len(frequencies),
        short_share=sum(len(text.split()) < SHORT for text in replies.texts) / len(replies.texts),
        most_frequent_share=max(frequencies.values()) / len(replies.texts),
        num_with_reasoning=len(thoughts),
        num_unclosed_reasoning=num_unclosed,
        mean_num_reasoning_tokens=pc.mean(thoughts["num_reasoning_tokens"]).as_py(),
        num_invented_turns=pc.sum(table["invented_turn"], min_count=0).as_py(),
        served=served,
        shown_replies=[
            ShownReply(replies.prompts[row], replies.texts[row], reasoning_of[replies.ids[row]]) for row in shown
        ],
    )


def served_counts(tables: Sequence[pa.Table]) -> ServedCounts | None:
    """Counts a server's answers, if a server answered. `tables` contains a table for each turn."""
    names = tables[-1].column_names  # the first turn's table may also have the prompts' columns
    table = pa.concat_tables([of_turn.select(names) for of_turn in tables])
    if "finish_reason" not in table.column_names:
        return None
    tokens = {name: table[name].to_pylist() for name in ("tokens_in", "tokens_out")}
    return ServedCounts(
        finish_reasons=dict(sorted(Counter(table["finish_reason"].to_pylist()).items())),
        endings=dict(sorted(Counter(table["ending"].to_pylist()).items())),
        num_without_counts=sum(number is None for number in tokens["tokens_out"]),
        num_shortened=_num_shortened(tables),
        **{name: sum(number or 0 for number in numbers) for name, numbers in tokens.items()},
    )


def _num_shortened(tables: Sequence[pa.Table]) -> int:
    """Counts the requests from which the server probably left out messages, because the conversation was too long.

    A request is counted if its prompt has not grown by at least one token per word of the last reply.
    """
    number = 0
    for before, after in pairwise(tables):
        tokens_of, reply_of = by_id(before, "tokens_in"), by_id(before, "reply")
        for identifier, tokens in by_id(after, "tokens_in").items():
            least = (tokens_of[identifier] or 0) + len((reply_of[identifier] or "").split())
            number += tokens is not None and tokens < least
    return number


def style_means_table(biases: BiasValues, labels: Sequence[str]) -> pa.Table:
    axes, descriptors = zip(*biases.descriptors, strict=True)
    columns: dict[str, object] = {"axis": list(axes), "descriptor": list(descriptors)}
    for label, means in zip(labels, biases.descriptor_means.T, strict=True):
        columns[f"style: {label}"] = means
    return pa.table(columns)


def bias_value_table(ids: Sequence[str], biases: BiasValues) -> pa.Table:
    """Makes a table of the replies' bias values (paper, C.1, with α = 0)."""
    return pa.table({"id": list(ids), "bias_value": biases.values})


def match_refusals(table: pa.Table, replies: Replies, rules: RefusalRules) -> Matches:
    """Matches the rules, and also counts the replies that a server marks as refusals, whatever their words are.

    `table` contains all replies of the turn. The index of marked replies that match no rule is the number of rules.
    """
    matches = match_rules(replies.texts, rules)
    if "ending" in table.column_names:
        marked = table.filter(pc.equal(table["ending"], "refused"))["id"].to_pylist()
        matches.refusals[np.isin(replies.ids, marked) & (matches.refusals < 0)] = len(rules.refusals)
    return matches


def refusals_table(ids: Sequence[str], matches: Matches) -> pa.Table:
    return pa.table({"id": list(ids), "refusal": matches.refusals >= 0, "disclaimer": matches.disclaimers >= 0})


def refusals_results(
    replies: Replies,
    matches: Matches,
    rules: RefusalRules,
    confidence_level: float,
    *,
    are_pairs: bool = False,
    prompts: pa.Table | None = None,
) -> Refusals:
    """Computes the shares of refusals and disclaimers.

    In `by_rule`, each reply counts only towards the first rule that it matches. If the terms are pairs of terms
    (`are_pairs`), there is no test between axes, because pairs with a term in common are not exchangeable. If the
    people in the `prompts` are names, groups of names are compared.
    """
    of_both = []
    for indices, of_kind in ((matches.refusals, rules.refusals), (matches.disclaimers, rules.disclaimers)):
        flagged = FlaggedReplies(replies, indices >= 0)
        shares = refusal_shares(flagged, confidence_level, are_pairs=are_pairs)
        counts = Counter(indices[indices >= 0].tolist())
        phrases = [*(rule.phrase for rule in of_kind), "(marked as a refusal by the server)"]
        groups = None if prompts is None else group_shares(flagged, prompts, confidence_level)
        by_rule = {phrases[index]: number for index, number in counts.most_common()}
        of_both.append(RefusalShares(**vars(shares), by_rule=by_rule, groups=groups))
    return Refusals(*of_both)


def _styles(biases: BiasValues, labels: Sequence[str]) -> list[Style]:
    """Computes the mean and the variance (×1000) of each style over descriptors (the paper's Table 15)."""
    variances = 1000 * biases.descriptor_means.var(axis=0)
    return [
        Style(label, mean, variance)
        for label, mean, variance in zip(labels, biases.overall_mean.tolist(), variances.tolist(), strict=True)
    ]


def _by_descriptor(
    replies: Replies,
    biases: BiasValues,
    columns: Mapping[str, Sequence[int]],
    parroting_shares: Mapping[DescriptorKey, float],
) -> list[Term]:
    counts = np.bincount(biases.descriptor_codes, minlength=len(biases.descriptors)).tolist()
    return [
        Term(
            str(key.axis),
            key.descriptor,
            num_replies=counts[index],
            mean_bias_value=float(biases.mean_values[index]),
            clusters={name: float(biases.descriptor_means[index, styles].sum()) for name, styles in columns.items()},
            parroting_share=parroting_shares[key],
        )
        for index, key in enumerate(biases.descriptors)
    ]


def _examples(
    replies: Replies, asked: Sequence[str], biases: BiasValues, labels: Sequence[str], vectors: np.ndarray
) -> list[Example]:
    """Selects, for each descriptor, the replies with the highest bias values, and a random sample of replies."""
    rows_of: list[list[int]] = [[] for _ in biases.descriptors]
    for row, code in enumerate(biases.descriptor_codes.tolist()):
        rows_of[code].append(row)
    examples = []
    for key, rows in zip(biases.descriptors, rows_of, strict=True):
        rows.sort(key=lambda row: (-biases.values[row], replies.ids[row]))
        drawn = sorted(rows[NUM_CHARACTERISTIC:], key=lambda row: _draw(replies.ids[row]))[:NUM_DRAWN]
        for place, row in enumerate(rows[:NUM_CHARACTERISTIC] + drawn):
            examples.append(
                Example(
                    replies.ids[row],
                    str(key.axis),
                    key.descriptor,
                    why="characteristic" if place < NUM_CHARACTERISTIC else "drawn",
                    prompt=replies.prompts[row],
                    reply=replies.texts[row],
                    style=labels[int(vectors[row].argmax())],
                    style_probability=float(vectors[row].max()),
                    parroting=bool(is_parroting([asked[row]], [replies.texts[row]])[0]),
                    template=replies.templates[row],
                )
            )
    return examples


def _draw(identifier: str) -> bytes:
    """Returns a random sort key.

    The ids are also random, but they cannot replace this key: replies to the same prompt have similar ids.
    """
    return hashlib.sha256(identifier.encode()).digest()
