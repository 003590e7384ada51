"""Writes the card of a tuned model: its training, its prompt format, and its figures before and after tuning."""

from collections.abc import Sequence
from pathlib import Path

from hb_dataset.whole_files import write_text
from hb_metrics.models.layout import BiasTuning, read_bias_tuning
from hb_train.training.runs import MEASURES, is_gain

CARD_FILE = "README.md"
CARD_TEMPLATE = Path(__file__).parent / "tuning" / "card.md.jinja"


def write_model_card(
    folder: Path, tuning: BiasTuning | None = None, *, runs: Sequence[Path] = (), names: Sequence[str] = ()
) -> None:
    """Writes the card of the model in a folder.

    Args:
        folder: The folder of the model.
        tuning: The record of its tuning. By default, it is read from the folder.
        runs: The folders of the `measure` runs to show, starting with the run made before tuning.
        names: The names of the runs.
    """
    from huggingface_hub import ModelCard, ModelCardData

    from hb_metrics.report.markdown import overview_markdown

    tuning = tuning or read_bias_tuning(str(folder))
    assert tuning is not None
    training, measure = tuning.training, MEASURES[tuning.method]
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
        figures=overview_markdown(runs, names).strip() if runs else "Not measured yet.",
    )
    write_text(folder / CARD_FILE, str(card))
