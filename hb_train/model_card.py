"""Writes the card of a tuned model: its training, its prompt format, and its figures before and after tuning.

    python hb_train/model_card.py --model models/gpt2 --runs runs/before runs/no_bias --names before no_bias

`tune.py` already writes a card without figures. This command adds the figures of the runs.
"""

from collections.abc import Sequence
from pathlib import Path

from hb_dataset.command_line import CommandParser
from hb_dataset.whole_files import write_text
from hb_metrics.models.bias_tags import TUNING_FILE, BiasTuning, read_bias_tuning
from hb_metrics.run.json_files import json_faults
from hb_train.training.options import first_line, run_script
from hb_train.training.runs import is_gain
from hb_train.tuning.method import load_method

CARD_FILE = "README.md"

_NO_GAIN = ". **This value is no lower than before tuning**, so the tuning does not generalise to other rows"
OTHER_MODELS = "**None of these runs measured the model in this folder, so the figures are for other models.**"


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(prog="hb_train/model_card.py", description=first_line(__doc__))
    parser.add_argument("--model", type=Path, required=True, help="The folder of the tuned model.")
    parser.add_argument(
        "--runs",
        type=Path,
        nargs="+",
        required=True,
        help="The folders of the `measure` runs to show, starting with the run made before tuning.",
    )
    parser.add_argument(
        "--names", nargs="+", help="The names of the runs in the card. Default: the models' names and tags."
    )
    options = parser.parse_args(argv)
    tuning = read_bias_tuning(str(options.model))
    if tuning is None:
        raise SystemExit(f"model_card.py: '{options.model}' has no {TUNING_FILE}; pass the folder of a tuned model")
    run_script("model_card.py", lambda: write_model_card(options.model, tuning, runs=options.runs, names=options.names))
    print(f"card: {(options.model / CARD_FILE).resolve()}")


def write_model_card(
    folder: Path, tuning: BiasTuning, *, runs: Sequence[Path] = (), names: Sequence[str] | None = None
) -> None:
    figures = _figures(folder, runs, names) if runs else "Not measured yet."
    write_text(folder / CARD_FILE, _card(tuning, figures))


@json_faults()
def _figures(folder: Path, runs: Sequence[Path], names: Sequence[str] | None) -> str:
    from hb_metrics.measurements.results import read_run
    from hb_metrics.models.sources import folder_digest
    from hb_metrics.report.markdown import overview_markdown

    finished = [read_run(run) for run in runs]
    parts = [overview_markdown(runs, names).strip()]
    models = [run.record.model for run in finished]
    digests = {part.digest for model in models for part in (model, model.adapter) if part is not None}
    if folder_digest(folder) not in digests:
        parts.insert(0, OTHER_MODELS)
    return "\n\n".join(parts)


def _card(tuning: BiasTuning, figures: str) -> str:
    training, method = tuning.training, load_method(tuning.method)
    text = method.card(tuning)
    how = "Prompts need no control tag."
    if tuning.tag:
        sent = (
            "The chat template adds this tag to the user's last message."
            if tuning.tag_in_template
            else "**No chat template adds this tag, so only `measure.py --model FOLDER` sends it.**"
        )
        how = (
            f'The context must end in the control tag "{tuning.tag}": {tuning.place}. {sent} **Without the tag, the '
            "model may be more biased than before tuning.** To measure it with another tag or none, set `--tag`."
        )
    if any(value not in (None, "prompt") for value in (tuning.asked_with or {}).values()):
        how += f" Also set the options under `asked_with` in `{TUNING_FILE}`, because the training replies used them."
    measure = method.measure
    gain = "" if is_gain(training.get(f"validation_{measure}", []), measure) else _NO_GAIN
    base, is_adapter = training["base_model"]["name"], training["is_adapter"]
    relation = "" if Path(base).is_dir() else f"base_model: {base}\n"
    relation += f"base_model_relation: {'adapter' if is_adapter else 'finetune'}\n" if relation else ""
    return f"""---
library_name: {"peft" if is_adapter else "transformers"}
{relation}tags:
- holistic-bias
- trl
- {tuning.method}
---

# {training["model"]}, bias-tuned

{text.learnt}

## Prompt format

{how} Context format: `{tuning.context}`.

## Training

{text.rows}
* {training["num_rows"]["train"]:,} training rows and {training["num_rows"]["validation"]:,} held-out rows.
* Best validation {measure} {training[f"best_validation_{measure}"]:.3f} at step {training["best_step"]} of
  {training["num_steps"]}{gain}.

## Before and after

{figures}

## Limits

Smaller differences between replies do not necessarily mean less harm. Check whether replies are
offensive, and read some of them to check that the model still replies well. {text.limits}
"""


if __name__ == "__main__":
    main()
