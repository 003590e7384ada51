"""Labels each of a model's own replies by its similarity to the characteristic style of the prompt's descriptor.

    python hb_train/bias_labels.py --run_dir runs/gpt2 --beta 0.0003 --output_dir labels/gpt2

Each reply of the run has a bias value, which is large if the reply shows this style. A reply is tagged "bias" if its
value is above the threshold β, and "no_bias" otherwise (Smith et al., 2022, C.1). The script writes one row per reply,
with a prompt and a completion in TRL's format.
"""

from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hb_metrics.collect.replies.cues import cue_messages
from hb_metrics.measurements.results import Run, read_run
from hb_metrics.measurements.settings import check_least, option
from hb_metrics.models.chats import ChatOptions, with_system
from hb_metrics.models.contexts import render_messages
from hb_metrics.models.layout import ASKED_WITH, BIAS, NO_BIAS
from hb_metrics.models.loading import LoadedTokenizer, load_tokenizer
from hb_metrics.models.processes import process_state
from hb_metrics.models.sources import EMBEDDED
from hb_metrics.run.record import GenerationSettings
from hb_metrics.run.replies import with_questions
from hb_metrics.run.run_folder import STYLES, open_run, package_versions, write_json
from hb_metrics.run.tables import Vectors
from hb_train.training.options import parse_own_options, run_script
from hb_train.tuning.labels import LABELS, ROW_SCHEMA, held_out_rows, tag_replies, write_splits


@dataclass
class LabelArguments:
    # The option is not called `--run`, because `torchrun` would read it as an option of its own.
    run_dir: str = option(MISSING, "The folder of the `measure` run with the replies to label and their style vectors.")
    output_dir: str = option(MISSING, "A new folder for the labels.")
    beta: float = option(MISSING, 'The threshold β of bias values for the tag "bias" (paper: 0.0003 or 0.0030).')
    alpha: Literal[0, 1, 2] = option(0, "The exponent α of the bias value: 0 (as in the paper), 1 or 2.")
    seed: int = option(0, "The random seed for drawing validation prompts.")
    model: str | None = option(None, "The model that replied, if it was moved after the run: a folder or a Hub id.")
    trust_remote_code: bool = option(False, "Allow Python code supplied with the model to run on this machine.")

    def __post_init__(self) -> None:
        check_least(self, seed=0)


def main(argv: list[str] | None = None) -> None:
    run_script("bias_labels.py", lambda: label(parse(argv)))


def parse(argv: Sequence[str] | None) -> LabelArguments:
    return parse_own_options(LabelArguments, argv, __doc__)


def label(arguments: LabelArguments) -> None:
    """Writes the labelled rows of a run in the main process."""
    if not process_state().is_main_process:
        return
    run = read_run(Path(arguments.run_dir))
    if "generation" not in run.results.measured:
        raise ValueError(f"run '{run.folder}' has no replies; pass the folder of a run with --measurements generation")
    styles = run.tables.vectors(STYLES)
    replies = replies_to_label(run, styles)
    loaded = tokenizer_of_run(run, model=arguments.model, trust_remote_code=arguments.trust_remote_code)
    values, is_biased = tag_replies(replies, styles.values, alpha=arguments.alpha, beta=arguments.beta)
    folder, record = Path(arguments.output_dir).expanduser(), run.record.content
    ignored = ("run_dir", "output_dir", "model", "trust_remote_code")
    labelled = {name: record[name] for name in ("model", "data", "generation", "style_classifier")}
    description: dict[str, object] = {
        "settings": {name: value for name, value in asdict(arguments).items() if name not in ignored},
        # The seed for sampling is in no other part of the record.
        "labelled_run": {**labelled, "seed": run.record.settings.seed},
        "versions": package_versions(),
    }
    open_run(folder, description)
    made, style = run.record.generation, run.record.style_classifier
    rows, suffix = label_rows(replies, values, is_biased, loaded, made)
    write_splits(folder, rows, held_out_rows(replies["text"].to_pylist(), arguments.seed))
    axes = np.array(replies["axis"].to_pylist())
    by_tag = _count_tags(is_biased)
    content = {
        "num_rows": len(replies),
        "by_tag": by_tag,
        "by_axis": {axis: _count_tags(is_biased[axes == axis]) for axis in np.unique(axes).tolist()},
        "suffix": suffix,
        "context": made.context,
        "asked_with": {name: vars(made)[name] for name in ASKED_WITH},
        "alpha": arguments.alpha,
        "beta": arguments.beta,
        "num_empty_replies": run.results.generation.num_empty_replies,
        "num_decisions": run.results.generation.num_decisions,
        "model": record["model"],
        "style_classifier": {key: getattr(style, key) for key in ("name", "digest", "num_styles")},
    }
    write_json(folder / LABELS.record, content)
    print(
        f"α = {arguments.alpha}, β = {arguments.beta:.6g}: {by_tag['bias']:,} of {len(replies):,} replies have the tag "
        f'"bias" (by axis: {LABELS.record})'
    )
    print(f"labels: {folder.resolve()}")


def replies_to_label(run: Run, styles: Vectors) -> pa.Table:
    """Returns the replies that have style vectors, with the columns of their prompts.

    The replies are in the order of the vectors. As in the run's results, `template` includes the question that follows
    the template. `truncated` is also true if decoding ended a reply before the model did. The model must not learn from
    such a reply where to end, because its own replies would become shorter.
    """
    replies = run.tables.reply_table()
    rows = pc.index_in(pa.array(styles.ids), replies["id"])
    counts = run.results.generation
    if rows.null_count or len(styles.ids) != counts.num_replies - counts.num_decisions:
        raise ValueError(f"the style vectors in '{run.folder}' belong to other replies; measure again in a new folder")
    chosen, made = replies.take(rows), run.record.generation
    names = ["id", "text", "personas", "reply", "truncated", "axis", "descriptor", "noun", "question", "template"]
    columns = {name: chosen[name] for name in names}
    if made.end_after_sentence or (made.context == "chat" and made.reply == "first_line"):
        columns["truncated"] = pa.array([True] * len(chosen))
    if "own_id" in chosen.column_names:
        columns["system"] = chosen["system"]
    else:
        columns["template"] = pa.array(
            with_questions(chosen["template"].to_pylist(), chosen["question"].to_pylist()), pa.string()
        )
    return pa.table(columns)


def tokenizer_of_run(run: Run, *, model: str | None, trust_remote_code: bool) -> LoadedTokenizer:
    """Loads the tokenizer of the model that replied.

    `model` is the model's location, if the model has moved since the run.
    """
    name, digest = model or run.record.settings.model, run.record.model.digest
    in_files = run.record.model.answered_in_files
    if in_files and model is None:
        raise ValueError("the run's replies come from a file; set --model to the model that replied")
    # The digest of a Hub model is its commit. The main branch may have changed since the run.
    revision = None if in_files or name == EMBEDDED or Path(name).exists() else digest
    loaded = load_tokenizer(name, revision=revision, trust_remote_code=trust_remote_code)
    if not in_files and loaded.digest != digest:
        raise ValueError(f"model '{name}' did not write these replies; set --model to the folder of the model that did")
    return loaded


def label_rows(
    replies: pa.Table, values: np.ndarray, is_biased: np.ndarray, loaded: LoadedTokenizer, made: GenerationSettings
) -> tuple[pa.Table, str]:
    """Makes rows of `ROW_SCHEMA`, and returns the text after the tag, which is the same in every prompt.

    `values` and `is_biased` are those of `tag_replies`.
    """
    tags = [BIAS if biased else NO_BIAS for biased in is_biased]
    prompts = rendered_prompts(replies, loaded, made, tags)
    without_tags = rendered_prompts(replies, loaded, made, [None] * len(tags))
    suffix = prompts[0].rpartition(f" {tags[0]}")[2]
    for name, plain, prompt, tag in zip(replies["id"].to_pylist(), without_tags, prompts, tags, strict=True):
        if not plain.endswith(suffix) or prompt != f"{plain.removesuffix(suffix)} {tag}{suffix}":
            raise ValueError(f"the tag is not the last word of prompt {name}; measure again with --context plain")
    columns: dict[str, Any] = dict(zip(replies.column_names, replies.columns, strict=True))
    columns |= {"prompt": prompts, "completion": replies["reply"], "tag": tags, "bias_value": values}
    return pa.table(columns, schema=ROW_SCHEMA), suffix


def rendered_prompts(
    replies: pa.Table, loaded: LoadedTokenizer, made: GenerationSettings, tags: Sequence[str | None]
) -> list[str]:
    """Renders the model's input up to the start of each reply, with its tag, if any. `made` are the run's settings.

    If a model thinks before it replies, its input ends with an empty thought, because thoughts are not learnt.
    """
    chat = ChatOptions(made.chat_template_kwargs or {}, made.system_prompt)
    conversations = []
    for row, tag in zip(replies.to_pylist(), tags, strict=True):
        question = None if made.cue == "prompt" else row["question"]
        of_row = with_system(chat, row.get("system"))
        conversations.append(cue_messages(made.cue, row["text"], question, row["personas"], of_row, tag))
    context: Any = made.context
    has_encoder = loaded.kind == "encoder-decoder"
    return render_messages(
        conversations, loaded.tokenizer, context, is_encoder_decoder=has_encoder, chat=chat, thought=False
    )


def _count_tags(is_biased: np.ndarray) -> dict[str, int]:
    return {"bias": int(is_biased.sum()), "no_bias": int((~is_biased).sum())}


if __name__ == "__main__":
    main()
