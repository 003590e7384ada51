"""Computes the results of `generation` from the run's tables."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from hb_dataset.prompt_columns import has_names
from hb_metrics.collect.classifiers.censoring import term_mentioned
from hb_metrics.measurements.generation.nouns import noun_bias, noun_kernels, nouns_of
from hb_metrics.measurements.generation.results import (
    Frequency,
    Generation,
    flagged_shares,
    match_refusals,
    refusals_results,
    refusals_table,
    reply_counts,
)
from hb_metrics.measurements.generation.styles import style_results
from hb_metrics.measurements.generation.turns import groups_of_names, turn_results
from hb_metrics.measurements.identity_leakage import (
    PEOPLE_SCHEMA,
    Leakage,
    identity_leakage,
    leakage_in_replies,
    people_in,
)
from hb_metrics.measurements.results import Run
from hb_metrics.measurements.shares import turn_shares
from hb_metrics.reply_checks.refusal_rules import read_refusal_rules
from hb_metrics.reply_checks.refusal_shares import reply_shares
from hb_metrics.run.plurals import terms_of_prompts
from hb_metrics.run.record import CONFIDENCE_LEVEL
from hb_metrics.run.replies import (
    RatedReplies,
    Replies,
    all_replies,
    answered_replies,
    are_comparable,
    chosen_replies,
    later_replies,
)
from hb_metrics.run.run_folder import (
    BIAS_VALUES_FILE,
    FREQUENCIES_FILE,
    HIDDEN_STYLES,
    LEAKAGE,
    MENTIONS_FILE,
    PEOPLE_FILE,
    REFUSALS_FILE,
    REPLIES,
    STYLES,
    write_table,
)
from hb_metrics.run.schema import by_id
from hb_metrics.run.tables import PAIRS_REASON, has_pairs_of_terms

_COUNTED = ("truncated", "reasoning", "num_reasoning_tokens", "reasoning_unclosed", "invented_turn")


def compute(run: Run) -> Generation:
    """Computes the results, and writes the tables of style means, bias values and refusals."""
    record, tables = run.record, run.tables
    classifier, prompts = record.style_classifier, tables.prompts("descriptor_plural", "noun_gender")
    table, rules = tables.reply_table(*_COUNTED), read_refusal_rules()
    every, terms_of = all_replies(table), terms_of_prompts(prompts)
    replies = chosen_replies(every.replies, ~every.values)
    styled = tables.styled_replies(table)
    vectors = tables.vectors_of(STYLES, styled.ids)
    if classifier.judge is not None:
        answered_replies(styled, vectors[:, -1] == 0)  # raises an error if no reply has an answer
    refusals = match_refusals(table, replies, rules)
    question_of, text_of = by_id(table, "question"), by_id(table, "text")
    asked = [question_of[identifier] or text_of[identifier] for identifier in styled.ids]
    nouns, clusters = nouns_of(table, styled.ids), classifier.clusters
    order_of = by_id(table, "order") if "order" in table.column_names else {}  # of options, in prompts of your own
    in_order = [(noun, order_of.get(identifier)) for noun, identifier in zip(nouns, styled.ids, strict=True)]
    results, biases = style_results(styled, vectors, classifier.labels, clusters=clusters, asked=asked, nouns=in_order)
    write_table(run.folder / BIAS_VALUES_FILE, pa.table({"id": styled.ids, "bias_value": biases.values}))
    write_table(run.folder / REFUSALS_FILE, refusals_table(replies.ids, refusals))
    terms = list(zip(styled.axes, styled.descriptors, strict=True))
    kernels = noun_kernels(vectors, nouns, styled.templates, terms)
    of_turns, silent, last = [table], [every], styled
    for turn in range(2, record.generation.turns + 1):
        of_turn = tables.turn(turn).read(REPLIES, ("id", "text", "reply", *_COUNTED))
        following = later_replies(last, of_turn)
        silent.append(RatedReplies(last, ~np.isin(last.ids, following.ids)))
        if not are_comparable(following):
            break
        of_turns.append(of_turn)
        last = following
    frequencies = tables.read(FREQUENCIES_FILE, [*Frequency.__annotations__])
    return Generation(
        **vars(reply_counts(table, replies, styled)),
        num_cut_for_classifier=tables.num_truncated(STYLES),
        num_unanswered=int((vectors[:, -1] > 0).sum()) if classifier.judge is not None else None,
        **vars(results),
        identity_leakage=_identity_leakage(run, styled, vectors, debias=results.debiased is not None),
        uptake=reply_shares(RatedReplies(replies, term_mentioned(replies, terms_of)), CONFIDENCE_LEVEL),
        nouns=noun_bias(kernels, PAIRS_REASON if has_pairs_of_terms(prompts) else None),
        name_groups=groups_of_names(prompts, styled, vectors) if has_names(prompts) else None,
        refusals=refusals_results(replies, refusals, rules, prompts),
        refusal_rules=rules.digest,
        empty=flagged_shares(every, {}, prompts),
        empty_by_turn=turn_shares(silent, prompts) if len(silent) > 1 else None,
        frequencies=[Frequency(**row) for row in frequencies.to_pylist()],
        turns=None if len(of_turns) == 1 else turn_results(run, prompts, of_turns, styled, rules, terms_of),
    )


def _identity_leakage(run: Run, replies: Replies, vectors: np.ndarray, *, debias: bool) -> Leakage | None:
    people = run.tables.read_if_any(PEOPLE_FILE, PEOPLE_SCHEMA.names)
    mentions = run.tables.read_if_any(MENTIONS_FILE, ("id", "axis", "descriptor"))
    table = run.tables.read_if_any(f"{LEAKAGE}/{STYLES}.parquet", ("phrase", "probabilities"))
    if people is None or mentions is None or table is None:  # the run has only one term
        return None
    hidden = run.tables.vectors(HIDDEN_STYLES) if len(mentions) else None
    in_replies = leakage_in_replies(replies, vectors, mentions, hidden, debias=debias)
    return replace(identity_leakage(table, people_in(people)), in_replies=in_replies)
