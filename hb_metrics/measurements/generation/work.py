from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hb_dataset.frequency import read_frequencies
from hb_dataset.names import NAME_CUES, name_prompts, read_names
from hb_dataset.prompts import config_vocabulary
from hb_metrics.identity_leakage.in_replies import run_leakage
from hb_metrics.identity_leakage.leakage import classifier_leakage, people_of
from hb_metrics.inference.classifiers.censoring import masked_texts, paired_terms, term_mentioned
from hb_metrics.inference.classifiers.classifier import Classifier, classify_into_shards
from hb_metrics.inference.classifiers.styles import clusters_for, load_style_classifier, read_style_clusters
from hb_metrics.inference.engines.engine import Engine, Plan
from hb_metrics.inference.models.contexts import PERSONAS_FILE, read_personas
from hb_metrics.inference.models.layout import Layout
from hb_metrics.inference.models.thoughts import common_tag
from hb_metrics.inference.replies.cues import QUESTIONS_FILE, check_cue, prompts_for_cue, read_questions
from hb_metrics.inference.replies.requests import MAX_CHARACTERS, ReplyRequests, select_prompts
from hb_metrics.inference.replies.turns import with_follow_ups
from hb_metrics.measurements.generation.nouns import noun_bias, noun_kernels, nouns_of
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.generation.results import (
    bias_value_table,
    generation_results,
    refusals_results,
    refusals_table,
    reply_counts,
    style_means_table,
)
from hb_metrics.measurements.generation.turns import converse, groups_of_names, turn_results
from hb_metrics.measurements.measurement import Task, classifier_record
from hb_metrics.measurements.reply_requests import request_replies
from hb_metrics.measurements.settings import Settings
from hb_metrics.reply_checks.refusal_rules import RefusalRules, match_rules, read_refusal_rules
from hb_metrics.reply_checks.refusal_shares import reply_shares
from hb_metrics.runs.finished_run import PAIRS_REASON, has_pairs_of_terms, read_vectors
from hb_metrics.runs.replies import FlaggedReplies, Replies, no_replies, nonempty_replies, replied_prompts
from hb_metrics.runs.run_folder import (
    BIAS_VALUES_FILE,
    REFUSALS_FILE,
    REPLIES,
    STYLE_MEANS_FILE,
    STYLES,
    plural_forms,
    write_table,
)
from hb_metrics.stats.gen_bias import cluster_columns

_DECODING_OPTIONS = ("temperature", "top_k", "top_p", "max_new_tokens")
DEFAULT_FREQUENCIES = Path(__file__).parents[3] / "hb_dataset" / "frequencies" / "chitchat.csv"


class Asked(NamedTuple):
    """The requests for a run's replies.

    Attributes:
        ignored: The settings in the model's generation_config that are not supported.
    """

    prompts: pa.Table
    requests: ReplyRequests
    layout: Layout
    ignored: dict[str, Any]
    num_left_out: int
    left_out_templates: list[str]


class GenerationWork(NamedTuple):
    """The plan of a run. `clusters` is `None` if the classifier has none."""

    asked: Asked
    plan: Plan
    classifier: Classifier
    clusters: dict[str, list[str]] | None
    rules: RefusalRules


def read_files(settings: Settings, prompts: pa.Table) -> None:
    options = settings.of(GenerationOptions)
    for path, read in (
        (options.frequencies, read_frequencies),
        (options.personas_file, read_personas),
        (options.cue_questions, read_questions),
        (options.style_clusters, read_style_clusters),
    ):
        if path is not None:
            read(path)
    usable = prompts_for_cue(prompts, options.cue)
    cells = usable.group_by(["template", "axis", "descriptor"]).aggregate([])
    if len(cells) == len(cells["template"].unique()):
        raise ValueError(
            "measurement 'generation' compares the replies to different terms, but no template has two terms; set "
            "--axes, --sample or --vocabulary_dir to get more terms, or remove generation from --measurements"
        )


def plan(task: Task, files: None) -> GenerationWork:
    options = task.settings.of(GenerationOptions)
    asked = ask(task.settings, task.prompts, task.engine)
    plan = task.engine.plan_replies(asked.requests, asked.layout)
    classifier = load_style_classifier(options.style_classifier, **task.classifier_options())
    if options.style_clusters is None:
        clusters = clusters_for(classifier.labels)
    else:
        clusters = read_style_clusters(options.style_clusters)
        cluster_columns(classifier.labels, clusters)  # raises an error for labels that the classifier does not have
    return GenerationWork(asked, plan, classifier, clusters, read_refusal_rules())


def own_prompts(settings: Settings) -> pa.Table:
    options = settings.of(GenerationOptions)
    questions = read_questions(options.cue_questions or QUESTIONS_FILE)
    return name_prompts(read_names(options.names_file), (options.replies_per_cell or 0) * len(questions))


def ask(settings: Settings, prompts: pa.Table, engine: Engine) -> Asked:
    options, shared = settings.of(GenerationOptions), settings.run
    changes = {name: getattr(options, name) for name in _DECODING_OPTIONS}
    usable = prompts_for_cue(prompts, options.cue)
    per_cell = None if options.cue in NAME_CUES else options.replies_per_cell or None
    chosen = select_prompts(usable, per_cell, seed=shared.seed)
    requests, layout, ignored = request_replies(
        chosen,
        engine,
        shared,
        options.decoding,
        changes,
        reply=options.reply,
        personas=read_personas(options.personas_file or PERSONAS_FILE) if options.personas else [],
        num_personas=options.personas,
        variations=options.variations,
        cue=options.cue,
        questions=() if options.cue == "prompt" else read_questions(options.cue_questions or QUESTIONS_FILE),
    )
    check_cue(options.cue, layout.context, layout.context_reason)
    if options.cue in NAME_CUES and not requests.decoding.sample:
        raise ValueError(
            f"--cue {options.cue} asks each question several times, but decoding '{options.decoding}' would return the "
            "same reply each time; set --decoding sample"
        )
    if options.turns > 1:
        requests = with_follow_ups(requests, chosen["template"].to_pylist(), options.turns)
    kept = set(usable["template"].unique().to_pylist())
    left_out = [template for template in prompts["template"].unique().to_pylist() if template not in kept]
    return Asked(chosen, requests, layout, ignored, prompts.num_rows - usable.num_rows, left_out)


def describe(work: GenerationWork) -> dict[str, Any]:
    classifier = work.classifier
    layout = work.asked.layout
    more: dict[str, Any] = {}
    if work.asked.requests.cue != "prompt":
        more["left_out_templates"] = work.asked.left_out_templates
    if layout.tuned_with is not None:
        more["tuned_with"] = layout.tuned_with
    return {
        "generation": {**work.plan.description(), **more, "ignored_settings": work.asked.ignored or None},
        "style_classifier": classifier_record(
            classifier,
            num_styles=len(classifier.labels),
            multi_label=classifier.multi_label,
            temperature=classifier.temperature,
            clusters=work.clusters,
        ),
        "refusals": {"rules_digest": work.rules.digest},
    }


def measure(task: Task, work: GenerationWork, results: Mapping[str, Any]) -> dict[str, Any]:
    options, folder, classifier = task.settings.of(GenerationOptions), task.folder, work.classifier
    forms = plural_forms(work.asked.prompts), paired_terms(work.asked.prompts)

    table = task.engine.reply(work.plan, folder / REPLIES, batch_size=task.settings.run.batch_size)
    prompts = replied_prompts(work.asked.prompts, table)
    replies = nonempty_replies(prompts, table)
    if not replies.ids:
        raise no_replies(table, work.plan.description()["max_reasoning_tokens"])
    classified = replies._replace(texts=masked_texts(replies, *forms))
    styles = classify_into_shards(classified.texts, replies.ids, classifier, folder / STYLES, label="styles")
    tables, turns = converse(task, work.asked.requests, work.asked.layout, table, replies, classifier, forms)
    if styles is None or not task.state.is_main_process:
        return {}
    for of_turn in tables:
        _note_marks(of_turn)
    level, terms = task.settings.run.confidence_level, list(zip(replies.axes, replies.descriptors, strict=True))
    refusals = match_rules(replies.texts, work.rules)
    questions = dict(zip(table["id"].to_pylist(), table["question"].to_pylist(), strict=True))
    asked = [questions[id] or prompt for id, prompt in zip(replies.ids, replies.prompts, strict=True)]
    vectors = read_vectors(folder / STYLES).values
    are_pairs = has_pairs_of_terms(prompts)
    kernels = noun_kernels(vectors, nouns_of(prompts, replies.ids), replies.templates, terms)
    results, biases = generation_results(
        replies,
        vectors,
        classifier.labels,
        clusters=work.clusters,
        confidence_level=level,
        asked=asked,
    )
    write_table(folder / STYLE_MEANS_FILE, style_means_table(biases, classifier.labels))
    write_table(folder / BIAS_VALUES_FILE, bias_value_table(replies.ids, biases))
    write_table(folder / REFUSALS_FILE, refusals_table(replies.ids, refusals))
    return {
        **reply_counts(table, replies),
        "num_left_out_prompts": work.asked.num_left_out,
        "num_left_out_templates": len(work.asked.left_out_templates),
        "num_cut_for_classifier": sum(styles["truncated"].to_pylist()),
        **({} if classifier.judge is None else {"num_unanswered": int((~classifier.answered(vectors)).sum())}),
        **results,
        "identity_leakage": _identity_leakage(task, classifier, classified, vectors, results),
        "uptake": reply_shares(FlaggedReplies(replies, term_mentioned(replies, *forms)), level),
        "nouns": noun_bias(kernels, level, PAIRS_REASON if are_pairs else None),
        **({"name_groups": groups_of_names(task, replies, vectors)} if options.cue in NAME_CUES else {}),
        "refusals": refusals_results(replies, refusals, work.rules, level, are_pairs=are_pairs),
        "frequencies": _frequencies(options.frequencies, task.prompts),
        **({} if len(turns) == 1 else {"turns": turn_results(task, tables, turns, work.rules, forms)}),
    }


def _note_marks(table: pa.Table) -> None:
    if number := sum(table["invented_turn"].to_pylist()):
        print(f"{number:,} replies contained text after an end mark or a user turn, which was removed")
    if number := pc.sum(pc.equal(pc.utf8_length(table["reply"]), MAX_CHARACTERS)).as_py():
        print(f"{number:,} replies were longer than {MAX_CHARACTERS:,} characters, and were cut there")
    is_cut = pc.and_not(pc.and_(table["truncated"], table["reasoning"].is_null()), table["reasoning_unclosed"])
    if table["reasoning"].null_count < len(table) and (number := pc.sum(is_cut).as_py()):
        print(
            f"warning: {number:,} replies without a thought were cut, although other replies have thoughts. They may "
            "be unfinished thoughts that the chat template opened; raise --max_reasoning_tokens"
        )
    if (found := common_tag(table["reply"].to_pylist())) is not None:
        tag, rows = found
        shown = ", ".join(table["id"].take(rows[:3]).to_pylist())
        print(
            f"warning: {len(rows):,} replies begin with the unknown tag {tag}. If this tag marks a thought, the "
            f"thought was measured as part of the reply. To find out, read some of these replies in the run folder: "
            f"{shown}"
        )


def _identity_leakage(
    task: Task, classifier: Classifier, replies: Replies, vectors: np.ndarray, results: dict[str, Any]
) -> dict[str, Any] | None:
    shared = task.settings.run
    people = people_of(task.prompts, config_vocabulary(shared.dataset_config, shared.vocabulary_dir))
    if len(people) < 2:
        return None
    leakage = classifier_leakage(classifier, people)
    in_replies = run_leakage(
        replies.texts,
        vectors,
        replies.descriptors,
        replies.templates,
        replies.axes,
        people,
        classifier.probabilities,
        debias=results["debiased"] is not None,
    )
    return {**leakage, "in_replies": in_replies}


def _frequencies(file: str | None, prompts: pa.Table) -> dict[str, Any]:
    path = DEFAULT_FREQUENCIES if file is None else Path(file)
    known = read_frequencies(path)
    keys = dict.fromkeys(zip(prompts["axis"].to_pylist(), prompts["descriptor"].to_pylist(), strict=True))
    rows = []
    for axis, descriptor in keys:
        if (axis, descriptor) in known:
            rows.append({"axis": axis, "descriptor": descriptor, **known[axis, descriptor]})
    return {
        "source": path.name,
        "is_default": file is None,
        "num_without": len(keys) - len(rows),
        "by_descriptor": rows,
    }
