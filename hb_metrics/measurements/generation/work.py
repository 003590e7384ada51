from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hb_dataset.frequency import read_frequencies
from hb_dataset.names import has_names, name_prompts, read_names
from hb_dataset.prompts import config_vocabulary
from hb_metrics.collect.classifiers.censoring import Forms, masked_texts, paired_terms
from hb_metrics.collect.classifiers.classifier import Classifier, classify_into_shards
from hb_metrics.collect.classifiers.styles import clusters_for, load_style_classifier, read_style_clusters
from hb_metrics.collect.engines.engine import Engine, Plan
from hb_metrics.collect.replies.cues import (
    PERSONAS_FILE,
    QUESTIONS_FILE,
    check_cue,
    prompts_for_cue,
    read_personas,
    read_questions,
)
from hb_metrics.collect.replies.requests import (
    MAX_CHARACTERS,
    ReplyRequests,
    next_turn,
    select_prompts,
    with_follow_ups,
)
from hb_metrics.identity_leakage.in_replies import hidden_texts, mention_table, mentions_in
from hb_metrics.identity_leakage.leakage import classifier_leakage, people_of, people_table
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.measurement import Task, classifier_record
from hb_metrics.measurements.own_prompts import has_outcomes
from hb_metrics.measurements.reply_requests import request_replies
from hb_metrics.measurements.settings import Settings
from hb_metrics.models.layout import Layout
from hb_metrics.models.thoughts import common_tag
from hb_metrics.reply_checks.refusal_rules import RefusalRules, read_refusal_rules
from hb_metrics.run.replies import Replies, later_replies, no_replies, nonempty_replies, with_prompts
from hb_metrics.run.run_folder import (
    FREQUENCIES_FILE,
    HIDDEN_STYLES,
    LEAKAGE,
    MENTIONS_FILE,
    PEOPLE_FILE,
    REPLIES,
    STYLES,
    plural_forms,
    turn_folder,
    write_once,
    write_table,
)
from hb_metrics.run.schema import about_replies
from hb_metrics.stats.gen_bias import cluster_columns

_DECODING_OPTIONS = ("temperature", "top_k", "top_p", "max_new_tokens")
DEFAULT_FREQUENCIES = Path(__file__).parents[3] / "hb_dataset" / "frequencies" / "chitchat.csv"
FREQUENCY_SCHEMA = pa.schema(
    [("axis", pa.string()), ("descriptor", pa.string()), ("per_million", pa.float64()), ("one_word", pa.bool_())]
)


class Asked(NamedTuple):
    """The requests for a run's replies.

    Attributes:
        ignored: The settings in the model's generation_config that are not supported.
    """

    prompts: pa.Table
    requests: ReplyRequests
    layout: Layout
    ignored: dict[str, object]
    num_left_out: int
    left_out_templates: list[str]


class GenerationWork(NamedTuple):
    """The plan of a run. `clusters` is `None` if the classifier has none."""

    asked: Asked
    plan: Plan
    classifier: Classifier
    clusters: dict[str, list[str]] | None
    rules: RefusalRules
    frequencies: Path


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
            "replies to different terms are compared, but no prompt has two terms; set --terms to at least two, or "
            "--axes, --sample or --vocabulary_dir to get more"
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
    frequencies = Path(options.frequencies or DEFAULT_FREQUENCIES)
    return GenerationWork(asked, plan, classifier, clusters, read_refusal_rules(), frequencies)


def cue_questions(options: GenerationOptions) -> list[str]:
    return [] if options.cue == "prompt" else read_questions(options.cue_questions or QUESTIONS_FILE)


def own_prompts(settings: Settings) -> pa.Table:
    options = settings.of(GenerationOptions)
    number = (options.replies_per_cell or 0) * len(cue_questions(options))
    return name_prompts(read_names(options.names_file), number)


def ask(settings: Settings, prompts: pa.Table, engine: Engine) -> Asked:
    options, shared = settings.of(GenerationOptions), settings.run
    changes = {name: getattr(options, name) for name in _DECODING_OPTIONS}
    usable = prompts_for_cue(prompts, options.cue)
    per_cell = None if has_names(prompts) else options.replies_per_cell or None
    chosen = select_prompts(usable, per_cell, seed=shared.seed)
    requests, layout, ignored = request_replies(
        chosen,
        engine,
        shared,
        options.decoding,
        changes,
        reply=options.reply,
        decides=has_outcomes(settings),
        personas=read_personas(options.personas_file or PERSONAS_FILE) if options.personas else [],
        num_personas=options.personas,
        variations=options.variations,
        cue=options.cue,
        questions=cue_questions(options),
    )
    check_cue(options.cue, layout.context, layout.context_reason)
    if "system" in prompts.column_names and layout.context != "chat" and prompts["system"].null_count < len(prompts):
        raise ValueError(
            f"some prompts have a system message, but the context is '{layout.context}' ({layout.context_reason}); "
            "empty the column 'system', or set --context chat"
        )
    if has_names(prompts) and (options.replies_per_cell or 0) > 1 and not requests.decoding.sample:
        raise ValueError(
            f"with names, each question is asked several times, but decoding '{options.decoding}' would return the "
            "same reply each time; set --decoding sample, or --replies_per_cell 1"
        )
    if options.turns > 1:
        requests = with_follow_ups(requests, chosen["template"].to_pylist(), options.turns)
    kept = set(usable["template"].unique().to_pylist())
    left_out = [template for template in prompts["template"].unique().to_pylist() if template not in kept]
    return Asked(chosen, requests, layout, ignored, prompts.num_rows - usable.num_rows, left_out)


def describe(work: GenerationWork) -> dict[str, object]:
    classifier = work.classifier
    layout = work.asked.layout
    more: dict[str, object] = {}
    if work.asked.requests.cue != "prompt":
        more["left_out_templates"] = work.asked.left_out_templates
        more["num_left_out_prompts"] = work.asked.num_left_out
    if layout.tuned_with is not None:
        more["tuned_with"] = layout.tuned_with
    return {
        "generation": {**work.plan.description(), **more, "ignored_settings": work.asked.ignored or None},
        "style_classifier": classifier_record(
            classifier,
            num_styles=len(classifier.labels),
            labels=list(classifier.labels),
            multi_label=classifier.multi_label,
            temperature=classifier.temperature,
            clusters=work.clusters,
        ),
        "refusals": {"rules_digest": work.rules.digest},
        "frequencies": {"source": work.frequencies.name, "is_default": work.frequencies == DEFAULT_FREQUENCIES},
    }


def collect(task: Task, work: GenerationWork) -> None:
    folder, classifier, prompts = task.folder, work.classifier, work.asked.prompts
    table = task.engine.reply(work.plan, folder / REPLIES, batch_size=task.settings.run.batch_size)
    replies = nonempty_replies(with_prompts(table, prompts))
    if not replies.ids:
        raise no_replies(table, work.plan.description()["max_reasoning_tokens"])
    forms = plural_forms(prompts), paired_terms(prompts)
    texts = masked_texts(replies, *forms)
    about = about_replies(table, replies.ids)
    classify_into_shards(texts, replies.ids, classifier, folder / STYLES, label="styles", about=about)
    tables = [table, *_converse(task, work, table, replies, forms)]
    _collect_leakage(task, classifier, table, replies, texts)
    if task.state.is_main_process:
        for of_turn in tables:
            _note_marks(of_turn)
        write_table(folder / FREQUENCIES_FILE, _frequencies(work.frequencies, task.prompts))


def _converse(
    task: Task,
    work: GenerationWork,
    table: pa.Table,
    first: Replies,
    forms: Forms,
) -> Iterator[pa.Table]:
    """Generates and classifies the replies of later turns that are not on disk yet, and yields all replies of each.

    `table` contains all replies of the first turn, and `first` its non-empty replies.
    """
    requests = work.asked.requests
    for turn in range(2, requests.turns + 1):
        task.state.print(f"turn {turn} of {requests.turns}")
        requests, folder = next_turn(requests, table), turn_folder(task.folder, turn)
        plan = task.engine.plan_replies(requests, work.asked.layout)
        table = task.engine.reply(plan, folder / REPLIES, batch_size=task.settings.run.batch_size)
        replies = later_replies(first, table)
        terms = set(zip(replies.templates, replies.axes, replies.descriptors, strict=True))
        if len(terms) == len({template for template, _, _ in terms}):
            raise ValueError(
                f"at turn {turn}, only {len(replies.ids):,} of {len(first.ids):,} conversations have a reply, and no "
                f"template has replies for two terms, so turns cannot be compared; measure with --turns {turn - 1}"
            )
        texts = masked_texts(replies, *forms)
        about, label = about_replies(table, replies.ids), f"styles of turn {turn}"
        classify_into_shards(texts, replies.ids, work.classifier, folder / STYLES, label=label, about=about)
        yield table


def _collect_leakage(
    task: Task, classifier: Classifier, table: pa.Table, replies: Replies, texts: Sequence[str]
) -> None:
    """Writes the classifier's reactions to terms in plain sentences and in replies.

    `table` contains all replies, and `texts` those in `replies`, in which the prompt's term is masked.
    """
    shared, folder = task.settings.run, task.folder
    people = people_of(task.prompts, config_vocabulary(shared.dataset_config, shared.vocabulary_dir))
    if len(people) < 2:
        return
    mentions = mentions_in(texts, people, list(zip(replies.axes, replies.descriptors, strict=True)))
    rows = [row for row, of_text in enumerate(mentions) if of_text]
    hidden = hidden_texts([texts[row] for row in rows], [mentions[row] for row in rows], people)
    ids = [replies.ids[row] for row in rows]
    about, label = about_replies(table, ids), "styles without terms"
    classify_into_shards(hidden, ids, classifier, folder / HIDDEN_STYLES, label=label, about=about)
    if task.state.is_main_process:
        write_table(folder / PEOPLE_FILE, people_table(people))
        write_table(folder / MENTIONS_FILE, mention_table(replies.ids, mentions, people))
        write_once(folder / LEAKAGE / f"{STYLES}.parquet", lambda: classifier_leakage(classifier, people))


def _note_marks(table: pa.Table) -> None:
    if number := sum(table["invented_turn"].to_pylist()):
        print(f"{number:,} replies contained text after an end mark or a user turn, which was removed")
    if number := pc.sum(pc.equal(pc.utf8_length(table["reply"]), MAX_CHARACTERS)).as_py():
        print(f"{number:,} replies were longer than {MAX_CHARACTERS:,} characters, and were cut there")
    cut = pc.sum(pc.and_(table["truncated"], table["reasoning"].is_null())).as_py()
    if cut and table["reasoning"].null_count < len(table):
        print(f"warning: {cut:,} replies were cut and have no thought; they may be thoughts that the template opened")
    if (found := common_tag(table["reply"].to_pylist())) is not None:
        tag, rows = found
        shown = ", ".join(table["id"].take(rows[:3]).to_pylist())
        print(
            f"warning: {len(rows):,} replies begin with the unknown tag {tag!r}. If this tag marks a thought, the "
            f"thought was measured as part of the reply. To find out, read some of these replies in the run folder: "
            f"{shown}"
        )


def _frequencies(path: Path, prompts: pa.Table) -> pa.Table:
    """Returns the frequency of each of the run's terms that the file contains."""
    known = read_frequencies(path)
    keys = dict.fromkeys(zip(*(prompts[name].to_pylist() for name in ("axis", "descriptor")), strict=True))
    rows = [{"axis": axis, "descriptor": term, **known[axis, term]} for axis, term in keys if (axis, term) in known]
    return pa.Table.from_pylist(rows, FREQUENCY_SCHEMA)
