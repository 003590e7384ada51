import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hb_metrics.measurements.generation.median_pair import clearest_axis, median_pair
from hb_metrics.measurements.generation.typed_results import (
    Debiased,
    Example,
    MedianPair,
    Refusals,
    RefusalShares,
    ServedCounts,
    ShownReply,
    Style,
    TellingShare,
    Term,
)
from hb_metrics.measurements.group_shares import group_shares
from hb_metrics.reply_checks.parroting import Parroting, is_parroting, parroting
from hb_metrics.reply_checks.phrase_rates import PhraseRates, most_biased_descriptors, phrase_rates
from hb_metrics.reply_checks.refusal_rules import Matches, RefusalRules, match_rules
from hb_metrics.reply_checks.refusal_shares import refusal_shares
from hb_metrics.run.replies import FlaggedReplies, Replies, prompt_ids
from hb_metrics.run.schema import rows_of
from hb_metrics.stats.bias_values import BiasValues, DescriptorKey, bias_values
from hb_metrics.stats.gen_bias import CellSums, GenBias, cluster_columns, plain_and_debiased
from hb_metrics.stats.inputs import text_codes
from hb_metrics.stats.telling import right_shares, telling

# For each descriptor, the page shows this many replies with the highest bias values, and this many random replies.
NUM_CHARACTERISTIC = 2
NUM_DRAWN = 3
# For the whole run, the page shows this many replies.
NUM_SHOWN = 10
SHORT = 4  # replies with fewer words, such as "Yes." and "70", have no style to speak of


class StyleResults(NamedTuple):
    """The results that depend on styles (see `Generation`)."""

    gen_bias: GenBias
    telling: TellingShare
    pair: MedianPair | None
    debiased: Debiased | None
    styles: list[Style]
    by_descriptor: list[Term]
    parroting: Parroting
    phrase_rates: PhraseRates
    examples: list[Example]


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
    cells = CellSums(labels, clusters, keep_replies=True)
    cells.add(style_probabilities, replies.descriptors, replies.templates, replies.axes)
    plain, debiased = plain_and_debiased(cells, confidence_level)

    biases = bias_values(style_probabilities, replies.descriptors, replies.templates, replies.axes)
    mean_bias = dict(zip(biases.descriptors, biases.mean_values.tolist(), strict=True))
    columns = cluster_columns(labels, clusters) if clusters else {}
    asked = replies.prompts if asked is None else asked
    of_prompts = replies.descriptors, replies.templates, replies.axes
    parrots, parroting_shares = parroting(asked, replies.texts, *of_prompts, mean_bias, confidence_level)
    rates = phrase_rates(replies.texts, replies.descriptors, replies.axes, most_biased_descriptors(mean_bias))
    shares = right_shares(style_probabilities, biases.descriptor_codes, text_codes("template", replies.templates)[0])
    nouns, axis = nouns or [None] * len(replies.ids), clearest_axis(plain, debiased)
    of_terms = telling(shares, confidence_level)
    results = StyleResults(
        gen_bias=plain,
        telling=TellingShare(of_terms.value, of_terms.interval, of_terms.reason, confidence_level),
        pair=median_pair(replies, nouns, style_probabilities, biases, shares, labels, axis),
        debiased=None if debiased is None else _without_noise(debiased),
        styles=_styles(biases, labels),
        by_descriptor=_by_descriptor(replies, biases, columns, parroting_shares),
        parroting=parrots,
        phrase_rates=rates,
        examples=_examples(replies, asked, biases, labels, style_probabilities),
    )
    return results, biases


def _without_noise(debiased: GenBias) -> Debiased:
    values = debiased._asdict()
    return Debiased(**{name: values[name] for name in Debiased._fields})


class _Made(NamedTuple):
    """A row of `schema.REPLY_SCHEMA`, as far as it is counted."""

    id: str
    num_tokens: int | None
    truncated: bool | None
    reasoning: str | None
    num_reasoning_tokens: int | None
    reasoning_unclosed: bool
    invented_turn: bool | None


class _Sent(NamedTuple):
    id: str
    tokens_in: int | None
    reply: str | None


def reply_counts(table: pa.Table, replies: Replies) -> dict[str, Any]:
    """Counts replies, and selects some replies to show. Returns attributes of `Generation`.

    `table` contains all replies (`requests.REPLY_SCHEMA`), and `replies` contains the non-empty replies. A reply with
    an unfinished thought is counted as unclosed and not as empty, and a reply that a server's filter removed is counted
    as filtered. Unknown counts are `None`. The replies to show are those with the lowest hashes of their ids.
    """
    served = served_counts([table])
    num_filtered = 0 if served is None else served.endings.get("filtered", 0)
    made = rows_of(table, _Made)
    num_tokens = [row.num_tokens for row in made if row.num_tokens is not None]
    truncated = [row.truncated for row in made if row.truncated is not None]
    num_unclosed = sum(row.reasoning_unclosed for row in made)
    numbers = [row.num_reasoning_tokens for row in made if row.reasoning is not None]
    known_thoughts = [number for number in numbers if number is not None]
    frequencies = Counter(replies.texts)
    reasoning_of = {row.id: row.reasoning for row in made}
    shown = sorted(range(len(replies.ids)), key=lambda row: _draw(replies.ids[row]))[:NUM_SHOWN]
    return {
        "num_prompts": pc.count_distinct(prompt_ids(table["id"])).as_py(),
        "num_replies": len(replies.ids),
        "num_empty_replies": len(table) - len(replies.ids) - num_unclosed - num_filtered,
        "num_filtered_replies": num_filtered,
        "num_truncated_replies": sum(truncated) if truncated else None,
        "num_distinct_replies": len(frequencies),
        "short_share": sum(len(text.split()) < SHORT for text in replies.texts) / max(1, len(replies.texts)),
        "most_frequent_share": max(frequencies.values(), default=0) / max(1, len(replies.ids)),
        "num_with_reasoning": len(numbers),
        "num_unclosed_reasoning": num_unclosed,
        "mean_num_tokens": sum(num_tokens) / len(num_tokens) if num_tokens else None,
        "mean_num_reasoning_tokens": sum(known_thoughts) / len(known_thoughts) if known_thoughts else None,
        "num_invented_turns": sum(bool(row.invented_turn) for row in made) or None,
        "served": served,
        "shown_replies": [
            ShownReply(replies.prompts[row], replies.texts[row], reasoning_of[replies.ids[row]]) for row in shown
        ],
    }


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
        least = {row.id: (row.tokens_in or 0) + len((row.reply or "").split()) for row in rows_of(before, _Sent)}
        number += sum(row.tokens_in is not None and row.tokens_in < least[row.id] for row in rows_of(after, _Sent))
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
    found = match_rules(replies.texts, rules)
    if "ending" in table.column_names:
        marked = table.filter(pc.equal(table["ending"], "refused"))["id"].to_pylist()
        found.refusals[np.isin(replies.ids, marked) & (found.refusals < 0)] = len(rules.refusals)
    return found


def refusals_table(ids: Sequence[str], found: Matches) -> pa.Table:
    return pa.table({"id": list(ids), "refusal": found.refusals >= 0, "disclaimer": found.disclaimers >= 0})


def refusals_results(
    replies: Replies,
    found: Matches,
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
    for indices, of_kind in ((found.refusals, rules.refusals), (found.disclaimers, rules.disclaimers)):
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
                    bias_value=float(biases.values[row]),
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
