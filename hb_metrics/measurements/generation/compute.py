"""Computes the results of `generation` from the run's tables."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from hb_dataset.names import has_names
from hb_metrics.collect.classifiers.censoring import paired_terms, term_mentioned
from hb_metrics.identity_leakage.leakage import (
    PEOPLE_SCHEMA,
    Leakage,
    identity_leakage,
    leakage_in_replies,
    people_in,
)
from hb_metrics.measurements.generation.nouns import noun_bias, noun_kernels, nouns_of
from hb_metrics.measurements.generation.results import (
    bias_value_table,
    generation_results,
    match_refusals,
    refusals_results,
    refusals_table,
    reply_counts,
    style_means_table,
)
from hb_metrics.measurements.generation.turns import groups_of_names, turn_results
from hb_metrics.measurements.generation.typed_results import Frequencies, Frequency, Generation
from hb_metrics.measurements.results import Run
from hb_metrics.reply_checks.refusal_rules import read_refusal_rules
from hb_metrics.reply_checks.refusal_shares import reply_shares
from hb_metrics.run.finished_run import (
    PAIRS_REASON,
    has_pairs_of_terms,
    read_prompts,
    read_run_table,
    read_vectors,
    stored_replies,
    stored_shards,
    stored_table,
)
from hb_metrics.run.replies import FlaggedReplies, Replies, nonempty_replies
from hb_metrics.run.run_folder import (
    BIAS_VALUES_FILE,
    FREQUENCIES_FILE,
    HIDDEN_STYLES,
    LEAKAGE,
    MENTIONS_FILE,
    PEOPLE_FILE,
    REFUSALS_FILE,
    REPLIES,
    STYLE_MEANS_FILE,
    STYLES,
    plural_forms,
    turn_folder,
    write_table,
)

_COUNTED = ("num_tokens", "truncated", "reasoning", "num_reasoning_tokens", "reasoning_unclosed", "invented_turn")


def compute(run: Run) -> Generation:
    """Computes the results, and writes the tables of style means, bias values and refusals."""
    record, level, folder = run.record, run.confidence_level, run.folder
    classifier, prompts = record.style_classifier, read_prompts(folder, ("descriptor_plural", "noun_gender"))
    table, rules = stored_replies(folder, prompts, _COUNTED), read_refusal_rules()
    replies, forms = nonempty_replies(table), (plural_forms(prompts), paired_terms(prompts))
    vectors = read_vectors(folder / STYLES).values
    refusals = match_refusals(table, replies, rules)
    asked = [
        question or text
        for question, text, kept in zip(
            table["question"].to_pylist(), table["text"].to_pylist(), np.isin(table["id"], replies.ids), strict=True
        )
        if kept
    ]
    labels, are_pairs = classifier.labels, has_pairs_of_terms(prompts)
    nouns, clusters = nouns_of(table, replies.ids), classifier.clusters
    results, biases = generation_results(
        replies, vectors, labels, clusters=clusters, confidence_level=level, asked=asked, nouns=nouns
    )
    write_table(folder / STYLE_MEANS_FILE, style_means_table(biases, labels))
    write_table(folder / BIAS_VALUES_FILE, bias_value_table(replies.ids, biases))
    write_table(folder / REFUSALS_FILE, refusals_table(replies.ids, refusals))
    terms = list(zip(replies.axes, replies.descriptors, strict=True))
    kernels = noun_kernels(vectors, nouns, replies.templates, terms)
    later = range(2, record.generation.turns + 1)
    tables = [
        table,
        *(
            stored_shards(turn_folder(folder, turn) / REPLIES, needed=("id", "text", "reply", *_COUNTED))
            for turn in later
        ),
    ]
    styles = stored_shards(folder / STYLES, ("truncated",))
    return Generation(
        **reply_counts(table, replies),
        num_left_out_prompts=record.generation.num_left_out_prompts,
        num_left_out_templates=len(record.generation.left_out_templates),
        num_cut_for_classifier=sum(styles["truncated"].to_pylist()),
        num_unanswered=int((vectors[:, -1] > 0).sum()) if classifier.judge is not None else None,
        **results._asdict(),
        identity_leakage=_identity_leakage(run, replies, vectors, debias=results.debiased is not None),
        uptake=reply_shares(FlaggedReplies(replies, term_mentioned(replies, *forms)), level),
        nouns=noun_bias(kernels, level, PAIRS_REASON if are_pairs else None),
        name_groups=groups_of_names(prompts, replies, vectors, level) if has_names(prompts) else None,
        refusals=refusals_results(replies, refusals, rules, level, are_pairs=are_pairs, prompts=prompts),
        frequencies=_frequencies(run, prompts),
        turns=None if len(tables) == 1 else turn_results(run, prompts, tables, replies, rules, forms),
    )


def _identity_leakage(run: Run, replies: Replies, vectors: np.ndarray, *, debias: bool) -> Leakage | None:
    people = read_run_table(run.folder / PEOPLE_FILE, PEOPLE_SCHEMA.names)
    mentions = read_run_table(run.folder / MENTIONS_FILE, ("id", "axis", "descriptor"))
    table = read_run_table(run.folder / LEAKAGE / f"{STYLES}.parquet", ("phrase", "probabilities"))
    if people is None or mentions is None or table is None:  # the run has only one term
        return None
    hidden = read_vectors(run.folder / HIDDEN_STYLES) if len(mentions) else None
    in_replies = leakage_in_replies(replies, vectors, mentions, hidden, debias=debias)
    return replace(identity_leakage(table, people_in(people)), in_replies=in_replies)


def _frequencies(run: Run, prompts: pa.Table) -> Frequencies:
    table = stored_table(run.folder / FREQUENCIES_FILE, [*Frequency.__annotations__])
    number = len(prompts.group_by(["axis", "descriptor"]).aggregate([]))
    rows = [Frequency(**row) for row in table.to_pylist()]
    return Frequencies(**vars(run.record.frequencies), num_without=number - len(table), by_descriptor=rows)
