import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import huggingface_hub
import numpy as np
import torch

from hb_metrics.collect.asking import request_key
from hb_metrics.collect.classifiers.classifier import Classification, Classifier
from hb_metrics.collect.engines.local import load_engine
from hb_metrics.collect.judges.local import LocalJudge
from hb_metrics.collect.judges.rubric import NO_ANSWER, VERSION, Prompt, Rubric, prompt_for, read_rubric
from hb_metrics.models.loading import load_tokenizer
from hb_metrics.models.sources import EMBEDDED
from hb_metrics.run.run_record import served_name

_load_once = cache(load_engine)
_CUT = 0.75  # a text that is too long is repeatedly shortened by this factor until it fits
# The folder for servers' answers if no run stores them.
_ANSWERS = Path(huggingface_hub.constants.HF_HOME) / "holistic_bias" / "judges"


class JudgeSource(NamedTuple):
    """The language model that a judge uses, and its settings.

    Attributes:
        model: A Hub id, a folder or, if there is a `base_url`, the server's name for the model.
        base_url: The address of a server, or `None` to load the model on this machine.
        seed: The seed for the order of the letters in prompts.
        folder: The folder for the server's answers. `None` means a cache that all runs with this server share.
    """

    model: str = EMBEDDED
    base_url: str | None = None
    concurrency: int = 8
    seed: int = 0
    folder: Path | None = None


def load_judge(
    rubric: Rubric | str, source: JudgeSource, *, device: str | torch.device = "cpu", trust_remote_code: bool = False
) -> Classifier:
    """Loads a judge as a classifier. Its labels are the rubric's labels, followed by `NO_ANSWER`.

    The probability of `NO_ANSWER` is 1 if the judge's answer was not the letter of a label, and 0 otherwise.
    """
    rubric = read_rubric(rubric) if isinstance(rubric, str) else rubric
    reader: Any
    if source.base_url is None:
        engine = _load_once(source.model, device=str(device), trust_remote_code=trust_remote_code)
        reader = LocalJudge(engine, rubric)
    else:
        from hb_metrics.collect.judges.served import ServedJudge
        from hb_metrics.models.served.client import make_server

        server = make_server(source.model, source.base_url, None, source.concurrency)
        # Two servers may call different models by the same name.
        folder = source.folder or _ANSWERS / request_key(server.url)
        reader = ServedJudge(server, rubric, folder / rubric.name)
    about = {
        **rubric.description(),
        **reader.about,
        "reads": reader.reads,
        "prompt_version": VERSION,
    }

    def by_key(texts: Sequence[str], keys: Sequence[str]) -> Classification:
        asked = [_fitting(rubric, text, source.seed, key, reader) for text, key in zip(texts, keys, strict=True)]
        read = reader.read([prompt for prompt, _ in asked])
        probabilities = np.zeros((len(texts), len(rubric.labels) + 1))
        for row, (prompt, _) in enumerate(asked):
            if read.answered[row]:
                probabilities[row, prompt.order] = read.probabilities[row]
        probabilities[:, -1] = ~read.answered
        return Classification(probabilities, np.array([cut for _, cut in asked], dtype=bool))

    return Classifier(
        name=f"{about['model']} as judge ({rubric.name})",
        digest=hashlib.sha256(json.dumps([about, source.seed]).encode()).hexdigest(),
        version=reader.version,
        labels=(*rubric.labels, NO_ANSWER),
        source_labels=tuple(rubric.labels),
        is_embedded=source.model == EMBEDDED and source.base_url is None,
        notes=(
            f"it is a language model that applies the rubric {rubric.name}; its probabilities come from {reader.reads} "
            "and were not compared with people's labels",
            *([f"the server answers{name}"] if (name := served_name(source.model, about["served_model"])) else []),
        ),
        judge=about,
        classify_distinct=lambda texts: by_key(texts, texts),
        classify_by_key=by_key,
        cost=reader.cost,
    )


def check_judge(rubric: Rubric | str, source: JudgeSource, *, trust_remote_code: bool = False) -> Classifier:
    """Returns the labels of a judge, and checks that its server answers or that its model exists."""
    rubric = read_rubric(rubric) if isinstance(rubric, str) else rubric
    if source.base_url is not None:
        return load_judge(rubric, source)  # each process tests a server only once
    if source.model != EMBEDDED:
        load_tokenizer(source.model, trust_remote_code=trust_remote_code)
    return Classifier(
        name=f"{source.model} as judge ({rubric.name})",
        digest="",
        version="",
        labels=(*rubric.labels, NO_ANSWER),
        source_labels=tuple(rubric.labels),
        judge=rubric.description(),
    )


def _fitting(rubric: Rubric, text: str, seed: int, key: str, reader: Any) -> tuple[Prompt, bool]:
    kept = text
    while not reader.fits(prompt := prompt_for(rubric, kept, seed=seed, key=key)) and kept:
        kept = kept[: int(_CUT * len(kept))]
    return prompt, kept != text
