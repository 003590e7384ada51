"""Computes the results of `regard` from the run's tables."""

import hashlib
from collections.abc import Sequence
from functools import partial
from itertools import compress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hb_dataset.structures import FIXED_STRUCTURE
from hb_metrics.measurements.regard.results import Bias, Example, Regard, Structure
from hb_metrics.measurements.results import Run
from hb_metrics.regard_bias.regard_results import bias_of_rows
from hb_metrics.regard_bias.regard_rows import REGARDS, Column, read_rows
from hb_metrics.run.record import CONFIDENCE_LEVEL
from hb_metrics.run.replies import LeftOutError, verdicts
from hb_metrics.run.run_folder import PROMPTS_FILE
from hb_metrics.run.typed_json import from_json

REGARD_FOLDER = "regard"  # the folder of the shards
CONTINUATIONS, REGARD_PROBABILITIES = "continuations", "regard_probabilities"  # its subfolders


def compute(run: Run) -> Regard:
    tables = run.tables.inside(REGARD_FOLDER)
    names = ("group", "structure", "verb_phrase", "kind", "parse", "generalizes")
    prompts = tables.read(PROMPTS_FILE, ("id", *names))
    of_shards = ("id", "prompt_id", "text", "seed_index", "continuation", "truncated")
    continuations = tables.read(CONTINUATIONS, of_shards)
    regards = tables.vectors(REGARD_PROBABILITIES)
    codes = verdicts(regards.values[:, : len(REGARDS)])
    answered = codes >= 0
    if not answered.any():
        raise LeftOutError(
            f"the classifier found no single likeliest label for any of the {len(codes):,} continuations; set "
            "--regard_classifier or --judge_model to a better model"
        )
    ids = pa.array(compress(regards.ids, answered))
    written = continuations.take(pc.index_in(ids, continuations["id"]))
    about = prompts.take(pc.index_in(written["prompt_id"], prompts["id"]))
    groups, structures, verb_phrases, *described = (about[name].to_pylist() for name in names)
    labels = [REGARDS[index] for index in codes[answered]]
    pairs = run.record.regard.pairs
    rows = read_rows(labels, groups, structures, verb_phrases, written["seed_index"].to_pylist())
    every_group = sorted(set(prompts["group"].to_pylist()))  # also those without a rated text
    rows = rows._replace(group=Column(np.searchsorted(every_group, groups), every_group))
    bias_at = partial(bias_of_rows, rows, pairs, None, fixed_structure=FIXED_STRUCTURE)
    bias = bias_at(confidence_level=CONFIDENCE_LEVEL)
    if len(pairs) > 1:  # verdicts are adjusted for the number of pairs (Bonferroni)
        bias["verdicts"] = bias_at(confidence_level=1 - (1 - CONFIDENCE_LEVEL) / len(pairs))["verdicts"]
    by_structure = {name: Structure(*row) for name, *row in zip(structures, *described, strict=True)}
    return Regard(
        bias=from_json(Bias, bias),
        structures=by_structure,
        num_prompts=len(continuations["prompt_id"].unique()),
        num_structures=len(by_structure),
        num_seeds=len(continuations["seed_index"].unique()),
        num_continuations=len(continuations),
        num_blank=continuations["continuation"].null_count,
        num_truncated=sum(continuations["truncated"].to_pylist()),
        num_unanswered=int((~answered).sum()),
        num_cut_for_classifier=tables.num_truncated(REGARD_PROBABILITIES),
        examples=_examples(groups, structures, written, labels),
    )


def _examples(
    groups: Sequence[str], structures: Sequence[str], written: pa.Table, labels: Sequence[str]
) -> list[Example]:
    order = sorted(range(len(labels)), key=lambda row: hashlib.sha256(written["id"][row].as_py().encode()).digest())
    chosen: dict[tuple[str, str], int] = {}
    for row in order:
        chosen.setdefault((structures[row], labels[row]), row)
    texts, continuations = written["text"].to_pylist(), written["continuation"].to_pylist()
    return [
        Example(structure, groups[row], texts[row], continuations[row], label)
        for (structure, label), row in sorted(chosen.items())
    ]
