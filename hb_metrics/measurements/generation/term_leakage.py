"""Collects the style classifier's reactions to terms."""

from collections.abc import Sequence

import pyarrow as pa

from hb_dataset.prompts import config_vocabulary
from hb_metrics.collect.classifiers.classifier import Classifier, classify_into_shards
from hb_metrics.identity_leakage.leakage import (
    classifier_leakage,
    hidden_texts,
    mention_table,
    mentions_in,
    people_of,
    people_table,
)
from hb_metrics.measurements.measurement import Task
from hb_metrics.run.replies import Replies
from hb_metrics.run.run_folder import (
    HIDDEN_STYLES,
    LEAKAGE,
    MENTIONS_FILE,
    PEOPLE_FILE,
    STYLES,
    write_once,
    write_table,
)
from hb_metrics.run.schema import about_replies


def collect_leakage(
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
