import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import huggingface_hub
import numpy as np
import torch

from hb_metrics.inference.classifiers.classifier import Classification, Classifier
from hb_metrics.inference.engines.local import LocalEngine
from hb_metrics.inference.judges.local import LocalJudge
from hb_metrics.inference.judges.prompt import VERSION, Prompt, prompt_for
from hb_metrics.inference.judges.rubric import NO_ANSWER, Rubric, read_rubric
from hb_metrics.inference.models.loading import load_model
from hb_metrics.inference.models.sources import EMBEDDED

_CUT = 0.75  # the factor by which a text is shortened until its prompt fits
# The folder for answers that do not belong to a run.
_ANSWERS = Path(huggingface_hub.constants.HF_HOME) / "holistic_bias" / "judges"


class JudgeSource(NamedTuple):
    """The language model that judges: a model as for `--model` or, with a `base_url`, the server's name for the model.

    `seed` determines the order of the letters. `folder` is the folder for a server's answers; `None` means a cache.
    """

    model: str = EMBEDDED
    base_url: str | None = None
    concurrency: int = 8
    seed: int = 0
    folder: Path | None = None


def load_judge(
    rubric: Rubric | str, source: JudgeSource, *, device: str | torch.device = "cpu", trust_remote_code: bool = False
) -> Classifier:
    """Loads a judge as a classifier. Its labels are those of the rubric and `NO_ANSWER`.

    `NO_ANSWER` has probability 1 if the judge's answer was none of the letters, and 0 otherwise.
    """
    rubric = read_rubric(rubric) if isinstance(rubric, str) else rubric
    reader: Any
    if source.base_url is None:
        reader = LocalJudge(_loaded(source.model, str(device), trust_remote_code), rubric)
    else:
        from hb_metrics.inference.judges.served import ServedJudge
        from hb_metrics.inference.served.connect import make_server

        server = make_server(source.model, source.base_url, None, source.concurrency)
        reader = ServedJudge(server, rubric, (source.folder or _ANSWERS) / rubric.name)
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
        notes=(f"a language model judged by the rubric {rubric.name}, from {reader.reads}; no person checked it",),
        judge=about,
        classify_distinct=lambda texts: by_key(texts, texts),
        classify_by_key=by_key,
        cost=reader.cost,
    )


@cache
def _loaded(model: str, device: str, trust_remote_code: bool) -> LocalEngine:
    return LocalEngine(load_model(model, device=device, trust_remote_code=trust_remote_code))


def _fitting(rubric: Rubric, text: str, seed: int, key: str, reader: Any) -> tuple[Prompt, bool]:
    """Returns the prompt about a text, and whether the text was cut because it was too long for the model."""
    kept = text
    while not reader.fits(prompt := prompt_for(rubric, kept, seed=seed, key=key)):
        if not kept:
            raise ValueError(f"the rubric {rubric.name} exceeds the judge's maximum length; set another --judge_model")
        kept = kept[: int(_CUT * len(kept))]
    return prompt, kept != text
