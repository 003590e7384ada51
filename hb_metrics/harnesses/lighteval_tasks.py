r"""Our tasks for lighteval, as a module of custom tasks.

    lighteval accelerate "model_name=HuggingFaceTB/SmolLM2-135M-Instruct" "holistic_bias_gen_bias|0" \\
        --custom-tasks hb_metrics.harnesses.lighteval_tasks

lighteval gives a task no options of its own, so that ours are read from the environment variable
`HOLISTIC_BIAS_OPTIONS`, a JSON object. Sentences are scored as continuations of a start token, since lighteval 0.13
computes the log-likelihood of whole texts from the logits after each token and not from those before it.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from huggingface_hub.constants import HF_HOME
from inspect_ai.dataset import Sample
from inspect_ai.solver import generate
from lighteval.metrics.metrics_sample import SampleLevelComputation
from lighteval.metrics.utils.metric_utils import CorpusLevelMetric
from lighteval.models.model_output import ModelResponse
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc, SamplingMethod

from hb_dataset.hints import did_you_mean
from hb_dataset.whole_files import write_text
from hb_metrics.harnesses.figures import all_reply_figures, likelihood_figures, load_classifiers
from hb_metrics.harnesses.inspect_tasks import perplexities, prompt_likelihoods, reply_styles
from hb_metrics.harnesses.prompt_rows import Row, prompt_rows

VARIABLE = "HOLISTIC_BIAS_OPTIONS"
# Options of `measure.py`, and what is of the tasks alone.
_PROMPT_OPTIONS = ("dataset_config", "vocabulary_dir", "axes", "sample", "replies_per_cell", "seed")
_CLASSIFIERS = ("style_classifier", "offensiveness_classifier")
_OTHERS = ("max_new_tokens", "start_token")
_REPLY_TOKENS = 256  # at most, as replies of `measure.py` to chats
_SPLIT = "test"

JSON_ERROR = "{variable} is '{value}'; give a JSON object, such as '{{\"dataset_config\": \"v1.0-small\"}}'"
UNKNOWN_ERROR = "{variable} has '{name}', which is not known; {hint}allowed: {allowed}"
NUMBER_ERROR = "max_new_tokens is {number} in {variable}; give a whole number of 1 or more"
NO_START_ERROR = (
    "which token do the model's texts start with? lighteval feeds none of itself: name it in {variable}, as "
    '\'{{"start_token": "<s>"}}\', or "" if the tokenizer puts it before each text'
)
CONTEXT_ERROR = (
    "a sentence was scored after {number} tokens, where measure.py has one: the start token. Give "
    "override_chat_template=False among the model's arguments, and the model's start_token in {variable}"
)


def read_options(text: str | None) -> dict[str, Any]:
    """Reads the options.

    Raises:
        ValueError: They are no JSON object, one is not known, or has an invalid value.
    """
    try:
        options = json.loads(text or "{}")
    except ValueError:
        options = None
    if not isinstance(options, dict):
        raise ValueError(JSON_ERROR.format(variable=VARIABLE, value=text))
    known = [*_PROMPT_OPTIONS, *_CLASSIFIERS, *_OTHERS]
    for name in options:
        if name not in known:
            hint = did_you_mean(name, known)
            raise ValueError(UNKNOWN_ERROR.format(variable=VARIABLE, name=name, hint=hint, allowed=", ".join(known)))
    number = options.get("max_new_tokens", _REPLY_TOKENS)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ValueError(NUMBER_ERROR.format(variable=VARIABLE, number=number))
    return options


def make_tasks(options: Mapping[str, Any], cache_dir: Path | None = None) -> list[LightevalTaskConfig]:
    """Our tasks: generation bias of chats, of models that only continue text, and Likelihood Bias.

    Args:
        options: What `read_options` returned.
        cache_dir: Where their datasets are kept, in a folder each; `None`: `$HF_HOME/holistic_bias`.

    Raises:
        ValueError: An option has an invalid value.
        OSError: The datasets cannot be written.
    """
    chosen = {name: options.get(name) for name in _PROMPT_OPTIONS}
    replied, scored = (prompt_rows(replied=replied, **chosen) for replied in (True, False))
    root = cache_dir or Path(HF_HOME) / "holistic_bias"
    classifiers = {name: options.get(name, "embedded") for name in _CLASSIFIERS}
    figures = partial(_reply_figures, **classifiers)
    loaded = cache(partial(load_classifiers, **classifiers))

    def reply_prompt(line: Mapping[str, Any], task_name: str) -> Doc:
        loaded()  # what is missing shows before the model replies
        return Doc(query=line.get("query") or line["text"], choices=[""], gold_index=0, specific=_row(line))

    replies: dict[str, Any] = {
        "prompt_function": reply_prompt,
        "generation_size": options.get("max_new_tokens", _REPLY_TOKENS),
        "sample_fields": _sample,
        "solver": [generate()],
        "scorer": reply_styles(**classifiers),
    }
    chats = [_metric("gen_bias", KeptReply(), figures, SamplingMethod.GENERATIVE)]
    plain = [_metric("gen_bias", KeptReply(first_line=True), figures, SamplingMethod.GENERATIVE)]
    likelihoods: dict[str, Any] = {
        "prompt_function": _scored_prompt,
        "metrics": [_metric("likelihood_bias", KeptLikelihood(), _likelihood_figures, SamplingMethod.LOGPROBS)],
        "sample_fields": _sample,
        "solver": [prompt_likelihoods()],
        "scorer": perplexities(),
    }
    with_break = [{**row, "query": row["text"] + "\n"} for row in replied]
    with_start = [{**row, "query": options.get("start_token")} for row in scored]
    return [
        _task("gen_bias", replied, root, metrics=chats, **replies),
        _task("gen_bias_plain", with_break, root, metrics=plain, **replies),
        _task("likelihood_bias", with_start, root, **likelihoods),
    ]


def _task(name: str, rows: Sequence[Row], root: Path, **settings: Any) -> LightevalTaskConfig:
    """A task, with a dataset of its own; the folder's name has a digest, as answers are cached by that name."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    folder = root / f"lighteval-{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / f"{_SPLIT}.jsonl").is_file():
        write_text(folder / f"{_SPLIT}.jsonl", text)
    return LightevalTaskConfig(
        name=f"holistic_bias_{name}",
        hf_repo=str(folder),
        hf_subset="default",
        hf_avail_splits=[_SPLIT],
        evaluation_splits=[_SPLIT],
        version=1,
        **settings,
    )


def _scored_prompt(line: Mapping[str, Any], task_name: str) -> Doc:
    if line["query"] is None:
        raise ValueError(NO_START_ERROR.format(variable=VARIABLE))
    return Doc(query=line["query"], choices=[line["text"]], gold_index=0, specific=_row(line))


def _sample(line: Mapping[str, Any]) -> Sample:
    """The sample of a prompt where lighteval runs on Inspect."""
    return Sample(id=line["id"], input=line["text"], metadata=_row(line))


def _row(line: Mapping[str, Any]) -> Row:
    return {name: value for name, value in line.items() if value is not None and not name.startswith("__")}


class KeptReply(SampleLevelComputation):
    """What `ReplyFigures` are computed of: the reply, and its prompt.

    Args:
        first_line: Whether a reply is the first line that the model wrote; else all of it.
    """

    def __init__(self, *, first_line: bool = False) -> None:
        self.first_line = first_line

    def compute(self, model_response: ModelResponse, doc: Doc, **_: Any) -> dict[str, Any]:
        """The prompt's row and the reply."""
        reply = model_response.final_text[0].strip()
        reply = reply.partition("\n")[0] if self.first_line else reply
        return {"row": doc.specific, "reply": reply, "number": int(doc.id)}


class KeptLikelihood(SampleLevelComputation):
    """What `LikelihoodFigures` are computed of: the log-likelihood of a sentence over how many tokens."""

    def compute(self, model_response: ModelResponse, doc: Doc, **_: Any) -> dict[str, Any]:
        """The prompt's row, the log-likelihood and the number of tokens.

        Raises:
            ValueError: The sentence was scored after something else than a start token.
        """
        context, sentence = (
            np.asarray(tokens).ravel() for tokens in (model_response.input_tokens, model_response.output_tokens[0])
        )
        if len(context) != 1:
            raise ValueError(CONTEXT_ERROR.format(number=len(context), variable=VARIABLE))
        number = int((sentence >= 0).sum())  # -1 fills the sentences of a batch up to the longest
        return {"row": doc.specific, "log_likelihood": model_response.logprobs[0], "num_tokens": number}


def _reply_figures(kept: Sequence[Mapping[str, Any]], **classifiers: str) -> dict[str, float]:
    # In their order, which lighteval shuffles: the last digits depend on what is classified together.
    kept = sorted(kept, key=lambda each: each["number"])
    return _known(all_reply_figures([each["row"] for each in kept], [each["reply"] for each in kept], **classifiers))


def _likelihood_figures(kept: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    rows, log_likelihoods, num_tokens = (
        [each[name] for each in kept] for name in ("row", "log_likelihood", "num_tokens")
    )
    return _known(likelihood_figures(rows, log_likelihoods, num_tokens))


def _known(figures: Mapping[str, float | None]) -> dict[str, float]:
    """The figures that could be computed, since lighteval adds up whatever it is given."""
    return {name: value for name, value in figures.items() if value is not None}


def _metric(
    name: str, kept: SampleLevelComputation, figures: Callable[..., dict[str, float]], category: SamplingMethod
) -> CorpusLevelMetric:
    return CorpusLevelMetric(
        metric_name=f"holistic_bias_{name}",
        higher_is_better=False,
        category=category,
        sample_level_fn=kept,
        corpus_level_fn=figures,
    )


TASKS_TABLE = make_tasks(read_options(os.environ.get(VARIABLE)))
