"""A run of measure.py that can be stopped at any stage: its shards are small, so that there are several at each.

For fork_server.py, which starts it in processes of their own.
"""

import os
import signal
import time

# What is imported, loaded and compiled here would otherwise be in each run anew.
import profanity_check  # noqa: F401
from transformers.models.bert import modeling_bert  # noqa: F401
from transformers.models.llama import modeling_llama  # noqa: F401

import hb_metrics.collect.scoring.reply_scoring
import hb_metrics.measurements.generation.work
import hb_metrics.measurements.likelihood.work
import hb_metrics.report.page
from hb_dataset.dialogue_pairs import DialoguePairs
from hb_metrics import measure
from hb_metrics.collect import shards, units
from hb_metrics.collect.classifiers import classifier
from hb_metrics.collect.replies import decoding_shards
from hb_metrics.collect.scoring import scoring_shards
from hb_metrics.command import measuring
from hb_metrics.layout import rendering
from hb_metrics.measurements import identity_leakage
from hb_metrics.measurements.dialogue import work as dialogue_work
from hb_metrics.measurements.judge import work as judge_work
from hb_metrics.measurements.offensiveness import work as offensiveness_work
from hb_metrics.measurements.regard import continuations

# Drawing from the chit-chat dataset takes seconds.
DIALOGUE = DialoguePairs(
    ids=[f"made:{number}" for number in range(48)],
    prompts=[f"Do you have {number} cats?" for number in range(48)],
    replies=["No, but I have a dog." * (1 + number % 3) for number in range(48)],
    source="made",
    num_skipped={},
)
STYLES = hb_metrics.measurements.generation.work.load_style_classifier()
for template in rendering._ENVIRONMENT.list_templates(extensions=["jinja"]):
    if not template.startswith(("layout/", "measurements/")):  # also found without this folder
        rendering._ENVIRONMENT.get_template(template)


def main(options, writes=None, stalled=None, machines=False):
    """With `writes`, the first process to make so many files kills them all before the last one has its name.

    The process whose rank is `stalled` takes ten minutes to decode a batch.
    """
    hb_metrics.measurements.generation.work.load_style_classifier = lambda *_, **__: STYLES
    units.MAX_POSITIONS = 16
    scoring_shards.UNITS_PER_SHARD = 2
    decoding_shards.ROWS_PER_SHARD = 16
    classifier.ROWS_PER_SHARD = 16
    judge_work.ROWS_PER_SHARD = 8
    dialogue_work.read_dialogue = lambda **_: DIALOGUE
    offensiveness_work.ROWS_PER_SHARD = 64
    sentences = identity_leakage.shipped_sentences()[:3]
    identity_leakage.shipped_sentences = lambda: sentences
    continuations.MAX_TOKENS, continuations.NUM_SEEDS = 52, 2
    rank = int(os.environ.get("RANK", "0"))
    if machines:
        shards.LATEST = 2
        if rank:
            shards.run_digest = None  # its network file system may not show the record of the run yet
    if writes is not None:
        kill_at_write(writes)
    if stalled == rank:
        decoding_shards.decode = lambda *_: time.sleep(600)
    announce_beginning()
    measure.main(options)


def kill_at_write(number, fsync=os.fsync):
    made = []

    def counted(file):
        fsync(file)
        made.append(file)
        if len(made) == number:
            os.killpg(0, signal.SIGKILL)

    os.fsync = counted


def announce_beginning(measured=measuring.measure):
    def announced(arguments):
        print("begun")
        measured(arguments)

    measuring.measure = announced
