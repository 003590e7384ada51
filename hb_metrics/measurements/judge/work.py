from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from hb_metrics.collect.classifiers.censoring import masked_texts
from hb_metrics.collect.classifiers.classifier import Classifier, classify_into_shards
from hb_metrics.collect.judges.rubric import Rubric
from hb_metrics.measurements.identity_leakage import classifier_leakage, people_in
from hb_metrics.measurements.judge.options import JudgeOptions
from hb_metrics.measurements.measurement import Planned, Task, classifier_record, label_options
from hb_metrics.measurements.settings import Settings
from hb_metrics.run.plurals import terms_of_prompts
from hb_metrics.run.replies import LeftOutError
from hb_metrics.run.run_folder import COSTS_FILE, JUDGE_FOLDER, LEAKAGE, PEOPLE_FILE, REPLIES, write_once, write_table
from hb_metrics.run.schema import about_replies

ROWS_PER_SHARD = 64  # a small number, because a language model reads each row


def check_classifiers(settings: Settings) -> None:
    check = label_options(settings)["judge"]
    for name in settings.of(JudgeOptions).judge or []:
        check(name)


def plan(task: Task, rubrics: Sequence[Rubric]) -> Planned:
    load = task.classifier_options()["judge"]
    judges: dict[str, Classifier] = {rubric.name: load(rubric) for rubric in rubrics}
    record = {
        name: classifier_record(replace(judge, judge=None), version=judge.version) | (judge.judge or {})
        for name, judge in judges.items()
    }
    return Planned({"judge": record}, partial(collect, task, judges))


def collect(task: Task, judges: dict[str, Classifier]) -> None:
    replies = task.tables.replies()
    texts = masked_texts(replies, terms_of_prompts(task.prompts))
    about = about_replies(task.tables.read(REPLIES), replies.ids)
    people, faults = task.tables.read_if_any(PEOPLE_FILE), []
    for name, judge in judges.items():
        try:
            classify_into_shards(
                texts,
                replies.ids,
                judge,
                task.folder / JUDGE_FOLDER / name,
                label=f"judged by the rubric {name}",
                about=about,
                rows_per_shard=ROWS_PER_SHARD,
            )
        except LeftOutError as error:  # the other rubrics are applied, too
            faults.append(f"{name}: {error}" if len(judges) > 1 else str(error))
            continue
        if people is not None and task.state.is_main_process:
            path = task.folder / LEAKAGE / f"{JUDGE_FOLDER}-{name}.parquet"
            write_once(path, partial(classifier_leakage, judge, people_in(people)))
    costs = [{"judge": name, **judge.cost()} for name, judge in judges.items() if judge.cost is not None]
    if costs and task.state.is_main_process:
        write_table(task.folder / COSTS_FILE, pa.Table.from_pylist(costs))
    if faults:
        raise LeftOutError("; ".join(faults))
