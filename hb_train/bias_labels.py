"""Labels a model's own replies by how much they show their descriptor's characteristic style.

    python hb_train/bias_labels.py --run_dir runs/gpt2 --beta 0.0003 --output_dir labels/gpt2

From the folder of a run of `measure.py` with replies and style vectors: the bias value of each reply, a tag ("bias"
above β, else "no_bias"), and rows of prompt and completion that TRL takes as they are (Smith et al., 2022, C.1). The
prompt is what the model was given when it replied, with the tag as its last word. `--beta_quantile 0.5` tags the upper
half.
"""

import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from hb_dataset.whole_files import write_text
from hb_metrics.finished_run import Run, StyleShards, read_run
from hb_metrics.run_folder import STYLES, open_run, package_versions, write_json
from hb_train.training.options import first_line
from hb_train.tuning.label_rows import (
    NO_GENERATION_ERROR,
    replies_to_label,
    stored_bias_values,
    tokenizer_of_run,
    write_rows,
)
from hb_train.tuning.labels import LABELS_FILE, SPLITS, Labels, held_out_rows, tag_replies

# transformers takes seconds to import: not before the options are known to be right.

_QUANTILES = (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)

BETA_ERROR = "beta and beta_quantile are both {given}; give one of them, such as --beta 0.0003 or --beta_quantile 0.5"


@dataclass
class LabelArguments:
    """What to label, and how. All of it is recorded in run.json but folders and the model."""

    # Not `--run`, which `torchrun` takes for the beginning of an option of its own.
    run_dir: str = field(
        metadata={"help": "The folder of the run of measure.py whose replies are labelled; it needs style vectors."}
    )
    output_dir: str = field(metadata={"help": "The folder that the labels are written to; it should be new."})
    alpha: Literal[0, 1, 2] = field(
        default=0, metadata={"help": "The exponent α of the bias value: 0 (as in the paper), 1 or 2."}
    )
    beta: float | None = field(
        default=None,
        metadata={
            "help": 'The threshold β: replies with a larger bias value are tagged "bias". The paper has 0.0003 and '
            "0.0030."
        },
    )
    beta_quantile: float | None = field(
        default=None,
        metadata={
            "help": "Chooses β so that this share of the replies, between 0 and 1, is at or below it; give it instead "
            "of --beta."
        },
    )
    validation_fraction: float = field(
        default=0.1, metadata={"help": "The share of the distinct prompts that is held out for validation."}
    )
    seed: int = field(default=0, metadata={"help": "The seed that chooses the prompts held out for validation."})
    model: str | None = field(
        default=None,
        metadata={"help": "The folder or Hub id of the model that replied, if it is not where it was then."},
    )
    trust_remote_code: bool = field(
        default=False, metadata={"help": "Whether Python code that comes with the model may run on this machine."}
    )

    def __post_init__(self) -> None:
        """Raises `ValueError` if not one of the two β is given, or a number is out of range."""
        if (self.beta is None) == (self.beta_quantile is None):
            raise ValueError(BETA_ERROR.format(given="missing" if self.beta is None else "given"))
        for name in ("beta_quantile", "validation_fraction"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1:
                raise ValueError(f"{name} is {value}; give a number between 0 and 1")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; give at least 0")


def main(argv: list[str] | None = None) -> None:
    """Reads the options, labels, and prints how many rows have which tag."""
    from transformers import HfArgumentParser

    parser = HfArgumentParser(LabelArguments, description=first_line(__doc__), allow_abbrev=False)
    options = vars(parser.parse_args(sys.argv[1:] if argv is None else argv))
    try:
        label(LabelArguments(**options))
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"bias_labels.py: {error}") from error


def label(arguments: LabelArguments) -> None:
    """Writes the labelled rows of a run; with several processes, the main one does.

    Raises:
        ValueError: The run cannot be labelled, or β tags all or none of its replies.
        OSError: The run or its model is not there.
    """
    from hb_metrics.inference.models.bias_tags import ASKED_WITH
    from hb_metrics.inference.models.chats import recorded_chat
    from hb_metrics.inference.processes import process_state

    state = process_state()
    if not state.is_main_process:
        state.wait_for_everyone()
        return
    run = read_run(Path(arguments.run_dir))
    record = run.results["run"]
    if "generation" not in record:
        raise ValueError(NO_GENERATION_ERROR.format(folder=run.folder))
    loaded = tokenizer_of_run(run, model=arguments.model, trust_remote_code=arguments.trust_remote_code)
    styles = StyleShards(run.folder / STYLES)
    replies = replies_to_label(run, styles)
    labels = tag_replies(
        replies,
        styles,
        alpha=arguments.alpha,
        beta=arguments.beta,
        quantile=arguments.beta_quantile,
        values=stored_bias_values(run, styles) if arguments.alpha == 0 else None,
    )
    folder = Path(arguments.output_dir)
    open_run(folder, _description(arguments, run))
    held_out = held_out_rows(replies["text"].to_pylist(), arguments.validation_fraction, arguments.seed)
    context = record["generation"]["context"]
    chat = recorded_chat(record["generation"])
    cue = record["generation"].get("cue", "prompt")
    suffix = write_rows(folder, replies, labels, held_out, loaded, context, chat, cue)
    content = {
        **_counts(replies, labels, held_out),
        "suffix": suffix,
        "context": context,
        "asked_with": {**{name: record["generation"].get(name) for name in ASKED_WITH}, "cue": cue},
        **_sources(arguments, run, labels),
    }
    write_json(folder / LABELS_FILE, content)
    write_text(folder / "README.md", _card(content))
    _print_counts(content, folder)
    state.wait_for_everyone()


def _description(arguments: LabelArguments, run: Run) -> dict[str, Any]:
    """Everything the labels depend on, for run.json; the folders of the run and of its model are not part of it."""
    record = run.results["run"]
    ignored = ("run_dir", "output_dir", "model", "trust_remote_code")
    return {
        "settings": {name: value for name, value in asdict(arguments).items() if name not in ignored},
        "labelled_run": {
            "model": record["model"],
            "data": record["data"],
            "generation": record["generation"],
            "style_classifier": record["style_classifier"],
            # The seed of sampling and the rounding of style vectors are recorded nowhere else.
            **{name: record["settings"][name] for name in ("seed", "style_precision")},
        },
        "versions": package_versions(),
    }


def _counts(replies: pa.Table, labels: Labels, held_out: np.ndarray) -> dict[str, Any]:
    axes = np.array(replies["axis"].to_pylist())

    def by_tag(rows: np.ndarray) -> dict[str, int]:
        num_biased = int(labels.is_biased[rows].sum())
        return {"bias": num_biased, "no_bias": int(rows.sum()) - num_biased}

    return {
        "num_rows": len(axes),
        "by_tag": by_tag(np.ones(len(axes), bool)),
        "by_axis": {axis: by_tag(axes == axis) for axis in sorted(set(axes.tolist()))},
        "by_split": {name: by_tag(rows) for name, rows in zip(SPLITS, (~held_out, held_out), strict=True)},
    }


def _sources(arguments: LabelArguments, run: Run, labels: Labels) -> dict[str, Any]:
    """The threshold, and the model and classifier whose work was labelled, for labels.json."""
    record, generation = run.results["run"], run.results["generation"]
    return {
        "alpha": arguments.alpha,
        "beta": labels.beta,
        "beta_quantile": arguments.beta_quantile,
        "bias_value_quantiles": {
            f"{share:g}": value
            for share, value in zip(_QUANTILES, np.quantile(labels.values, _QUANTILES).tolist(), strict=True)
        },
        "num_empty_replies": generation["num_empty_replies"],
        "model": record["model"],
        "style_classifier": {key: record["style_classifier"][key] for key in ("name", "digest", "num_styles")},
        "replies_tag": record["generation"].get("tag"),
        "validation_fraction": arguments.validation_fraction,
        "seed": arguments.seed,
    }


def _card(labels: dict[str, Any]) -> str:
    # Without `configs`: with it `datasets` takes all folders of one name for the same, and loads the one it saw first.
    tags = labels["by_tag"]
    return f"""---
license: cc-by-sa-4.0
language: en
---

# Bias labels

{labels["num_rows"]:,} replies of {labels["model"]["name"]} to HolisticBias prompts, {tags["bias"]:,} tagged "bias" and
{tags["no_bias"]:,} "no_bias" by their bias value (α = {labels["alpha"]}, β = {labels["beta"]:.6g}; Smith et al., 2022,
appendix C.1), for tuning with `hb_train/tune.py`. Styles were classified by {labels["style_classifier"]["name"]}.

`prompt` is what the model was given, with the tag as its last word; `completion` is its reply, unmodified. Replies can
hurt: they are what a language model said. Prompts: CC-BY-SA-4.0, from HolisticBias.
"""


def _print_counts(labels: dict[str, Any], folder: Path) -> None:
    print(f"\nα = {labels['alpha']}, β = {labels['beta']:.6g}; {labels['num_rows']:,} replies")
    print(f"  {'':<22} {'bias':>8} {'no_bias':>8}  share bias")
    for name, tags in [("all", labels["by_tag"]), *labels["by_split"].items(), *labels["by_axis"].items()]:
        share = tags["bias"] / max(1, sum(tags.values()))
        print(f"  {name:<22} {tags['bias']:>8,} {tags['no_bias']:>8,}  {share:10.1%}")
    if labels["num_empty_replies"]:
        print(f"  {labels['num_empty_replies']:,} empty replies have no style and are not labelled")
    print(f"\nlabels: {folder.resolve()}")


if __name__ == "__main__":
    main()
