import pyarrow as pa

from hb_dataset.dialogue_pairs import DialoguePairs, read_dialogue
from hb_metrics.collect.scoring.reply_scoring import dialogue_into_shards, plan_dialogue
from hb_metrics.measurements.measurement import Planned, Task
from hb_metrics.measurements.reply_requests import layout_of_run
from hb_metrics.measurements.settings import Settings
from hb_metrics.run.run_folder import DIALOGUE_FOLDER

NUM_REPLIES = 500


def read_files(settings: Settings, prompts: pa.Table) -> DialoguePairs:
    return read_dialogue(num_replies=NUM_REPLIES, seed=settings.run.seed)


def plan(task: Task, dialogue: DialoguePairs) -> Planned:
    scores = plan_dialogue(dialogue, task.loaded, layout_of_run(task.engine, task.settings.run))
    return Planned(
        {"dialogue": dialogue.description()},
        lambda: dialogue_into_shards(scores, task.loaded, task.folder / DIALOGUE_FOLDER),
    )
