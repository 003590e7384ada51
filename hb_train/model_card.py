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

CARD_TEMPLATE = Path(__file__).parent / "tuning" / "card.md.jinja"
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
    from huggingface_hub import ModelCard, ModelCardData

    training, measure = tuning.training, load_method(tuning.method).measure
    base, is_adapter = training["base_model"]["name"], training["is_adapter"]
    relation = {"base_model": base, "base_model_relation": "adapter" if is_adapter else "finetune"}
    about = ModelCardData(
        library_name="peft" if is_adapter else "transformers",
        tags=["holistic-bias", "trl", tuning.method],
        **({} if Path(base).is_dir() else relation),
    )
    card = ModelCard.from_template(
        about,
        template_path=str(CARD_TEMPLATE),
        tuning=tuning,
        training=training,
        data=tuning.labels,
        asked_with=any(value not in (None, "prompt") for value in (tuning.asked_with or {}).values()),
        measure=measure,
        best=training[f"best_validation_{measure}"],
        is_gain=is_gain(training.get(f"validation_{measure}", []), measure),
        figures=_figures(folder, runs, names) if runs else "Not measured yet.",
    )
    write_text(folder / CARD_FILE, str(card))


@json_faults()
def _figures(folder: Path, runs: Sequence[Path], names: Sequence[str] | None) -> str:
    from hb_metrics.models.sources import folder_digest
    from hb_metrics.report.markdown import overview_markdown
    from hb_metrics.run.finished_run import read_run

    finished = [read_run(run) for run in runs]
    parts = [overview_markdown(runs, names).strip()]
    models = [run.results["run"]["model"] for run in finished]
    digests = {part.get("digest") for model in models for part in (model, model.get("adapter") or {})}
    if folder_digest(folder) not in digests:
        parts.insert(0, OTHER_MODELS)
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
