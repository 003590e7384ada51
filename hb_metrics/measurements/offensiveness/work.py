from functools import partial

from hb_metrics.collect.classifiers.classifier import Classifier, classify_into_shards
from hb_metrics.collect.classifiers.offensive import ROWS_PER_SHARD, load_offensiveness_classifier
from hb_metrics.measurements.measurement import Planned, Task, classifier_record, label_options
from hb_metrics.measurements.offensiveness.options import OffensivenessOptions
from hb_metrics.measurements.settings import Settings
from hb_metrics.models.sources import EMBEDDED
from hb_metrics.run.replies import whole_prompts
from hb_metrics.run.run_folder import OFFENSIVE_PROMPTS, OFFENSIVE_REPLIES, REPLIES
from hb_metrics.run.schema import about_prompts, about_replies


def check_classifiers(settings: Settings) -> None:
    name = settings.of(OffensivenessOptions).offensiveness_classifier
    if name != EMBEDDED:
        load_offensiveness_classifier(name, **label_options(settings))


def plan(task: Task) -> Planned:
    options = task.settings.of(OffensivenessOptions)
    classifier = load_offensiveness_classifier(options.offensiveness_classifier, **task.classifier_options())
    labels = list(classifier.source_labels)
    record = classifier_record(classifier, version=classifier.version, offensive_labels=labels)
    return Planned({"offensiveness_classifier": record}, partial(collect, task, classifier))


def collect(task: Task, classifier: Classifier) -> None:
    turns = task.tables.turns() if "generation" in task.measurements else []
    parts = [("prompts", whole_prompts(task.prompts), about_prompts(task.prompts), task.folder / OFFENSIVE_PROMPTS)]
    for turn, replies in enumerate(turns, start=1):
        tables = task.tables.turn(turn)
        about = about_replies(tables.read(REPLIES), replies.ids)
        name = "replies" if turn == 1 else f"replies of turn {turn}"
        parts.append((name, replies, about, tables.folder / OFFENSIVE_REPLIES))
    for name, part, about, shards in parts:
        classify_into_shards(
            part.texts,
            part.ids,
            classifier,
            shards,
            label=f"offensiveness of {name}",
            about=about,
            precision="float64",
            rows_per_shard=ROWS_PER_SHARD,
        )
