import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from datasets import Dataset

from hb_dataset.command_line import did_you_mean
from hb_metrics.collect.scoring.options import forms_of
from hb_metrics.harnesses.figures import all_reply_figures, decision_figures, likelihood_figures, load_classifiers
from hb_metrics.harnesses.lm_eval_path import figure_names
from hb_metrics.harnesses.rows import DecisionRow, PromptRow, decision_rows, prompt_rows

logger = logging.getLogger(__name__)

SPLIT = "test"
# The options of `measure` and of `load_classifiers` that users can set with --metadata.
_OPTIONS = ("axes", "sample", "replies_per_cell", "seed", "vocabulary_dir")
_CLASSIFIERS = ("style_classifier", "offensiveness_classifier", "judge_model", "judge_base_url")
_SIMILAR = 0.75  # an unknown name at least this similar to an option counts as a misspelling

# The data of all tasks. The variables are global, because the harness does not pass documents to the functions that
# compute figures. A prompt has the same id in all tasks.
_rows: dict[str, PromptRow | DecisionRow] = {}  # by id
_num_tokens: dict[str, int] = {}  # by id
_axes: dict[str, list[str]] = {}  # by config
_classifiers: dict[str, str] = {}  # the arguments of `load_classifiers`


class Kept(NamedTuple):
    """An answer, from which a figure is computed. `number` is the index of the prompt among all prompts."""

    figure: str
    kind: str
    number: int
    id: str
    answer: str | float


def replied_prompts(*, prompts: Mapping[str, str], line_break: bool = False, **metadata: Any) -> dict[str, Dataset]:
    """Returns the documents for tasks of generation bias, each with an `id` and the `text` of a prompt.

    If `line_break` is true, the texts end with a line break, which models that only continue text need. `metadata`
    contains the values of --metadata and --model_args, of which only `_OPTIONS` and `_CLASSIFIERS` are used.
    """
    options = _options(prompts, metadata)
    _figures.cache_clear()  # the cache may belong to other classifiers
    _classifiers.clear()
    _classifiers.update({name: metadata[name] for name in _CLASSIFIERS if metadata.get(name) is not None})
    load_classifiers(**_classifiers)  # so that an error about a classifier appears before the model replies
    rows = prompt_rows(replied=True, **options)
    return _documents(rows, prompts["dataset_config"], "\n" if line_break else "")


def scored_prompts(*, prompts: Mapping[str, str], **metadata: Any) -> dict[str, Dataset]:
    rows = prompt_rows(replied=False, **_options(prompts, metadata))
    _figures.cache_clear()  # the cache may belong to another tokenizer
    numbers = count_tokens([row.text for row in rows], metadata)
    _num_tokens.update((row.id, number) for row, number in zip(rows, numbers, strict=True))
    return _documents(rows, prompts["dataset_config"])


def decision_prompts(*, prompts: Mapping[str, str], **metadata: Any) -> dict[str, Dataset]:
    """Returns the documents for tasks of decisions, whose choices are the forms of each option."""
    options = _options(prompts, metadata)
    rows = decision_rows(
        **{name: options[name] for name in ("dataset_config", "axes", "vocabulary_dir") if options.get(name)}
    )
    return _documents(rows, prompts["dataset_config"])


def _options(prompts: Mapping[str, str], metadata: Mapping[str, Any]) -> dict[str, Any]:
    # Another vocabulary has other axes, and therefore other figures, which only `lm-eval-path` can declare.
    for name, of_task in {"vocabulary_dir": None, **prompts}.items():
        if metadata.get(name, of_task) != of_task:
            raise ValueError(
                f"{name} is '{metadata[name]}' in --metadata, but '{of_task}' in the task; remove {name} from "
                "--metadata. To use other prompts, choose another task. To use your own vocabulary, run "
                "`holistic-bias lm-eval-path --vocabulary_dir FOLDER`"
            )
    known = (*_OPTIONS, *_CLASSIFIERS, "dataset_config")
    for name in metadata:
        if name not in known and (hint := did_you_mean(name, known, cutoff=_SIMILAR)):
            raise ValueError(f"--metadata contains the unknown name '{name}'; {hint.strip()}")
    return {**{name: metadata.get(name) for name in _OPTIONS}, **prompts}


def _documents(rows: Sequence[PromptRow | DecisionRow], config: str, end: str = "") -> dict[str, Dataset]:
    """Returns the documents of prompts, in an order that suits the harness's option --limit.

    With this option, the harness uses only the first documents. The documents therefore begin with the first prompt of
    each cell (a descriptor in a template), followed by the second prompt of each cell, and so on.
    """
    _rows.update((row.id, row) for row in rows)
    _axes[config] = sorted({row.axis for row in rows})
    seen: Counter[tuple[str, ...]] = Counter()
    places = {template: place for place, template in enumerate(dict.fromkeys(row.template for row in rows))}
    documents = []
    for number, row in enumerate(rows):
        cell = (row.template, row.axis, row.descriptor)
        document: dict[str, object] = {"id": row.id, "number": number, "config": config, "text": row.text + end}
        if isinstance(row, DecisionRow):
            document["choices"] = [form for option in row.options for form in forms_of(option)]
        documents.append((seen[cell], places[row.template], document))
        seen[cell] += 1
    return {SPLIT: Dataset.from_list([document for *_, document in sorted(documents, key=lambda row: row[:2])])}


def count_tokens(texts: Sequence[str], metadata: Mapping[str, object]) -> list[int]:
    """Returns the number of tokens that the harness scores in each text, without the start token."""
    from hb_metrics.models.loading import tokenizer_from

    name = metadata.get("tokenizer") or metadata.get("pretrained") or metadata.get("model")
    if not isinstance(name, str):
        raise ValueError(
            "the model's tokenizer is unknown, but it is needed to compute the likelihood per token; set it with "
            '--metadata, for example: --metadata \'{"tokenizer": "openai-community/gpt2"}\''
        )
    hub: dict[str, Any] = {
        key: metadata[key] for key in ("revision", "trust_remote_code") if metadata.get(key) is not None
    }
    tokenizer = tokenizer_from(name, name, **hub)
    plain = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    if metadata.get("add_bos_token") is not False and tokenizer(texts[0])["input_ids"] != plain[0]:
        raise ValueError(
            f"'{name}' adds special tokens, which lm-eval would score; set add_bos_token=False in --model_args"
        )
    return [len(tokens) for tokens in plain]


def keep_reply(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, Kept]:
    return _kept(doc, "replies", results[0])


def keep_first_line(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, Kept]:
    return _kept(doc, "replies", results[0].strip().partition("\n")[0])


def keep_log_likelihood(doc: Mapping[str, Any], results: Sequence[float]) -> dict[str, Kept]:
    return _kept(doc, "likelihoods", float(results[0]))


def keep_decision(doc: Mapping[str, Any], results: Sequence[tuple[float, bool]]) -> dict[str, Kept]:
    """Keeps the probability of the favourable option among all options."""
    row: Any = _rows[doc["id"]]
    masses = dict(zip(doc["choices"], np.exp([value for value, _ in results]), strict=True))
    favourable = sum(masses[form] for form in forms_of(row.favourable))
    return _kept(doc, "decisions", float(favourable / sum(masses.values())))


def _kept(doc: Mapping[str, Any], kind: str, answer: str | float) -> dict[str, Kept]:
    names = figure_names(kind, _axes[doc["config"]])
    return {name: Kept(name, kind, doc["number"], doc["id"], answer) for name in names}


def figure(kept: Sequence[Kept]) -> float | None:
    """Computes a figure from the answers to all prompts. The order of the answers does not affect it."""
    in_order = sorted(kept, key=lambda answer: answer.number)
    return _figures(kept[0].kind, tuple((answer.id, answer.answer) for answer in in_order)).get(kept[0].figure)


@lru_cache(maxsize=1)  # the harness calls `figure` once per figure, always with the same answers
def _figures(kind: str, kept: tuple[tuple[str, Any], ...]) -> dict[str, float | None]:
    rows: Any
    rows, answers = [_rows[identifier] for identifier, _ in kept], [answer for _, answer in kept]
    if kind == "decisions":
        return decision_figures(rows, answers)
    if kind == "likelihoods":
        figures = likelihood_figures(rows, answers, [_num_tokens[identifier] for identifier, _ in kept])
    else:
        figures = all_reply_figures(rows, answers, **_classifiers)
    if len(figures) < len(figure_names(kind, ())) - 1:  # the share of offensive replies may be missing
        logger.warning(f"no template has {kind} for two terms, so no bias can be computed; use more prompts")
    return figures
