from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from hb_dataset.filled_prompts import own_terms
from hb_dataset.frequency import read_frequencies
from hb_dataset.prompts import config_vocabulary
from hb_metrics.collect.classifiers.censoring import Terms, masked_texts
from hb_metrics.collect.classifiers.classifier import Classifier, classify_into_shards
from hb_metrics.collect.classifiers.styles import clusters_for, load_style_classifier
from hb_metrics.collect.engines.engine import Plan
from hb_metrics.collect.replies.requests import next_turn, note_marks
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.identity_leakage import (
    classifier_leakage,
    hidden_texts,
    mention_table,
    mentions_in,
    people_of,
    people_table,
)
from hb_metrics.measurements.measurement import Planned, Task, classifier_record, label_options
from hb_metrics.measurements.reply_requests import Asked, ask
from hb_metrics.measurements.settings import Settings
from hb_metrics.models.sources import EMBEDDED
from hb_metrics.run.plurals import terms_of_prompts
from hb_metrics.run.replies import (
    LeftOutError,
    Replies,
    are_comparable,
    later_replies,
    no_replies,
    nonempty_replies,
    with_prompts,
)
from hb_metrics.run.run_folder import (
    FREQUENCIES_FILE,
    HIDDEN_STYLES,
    LEAKAGE,
    MENTIONS_FILE,
    PEOPLE_FILE,
    REPLIES,
    STYLES,
    turn_folder,
    write_once,
    write_table,
)
from hb_metrics.run.schema import about_replies

DEFAULT_FREQUENCIES = Path(__file__).parents[3] / "hb_dataset" / "frequencies" / "chitchat.csv"
FREQUENCY_SCHEMA = pa.schema(
    [("axis", pa.string()), ("descriptor", pa.string()), ("per_million", pa.float64()), ("one_word", pa.bool_())]
)


def check_classifiers(settings: Settings) -> None:
    options = settings.of(GenerationOptions)
    if options.style_classifier != EMBEDDED or options.style_clusters is not None:
        classifier = load_style_classifier(options.style_classifier, **label_options(settings))
        clusters_for(classifier.labels, options.style_clusters)


def plan(task: Task) -> Planned:
    options = task.settings.of(GenerationOptions)
    asked = ask(task.settings, task.prompts, task.engine)
    plan = task.engine.plan_replies(asked.requests)
    classifier = load_style_classifier(options.style_classifier, **task.classifier_options())
    frequencies = Path(options.frequencies or DEFAULT_FREQUENCIES)
    generation = plan.description()
    if asked.requests.cue != "prompt":
        generation["left_out_templates"] = asked.left_out_templates
        generation["num_left_out_prompts"] = asked.num_left_out
    if asked.requests.layout.tuned_with is not None:
        generation["tuned_with"] = asked.requests.layout.tuned_with
    record = {
        "generation": {**generation, "ignored_settings": asked.ignored or None},
        "style_classifier": classifier_record(
            classifier,
            num_styles=len(classifier.labels),
            labels=list(classifier.labels),
            multi_label=classifier.multi_label,
            temperature=classifier.temperature,
            clusters=clusters_for(classifier.labels, options.style_clusters),
        ),
        "frequencies": {"source": frequencies.name, "is_default": frequencies == DEFAULT_FREQUENCIES},
    }
    return Planned(record, partial(collect, task, asked, plan, classifier, frequencies))


def collect(task: Task, asked: Asked, plan: Plan, classifier: Classifier, frequencies: Path) -> None:
    folder, prompts = task.folder, asked.prompts
    table = task.engine.reply(plan, folder / REPLIES)
    whole = with_prompts(table, prompts)
    num_replies, replies = len(nonempty_replies(whole).ids), task.tables.styled_replies(whole)
    if not num_replies:
        raise no_replies(table, plan.description()["max_reasoning_tokens"])
    if not are_comparable(replies):
        few = f"only {len(replies.ids):,} of {len(table):,} replies are not empty"
        few += " and state no decision" * (len(replies.ids) < num_replies)
        raise LeftOutError(f"{few}, and no template has replies for two terms; read them in the run's folder")
    terms = terms_of_prompts(prompts)
    texts = masked_texts(replies, terms)
    about = about_replies(table, replies.ids)
    classify_into_shards(texts, replies.ids, classifier, folder / STYLES, label="styles", about=about)
    tables = [table, *_converse(task, asked, classifier, table, replies, terms)]
    _collect_leakage(task, classifier, table, replies, texts)
    if task.state.is_main_process:
        for of_turn in tables:
            note_marks(of_turn)
        write_table(folder / FREQUENCIES_FILE, _frequencies(frequencies, task.prompts))


def _converse(
    task: Task, asked: Asked, classifier: Classifier, table: pa.Table, first: Replies, terms: Terms
) -> Iterator[pa.Table]:
    """Generates and classifies the replies of later turns that are not on disk yet, and yields all replies of each.

    `table` contains all replies of the first turn, and `first` its non-empty replies. The conversations end before the
    first turn in which no replies can be compared.
    """
    requests = asked.requests
    for turn in range(2, requests.turns + 1):
        task.state.print(f"turn {turn} of {requests.turns}")
        requests, folder = next_turn(requests, table), turn_folder(task.folder, turn)
        plan = task.engine.plan_replies(requests)
        table = task.engine.reply(plan, folder / REPLIES)
        replies = later_replies(first, table)
        if not are_comparable(replies):
            task.state.print(
                f"warning: at turn {turn}, only {len(replies.ids):,} of {len(first.ids):,} conversations have a reply, "
                f"and no template has replies for two terms, so only the {turn - 1} earlier turns are measured"
            )
            return
        texts = masked_texts(replies, terms)
        about, label = about_replies(table, replies.ids), f"styles of turn {turn}"
        classify_into_shards(texts, replies.ids, classifier, folder / STYLES, label=label, about=about)
        yield table


def _collect_leakage(
    task: Task, classifier: Classifier, table: pa.Table, replies: Replies, texts: Sequence[str]
) -> None:
    """Writes the classifier's reactions to terms in plain sentences and in replies.

    `table` contains all replies, and `texts` those in `replies`, in which the prompt's term is masked.
    """
    shared, folder = task.settings.run, task.folder
    vocabulary = config_vocabulary(shared.dataset_config, shared.vocabulary_dir)
    own = own_terms(vocabulary, shared.term_list or ())
    people = people_of(task.prompts, replace(vocabulary, descriptors=(*vocabulary.descriptors, *own)))
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


def _frequencies(path: Path, prompts: pa.Table) -> pa.Table:
    """Returns the frequency of each of the run's terms that the file contains."""
    known = read_frequencies(path)
    keys = dict.fromkeys(zip(*(prompts[name].to_pylist() for name in ("axis", "descriptor")), strict=True))
    rows = [{"axis": axis, "descriptor": term, **known[axis, term]} for axis, term in keys if (axis, term) in known]
    return pa.Table.from_pylist(rows, FREQUENCY_SCHEMA)
