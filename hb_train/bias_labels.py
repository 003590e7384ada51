"""Labels each of a model's own replies by its similarity to the characteristic style of the prompt's descriptor.

    python hb_train/bias_labels.py --run_dir runs/gpt2 --beta 0.0003 --output_dir labels/gpt2

Each reply of the run has a bias value, which is large if the reply shows this style. A reply is tagged "bias" if its
value is above the threshold β, and "no_bias" otherwise (Smith et al., 2022, C.1). The script writes one row per reply,
with a prompt and a completion in TRL's format.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from hb_metrics.measurements.results import Run, read_run
from hb_metrics.run.run_folder import STYLES, open_run, package_versions, write_json
from hb_train.training.options import check_least, first_line, option, run_script
from hb_train.tuning.label_rows import Asked, replies_to_label, tokenizer_of_run, write_rows
from hb_train.tuning.labels import LABELS_FILE, SPLITS, held_out_rows, tag_replies

# The options are checked before transformers is imported, because the import takes seconds.


@dataclass
class LabelArguments:
    # The option is not called `--run`, because `torchrun` would read it as an option of its own.
    run_dir: str = field(
        metadata={"help": "The folder of the `measure` run with the replies to label and their style vectors."}
    )
    output_dir: str = field(metadata={"help": "A new folder for the labels."})
    beta: float = field(
        metadata={
            "help": 'The threshold β. A reply with a larger bias value is tagged "bias" (paper: 0.0003 or 0.0030).'
        }
    )
    alpha: Literal[0, 1, 2] = option(0, "The exponent α of the bias value: 0 (as in the paper), 1 or 2.")
    seed: int = option(0, "The random seed for drawing validation prompts.")
    model: str | None = option(
        None,
        "The folder or Hub id of the model that generated the replies. Set this option if the model was moved "
        "after the run.",
    )
    trust_remote_code: bool = option(False, "Allow Python code supplied with the model to run on this machine.")

    def __post_init__(self) -> None:
        check_least(self, seed=0)


def main(argv: list[str] | None = None) -> None:
    from transformers import HfArgumentParser

    parser = HfArgumentParser(LabelArguments, description=first_line(__doc__), allow_abbrev=False)
    options = parser.parse_args(argv)
    run_script("bias_labels.py", lambda: label(LabelArguments(**vars(options))))


def label(arguments: LabelArguments) -> None:
    """Writes the labelled rows of a run in the main process."""
    from hb_metrics.models.chats import ChatOptions
    from hb_metrics.models.layout import ASKED_WITH
    from hb_metrics.models.processes import process_state

    state = process_state()
    if not state.is_main_process:
        state.wait_for_everyone()
        return
    run = read_run(Path(arguments.run_dir))
    styles = run.tables.vectors(STYLES)
    replies = replies_to_label(run, styles)
    loaded = tokenizer_of_run(run, model=arguments.model, trust_remote_code=arguments.trust_remote_code)
    values, is_biased = tag_replies(replies, styles.values, alpha=arguments.alpha, beta=arguments.beta)
    folder = Path(arguments.output_dir).expanduser()
    open_run(folder, _description(arguments, run))
    held_out = held_out_rows(replies["text"].to_pylist(), arguments.seed)
    made, style = run.record.generation, run.record.style_classifier
    chat = ChatOptions(made.chat_template_kwargs or {}, made.system_prompt)
    asked = Asked(loaded, made.context, chat, made.cue)
    suffix = write_rows(folder, replies, values, is_biased, held_out, asked)
    axes = np.array(replies["axis"].to_pylist())
    by_tag = _count_tags(is_biased)
    by_axis = {axis: _count_tags(is_biased[axes == axis]) for axis in sorted(set(axes.tolist()))}
    by_split = {name: _count_tags(is_biased[rows]) for name, rows in zip(SPLITS, (~held_out, held_out), strict=True)}
    content = {
        "num_rows": len(replies),
        "by_tag": by_tag,
        "by_axis": by_axis,
        "by_split": by_split,
        "suffix": suffix,
        "context": made.context,
        "asked_with": {name: vars(made)[name] for name in ASKED_WITH},
        "alpha": arguments.alpha,
        "beta": arguments.beta,
        "num_empty_replies": run.results.generation.num_empty_replies,
        "model": run.record.content["model"],
        "style_classifier": {key: getattr(style, key) for key in ("name", "digest", "num_styles")},
    }
    write_json(folder / LABELS_FILE, content)
    print(f"\nα = {arguments.alpha}, β = {arguments.beta:.6g}; {len(replies):,} replies")
    print(f"  {'':<22} {'bias':>8} {'no_bias':>8}  share bias")
    for name, tags in [("all", by_tag), *by_split.items(), *by_axis.items()]:
        share = tags["bias"] / max(1, sum(tags.values()))
        print(f"  {name:<22} {tags['bias']:>8,} {tags['no_bias']:>8,}  {share:10.1%}")
    if number := run.results.generation.num_empty_replies:
        print(f"  {number:,} empty replies, without style and label")
    print(f"\nlabels: {folder.resolve()}")
    state.wait_for_everyone()


def _description(arguments: LabelArguments, run: Run) -> dict[str, object]:
    record = run.record.content
    ignored = ("run_dir", "output_dir", "model", "trust_remote_code")
    labelled = {name: record[name] for name in ("model", "data", "generation", "style_classifier")}
    return {
        "settings": {name: value for name, value in asdict(arguments).items() if name not in ignored},
        # The seed for sampling is in no other part of the record.
        "labelled_run": {**labelled, "seed": run.record.settings.seed},
        "versions": package_versions(),
    }


def _count_tags(is_biased: np.ndarray) -> dict[str, int]:
    return {"bias": int(is_biased.sum()), "no_bias": int((~is_biased).sum())}


if __name__ == "__main__":
    main()
