"""Defines the results of `generation`, and computes those on replies and refusals.

Bias values are multiplied by 1000. Shares and probabilities are from 0 to 1.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hb_dataset.matching import UNSPACED
from hb_metrics.measurements.generation.name_groups import NameGroups
from hb_metrics.measurements.generation.nouns import Nouns
from hb_metrics.measurements.generation.styles import Biases, StyleResults, random_key
from hb_metrics.measurements.identity_leakage import Leakage
from hb_metrics.measurements.shares import GroupShares, TurnShares, group_shares
from hb_metrics.reply_checks.refusal_rules import KINDS, Matches, RefusalRules, match_rules
from hb_metrics.reply_checks.refusal_shares import ComparedShares, Shares, refusal_shares
from hb_metrics.run.record import CONFIDENCE_LEVEL
from hb_metrics.run.replies import RatedReplies, Replies, prompt_ids
from hb_metrics.run.run_folder import REFUSALS_FILE
from hb_metrics.run.schema import by_id
from hb_metrics.run.tables import Tables, has_pairs_of_terms
from hb_metrics.stats.changes import PairedChange

# For the whole run, the page shows this many replies.
NUM_SHOWN = 10
SHORT = 4  # replies with fewer words, such as "Yes." and "70", have no style to speak of
SHORT_SHARE = 0.5  # from this share of short replies on, style is not judged
_UNSPACED = re.compile(rf"[{UNSPACED}](?<=\w)")  # each of these letters counts as a word


@dataclass(frozen=True)
class ShownReply:
    prompt: str
    reply: str
    reasoning: str | None


@dataclass(frozen=True)
class ServedCounts:
    """A server's answers.

    Attributes:
        finish_reasons: The number of answers with each finish reason.
        endings: The number of answers with each ending, which is derived from the finish reason.
        num_shortened: The number of requests from which the server probably left out messages.
    """

    finish_reasons: dict[str, int]
    endings: dict[str, int]
    num_shortened: int
    tokens_in: int
    tokens_out: int


@dataclass(frozen=True, kw_only=True)
class ReplyCounts:
    """The numbers of replies, and some random replies.

    Attributes:
        num_filtered_replies: The number of replies that a server's filter removed.
        num_truncated_replies: The number of replies that were cut at the maximum length. `None` if it is unknown.
        num_decisions: The number of replies whose style does not count, because they state decisions.
        short_share: The share of the other replies with fewer words than `SHORT`.
        most_frequent_share: The share of replies that are the most frequent reply.
        num_unclosed_reasoning: The number of prompts without a reply because a thought did not end.
        num_invented_turns: The number of replies whose text after the model's turn was removed.
    """

    num_prompts: int
    num_replies: int
    num_empty_replies: int
    num_filtered_replies: int
    num_truncated_replies: int | None
    num_distinct_replies: int
    num_decisions: int
    short_share: float
    most_frequent_share: float
    num_with_reasoning: int
    num_unclosed_reasoning: int
    mean_num_reasoning_tokens: float | None
    num_invented_turns: int
    served: ServedCounts | None = None
    shown_replies: list[ShownReply]


@dataclass(frozen=True)
class RefusalShares(ComparedShares):
    """The shares of refusals, disclaimers or empty replies.

    `by_rule` counts each reply only for the first rule that it matches.
    """

    by_rule: dict[str, int]
    groups: GroupShares | None = None


@dataclass(frozen=True)
class Refusals:
    refusals: RefusalShares
    disclaimers: RefusalShares


@dataclass(frozen=True)
class Frequency:
    """The uses of a descriptor in a million training examples."""

    axis: str
    descriptor: str
    per_million: float
    one_word: bool


@dataclass(frozen=True, kw_only=True)
class Turns:
    """The values by turn, over the conversations that have a reply at every turn.

    Attributes:
        name_groups: The bias between groups of names in each turn. `None` if the prompts have no names.
        num_ended: The number of conversations that ended early.
        num_unclosed_reasoning: The number of conversations that ended because a thought did not end.
        change: The change in debiased Full Gen Bias from the first turn to the last. `None` if a value is unknown.
        change_by_axis: The change for the terms of each axis.
    """

    name_groups: list[NameGroups] | None = None
    num_conversations: int
    num_ended: int
    num_unclosed_reasoning: int
    served: ServedCounts | None = None
    by_turn: list[Biases]
    change: PairedChange | None
    change_by_axis: dict[str, PairedChange]
    uptake: TurnShares
    refusals: TurnShares


@dataclass(frozen=True, kw_only=True)
class Generation(StyleResults, ReplyCounts):
    """The results of `generation`. All values are for the first turn, except `turns`.

    Attributes:
        num_unanswered: The number of replies without an answer, if the style classifier is a judge.
        uptake: The share of replies that name the prompt's term.
        refusal_rules: A digest of the rules that detect refusals and disclaimers.
        empty: The share of prompts without a reply, for whatever reason. Runs of older versions lack it.
        empty_by_turn: The share of conversations with a reply at the previous turn that have none at this turn. It also
            covers a turn that is not measured, because no template has replies for two terms.
    """

    num_cut_for_classifier: int
    num_unanswered: int | None = None
    identity_leakage: Leakage | None
    uptake: Shares
    nouns: Nouns
    name_groups: NameGroups | None = None
    refusals: Refusals
    refusal_rules: str
    empty: RefusalShares | None = None
    empty_by_turn: TurnShares | None = None
    frequencies: list[Frequency]
    turns: Turns | None = None

    @property
    def num_turns(self) -> int:
        """Returns the number of measured turns, which end before the first turn without replies to compare."""
        return 1 if self.turns is None else len(self.turns.by_turn)


def reply_counts(table: pa.Table, replies: Replies, styled: Replies) -> ReplyCounts:
    """Counts replies, and selects some replies to show, which are those with the lowest hashes of their ids.

    `table` contains all replies (`schema.REPLY_SCHEMA`), `replies` the non-empty ones, and `styled` those whose style
    counts. A reply with an unfinished thought is counted as unclosed and not as empty, and a reply that a server's
    filter removed is counted as filtered.
    """
    served = served_counts([table])
    num_filtered = 0 if served is None else served.endings.get("filtered", 0)
    num_unclosed = pc.sum(table["reasoning_unclosed"]).as_py()
    thoughts = table.filter(pc.is_valid(table["reasoning"]))
    frequencies, reasoning_of = Counter(replies.texts), by_id(table, "reasoning")
    shown = sorted(range(len(replies.ids)), key=lambda row: random_key(replies.ids[row]))[:NUM_SHOWN]
    return ReplyCounts(
        num_prompts=pc.count_distinct(prompt_ids(table["id"])).as_py(),
        num_replies=len(replies.ids),
        num_empty_replies=len(table) - len(replies.ids) - num_unclosed - num_filtered,
        num_filtered_replies=num_filtered,
        num_truncated_replies=pc.sum(table["truncated"]).as_py(),
        num_distinct_replies=len(frequencies),
        num_decisions=len(replies.ids) - len(styled.ids),
        short_share=sum(map(_is_short, styled.texts)) / len(styled.texts),
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


def _is_short(text: str) -> bool:
    return max(len(text.split()), len(_UNSPACED.findall(text))) < SHORT


def served_counts(tables: Sequence[pa.Table]) -> ServedCounts | None:
    """Counts a server's answers, if a server answered. `tables` contains a table for each turn."""
    names = tables[-1].column_names  # the first turn's table may also have the prompts' columns
    table = pa.concat_tables([of_turn.select(names) for of_turn in tables])
    if "finish_reason" not in table.column_names:
        return None
    return ServedCounts(
        finish_reasons=dict(sorted(Counter(table["finish_reason"].to_pylist()).items())),
        endings=dict(sorted(Counter(table["ending"].to_pylist()).items())),
        num_shortened=_num_shortened(tables),
        **{name: pc.sum(table[name], min_count=0).as_py() for name in ("tokens_in", "tokens_out")},
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


def refusal_flags(tables: Tables, replies: Replies) -> dict[str, RatedReplies]:
    """Flags refusals and disclaimers among a run's non-empty replies.

    The result is empty if the run has no file of refusals. Raises a ValueError if the file lacks a reply.
    """
    table = tables.read_if_any(REFUSALS_FILE, ("id", "refusal", "disclaimer"))
    if table is None:
        return {}
    rows = pc.index_in(pa.array(replies.ids, pa.string()), table["id"])
    if rows.null_count:
        raise ValueError(
            f"'{tables.folder / REFUSALS_FILE}' lacks replies of the run; run `holistic-bias analyse` on it"
        )
    flags = table.take(rows)
    return {kind.capitalize(): RatedReplies(replies, flags[kind.removesuffix("s")].to_numpy()) for kind in KINDS}


def refusals_results(replies: Replies, matches: Matches, rules: RefusalRules, prompts: pa.Table) -> Refusals:
    """Computes the shares of refusals and disclaimers.

    If the terms are pairs of terms, there is no test between axes, because pairs with a term in common are not
    exchangeable. If the people in the prompts are names, groups of names are compared.
    """
    of_both = []
    for indices, of_kind in ((matches.refusals, rules.refusals), (matches.disclaimers, rules.disclaimers)):
        counts = Counter(indices[indices >= 0].tolist())
        phrases = [*(rule.phrase for rule in of_kind), "(marked as a refusal by the server)"]
        by_rule = {phrases[index]: number for index, number in counts.most_common()}
        of_both.append(flagged_shares(RatedReplies(replies, indices >= 0), by_rule, prompts))
    return Refusals(*of_both)


def flagged_shares(flagged: RatedReplies, by_rule: dict[str, int], prompts: pa.Table) -> RefusalShares:
    shares = refusal_shares(flagged, CONFIDENCE_LEVEL, are_pairs=has_pairs_of_terms(prompts))
    return RefusalShares(**vars(shares), by_rule=by_rule, groups=group_shares(flagged, prompts))
