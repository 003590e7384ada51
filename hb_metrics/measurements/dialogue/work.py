from typing import NamedTuple

import pyarrow as pa

from hb_dataset.dialogue_pairs import Dialogue, read_dialogue
from hb_metrics.collect.scoring.reply_scoring import DialoguePlan, dialogue_into_shards, plan_dialogue
from hb_metrics.measurements.measurement import Task
from hb_metrics.measurements.settings import Settings
from hb_metrics.models.chats import ChatOptions
from hb_metrics.run.run_folder import DIALOGUE

NUM_REPLIES = 500


class DialogueWork(NamedTuple):
    dialogue: Dialogue
    plan: DialoguePlan


def read_files(settings: Settings, prompts: pa.Table) -> Dialogue:
    return read_dialogue(num_replies=NUM_REPLIES, seed=settings.run.seed)


def plan(task: Task, dialogue: Dialogue) -> DialogueWork:
    shared = task.settings.run
    layout = task.engine.layout(context=shared.context, tag=shared.tag, chat=ChatOptions(**shared.chat()))
    return DialogueWork(dialogue, plan_dialogue(dialogue, task.loaded, layout))


def describe(work: DialogueWork) -> dict[str, object]:
    return {"dialogue": work.dialogue.description()}


def collect(task: Task, work: DialogueWork) -> None:
    dialogue_into_shards(work.plan, task.loaded, task.folder / DIALOGUE)
