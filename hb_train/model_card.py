"""Writes the card of a tuned model: what it is, how it must be asked, and its figures before and after.

    python hb_train/model_card.py --model models/gpt2 --runs runs/before runs/no_bias --names before no_bias

puts the figures of runs before and after tuning into the card.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from hb_dataset.whole_files import write_text
from hb_metrics.inference.models.bias_tags import TUNING_FILE, BiasTuning, read_bias_tuning
from hb_train.training.options import first_line
from hb_train.training.runs import is_gain

CARD_FILE = "README.md"

_METHOD_WORDS = {
    "sft": "",
    "kto": """
Tuned by KTO (Ethayarajh et al., 2024): replies tagged "no_bias" were to become likelier than in the model before, the
others less likely.
""",
    "distill": """
What was learnt is the whole distribution of each next token (knowledge distillation, Hinton et al., 2015).
""",
}
_METHOD_NAMES = {"kto": "KTO", "distill": "baseline distillation"}
_LIMITS = {
    "labels": "The figures depend on the style classifier that labelled and measured.",
    "distill": """The
model takes less notice of who is speaking, also where it should: the embedded model named the prompt's term in 31 % of
replies before distillation, and in 1.3 % after.""",
}

_NO_GAIN = ", **no lower than before tuning**: what was learnt does not carry over to other rows"
OTHER_MODELS = "**None of these runs is of the model in this folder as it is now: the figures are of others.**"


def main(argv: Sequence[str] | None = None) -> None:
    """Reads the options, and writes a tuned model's card anew, with the figures of runs."""
    parser = argparse.ArgumentParser(prog="hb_train/model_card.py", description=first_line(__doc__))
    parser.add_argument("--model", type=Path, required=True, help="The folder of the tuned model.")
    parser.add_argument(
        "--runs",
        type=Path,
        nargs="+",
        required=True,
        help="The run folders of measure.py whose figures are shown, the run before tuning first.",
    )
    parser.add_argument(
        "--names", nargs="+", help="The names of the runs in the card; by default those of their models and tags."
    )
    options = parser.parse_args(argv)
    try:
        tuning = read_bias_tuning(str(options.model))
        if tuning is None:
            raise ValueError(f"'{options.model}' has no {TUNING_FILE}; set the folder of a model tuned with tune.py")
        write_model_card(options.model, tuning, runs=options.runs, names=options.names)
    except (ValueError, OSError) as error:
        raise SystemExit(f"model_card.py: {error}") from error
    print(f"card: {(options.model / CARD_FILE).resolve()}")


def write_model_card(
    folder: Path, tuning: BiasTuning, *, runs: Sequence[Path] = (), names: Sequence[str] | None = None
) -> None:
    """Writes the card of a tuned model.

    Args:
        folder: The model's folder.
        tuning: How it must be asked, and how it was tuned.
        runs: Run folders to show the figures of, the one before tuning first; none: the card states that nothing was
            measured.
        names: The names of the runs; `None`: those of their models and tags.
    """
    figures = "Not measured yet."
    if runs:
        from hb_metrics.inference.models.sources import folder_digest
        from hb_metrics.obedience.values import DIRECTIONS_FOLDER, has_directions
        from hb_metrics.report.markdown import overview_markdown
        from hb_metrics.runs.finished_run import read_run

        figures = overview_markdown(runs, names).strip()
        directions = folder / DIRECTIONS_FOLDER if has_directions(folder / DIRECTIONS_FOLDER) else runs[0]
        if has_directions(directions):
            figures = f"{_obedience(directions, tuning, runs, names)}\n\n{figures}"
        if folder_digest(folder) not in {read_run(run).results["run"]["model"].get("digest") for run in runs}:
            figures = f"{OTHER_MODELS}\n\n{figures}"
    write_text(folder / CARD_FILE, _card(tuning, figures))


def _obedience(directions: Path, tuning: BiasTuning, runs: Sequence[Path], names: Sequence[str] | None) -> str:
    """The ceiling of the labels and the runs side by side, with bias values along the labels' directions."""
    from hb_metrics.measurements.generation.tuned import recorded_ceiling, tuned_markdown, tuned_rows
    from hb_metrics.report.run_names import run_names
    from hb_metrics.runs.finished_run import read_run

    finished = [read_run(run) for run in runs]
    ceiling = recorded_ceiling(tuning.labels.get("ceiling"))
    return tuned_markdown(tuned_rows(finished, run_names(finished, names), directions, ceiling)).strip()


def _labelled(tuning: BiasTuning) -> str:
    return "labelled" if tuning.tag or tuning.method != "sft" else "not labelled"


def _rows_of_method(tuning: BiasTuning) -> str:
    """What the method made of the rows."""
    training = tuning.training
    if tuning.method == "kto":
        return (
            f'; replies tagged "no_bias" weigh {training["desirable_weight"]:.3g} each, the others '
            f"{training['undesirable_weight']:.3g}"
        )
    return ""


def _card(tuning: BiasTuning, figures: str) -> str:
    training, method = tuning.training, tuning.method
    how = (
        f'The context must end in the control tag "{tuning.tag}": {tuning.place}. `measure.py --model FOLDER` does so '
        "by itself; `--tag bias|no_bias|none` asks otherwise."
        if tuning.tag
        else f"It was tuned by {_METHOD_NAMES[method]}, which uses no control tags, and is asked without."
        if method != "sft"
        else "It was tuned without control tags (the paper's self-chat tuning, to compare with), and is asked without."
    )
    if any(value not in (None, "prompt") for value in (tuning.asked_with or {}).values()):
        how += f" Give it the options `asked_with` of `{TUNING_FILE}` too: its replies were asked for with them."
    measure = "perplexity" if method == "sft" else "loss"
    gain = "" if is_gain(training.get(f"validation_{measure}", []), measure) else _NO_GAIN
    return f"""---
library_name: transformers
tags:
- holistic-bias
- trl
- {method}
---

# {training["model"]}, bias-tuned

{_learnt(tuning)}
{_METHOD_WORDS[method]}

## How to ask it

{how} Context format: `{tuning.context}`.

## Training

{_data(tuning)}
* {training["num_rows"]["train"]:,} rows, {training["num_rows"]["validation"]:,} held out{_rows_of_method(tuning)}.
* Best validation {measure} {training[f"best_validation_{measure}"]:.3f} at step {training["best_step"]} of
  {training["num_steps"]}{gain}.

## Before and after

{figures}

## Limits

Less difference between people's replies is not less harm by itself: look at what the replies say, at offensiveness and
at how well the model still talks. {_LIMITS["distill" if method == "distill" else "labels"]}
"""


def _learnt(tuning: BiasTuning) -> str:
    """What it was tuned on."""
    if tuning.method == "distill":
        return (
            "Tuned to reply to HolisticBias prompts with a descriptor as it did itself to the same prompts without it."
        )
    return (
        f"Fine-tuned on its own replies to HolisticBias prompts, {_labelled(tuning)} by how much they\n"
        "show the characteristic style of the term in the prompt (Smith et al., 2022, section 4 and appendix C)."
    )


def _data(tuning: BiasTuning) -> str:
    """What it was tuned on, in numbers."""
    data = tuning.labels
    model = f"{data['model']['name']} (digest `{data['model']['digest']}`)"
    if tuning.method == "distill":
        left_out = "" if data["leave_out"] is None else f", without those of {data['leave_out']}"
        return (
            f"* {data['num_replies']:,} replies of {model} to prompts without a\n"
            f"  descriptor, learnt behind prompts with one: {data['num_descriptors']:,} descriptors of "
            f"{data['dataset_config']}{left_out}."
        )
    tags, classifier = data["by_tag"], data["style_classifier"]
    return (
        f"* Replies of {model}: {tags['bias']:,} with a\n"
        f"  bias value above β = {tuning.beta:.6g} (α = {tuning.alpha}), {tags['no_bias']:,} others.\n"
        f"* Styles were classified by {classifier['name']},\n  {classifier['num_styles']} styles."
    )


if __name__ == "__main__":
    main()
