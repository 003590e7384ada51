r"""Trains a style classifier for `measure.py --style_classifier`, and measures its reaction to terms.

    accelerate launch hb_train/style_classifier.py --model_name_or_path FacebookAI/roberta-base \
        --dataset replies.csv --label_column style --output_dir classifiers/mine

It takes any encoder of the Hub, and texts with one label each: a CSV, TSV, JSON, JSONL or Parquet file, a folder or a
dataset of the Hub. A tenth of each label's texts is held out for calibration, and another tenth for the test. The
weights include a temperature fitted on the calibration rows. The folder contains the classifier and a card with its
accuracy, calibration and identity leakage (the change of probabilities when only the term in a text changes).
classifier.json records all figures. The same command resumes an interrupted training.

The paper's classifier was trained on the personalities of Image-Chat (Shuster et al., 2020). Look up
whether you may train on a dataset and share the weights.
"""

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from transformers import DataCollatorWithPadding, Trainer, TrainingArguments, set_seed

from hb_dataset.versions import read_version
from hb_dataset.whole_files import write_text
from hb_metrics.identity_leakage.leakage import identity_leakage, named_people, shipped_sentences
from hb_metrics.inference.classifiers.styles import load_style_classifier
from hb_metrics.runs.run_folder import write_json
from hb_train.classifiers.calibration import fit_temperature, quality
from hb_train.classifiers.card import classifier_card
from hb_train.classifiers.encoder import calibrate_head, encoder_digest, load_encoder
from hb_train.classifiers.labelled_rows import LabelledRows, read_rows, split_rows
from hb_train.training.options import check_given, check_least, option, parse_training_options, run_script
from hb_train.training.runs import (
    check_finite,
    checkpoint_to_resume,
    end_processes,
    open_training_run,
    training_description,
    use_all_cores,
)

CLASSIFIER_FILE = "classifier.json"
CARD_FILE = "README.md"


@dataclass
class StyleClassifierArguments:
    """This script's options, besides those of transformers."""

    model_name_or_path: str | None = option(None, "The encoder: a Hub id, a local folder, or 'embedded' (MiniLM).")
    model_revision: str | None = option(None, "The branch, tag or commit of the encoder on the Hub.")
    trust_remote_code: bool = option(False, "Allow code that comes with the encoder to run on this machine.")
    dataset: str | None = option(
        None,
        "The texts and labels: a CSV, TSV, JSON, JSONL or Parquet file, a folder, a dataset of the Hub, or "
        "'shipped', the exemplars of the embedded classifier.",
    )
    dataset_config: str | None = option(None, "The config, if the dataset has several.")
    text_column: str = option("text", "The column of the texts.")
    label_column: str = option("label", "The column of the labels, one style per text.")
    max_length: int = option(128, "The maximum length of a training text in tokens; longer texts are cut.")
    vocabulary: str = option("v1.0", "The version of the vocabulary whose terms measure leakage.")

    def __post_init__(self) -> None:
        """Raises `ValueError` if texts would have almost no tokens."""
        check_least(self, max_length=8)


def main(argv: list[str] | None = None) -> None:
    """Reads the options, trains, and prints the classifier's accuracy and folder."""
    words = sys.argv[1:] if argv is None else argv
    run_script("style_classifier.py", lambda: train_classifier(*parse_options(words)))


def parse_options(argv: list[str]) -> tuple[StyleClassifierArguments, TrainingArguments]:
    """Reads the command line, as `parse_training_options`."""
    return parse_training_options(
        (StyleClassifierArguments, TrainingArguments),
        argv,
        __doc__,
        num_train_epochs=4,
        learning_rate=5e-5,
        weight_decay=0.01,
        warmup_steps=0.06,
        per_device_train_batch_size=32,
        per_device_eval_batch_size=64,
        bf16=False,  # keeps the probabilities of single texts comparable
        save_strategy="epoch",
        save_total_limit=1,
        report_to="none",
        logging_steps=50,
    )


def train_classifier(arguments: StyleClassifierArguments, training_args: TrainingArguments) -> dict[str, Any] | None:
    """Trains, calibrates, tests, and measures leakage; writes the classifier, its card and classifier.json.

    Returns:
        The content of classifier.json, on the main process; `None` on all others, and if the run was finished already.

    Raises:
        ValueError: The encoder, the rows and the options do not fit together, or training diverged.
        OSError: The encoder or the rows do not exist.
    """
    check_given(model_name_or_path=arguments.model_name_or_path, dataset=arguments.dataset)
    encoder, dataset = str(arguments.model_name_or_path), str(arguments.dataset)
    vocabulary = read_version(arguments.vocabulary)
    use_all_cores(training_args)
    with training_args.main_process_first(local=False):
        everything, num_skipped = read_rows(
            dataset,
            text_column=arguments.text_column,
            label_column=arguments.label_column,
            config=arguments.dataset_config,
        )
    rows = split_rows(everything, seed=training_args.seed)
    labels = sorted(set(everything.labels))
    indices = {name: np.array([labels.index(label) for label in part.labels]) for name, part in rows.items()}
    set_seed(training_args.seed)  # the head is random
    with training_args.main_process_first(local=False):
        model, tokenizer = load_encoder(
            encoder,
            labels,
            revision=arguments.model_revision,
            trust_remote_code=arguments.trust_remote_code,
        )
    description = {
        **training_description(arguments, training_args),
        "encoder": {"digest": encoder_digest(encoder, arguments.model_revision)},
        "vocabulary": {"name": arguments.vocabulary, "digest": vocabulary.digest},
        "rows_digest": hashlib.sha256(repr(rows).encode()).hexdigest(),
    }
    folder = open_training_run(training_args, description, CLASSIFIER_FILE)
    if folder is None:
        return None

    longest = min(arguments.max_length, tokenizer.model_max_length)
    encoded = {name: _encode(part.texts, indices[name], tokenizer, longest) for name, part in rows.items()}
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=encoded["train"],
        eval_dataset=encoded["calibration"],
        data_collator=DataCollatorWithPadding(tokenizer),
        processing_class=tokenizer,
    )
    trainer.train(resume_from_checkpoint=checkpoint_to_resume(training_args))
    logits = np.asarray(trainer.predict(encoded["calibration"]).predictions, np.float64)
    check_finite(training_args, logits, "logit of a text")
    temperature = fit_temperature(logits, indices["calibration"])
    record = None
    if trainer.is_world_process_zero():
        calibrate_head(trainer.accelerator.unwrap_model(trainer.model), temperature)
        trainer.save_model(str(folder))
        record = {
            **description,
            "seed": training_args.seed,
            "learning_rate": training_args.learning_rate,
            "labels": labels,
            "rows": {
                **{name: len(part.texts) for name, part in rows.items()},
                "num_skipped": num_skipped,
                "num_cut": sum(sum(part["is_cut"]) for part in encoded.values()),
            },
            "num_steps": trainer.state.global_step,
            "temperature": temperature,
            **_measured(folder, arguments, rows, indices, vocabulary),
        }
        _write(folder, record)
    end_processes(trainer)
    return record


def _encode(texts: list[str], labels: np.ndarray, tokenizer: Any, longest: int) -> Any:
    """Rows of `input_ids`, `attention_mask` and `labels`, and whether a text was cut."""
    whole = tokenizer(texts, verbose=False)["input_ids"]
    columns = dict(tokenizer(texts, truncation=True, max_length=longest))
    is_cut = [len(tokens) > longest for tokens in whole]
    return Dataset.from_dict({**columns, "labels": labels, "is_cut": is_cut})


def _measured(
    folder: Path,
    arguments: StyleClassifierArguments,
    rows: dict[str, LabelledRows],
    indices: dict[str, np.ndarray],
    vocabulary: Any,
) -> dict[str, Any]:
    """Accuracy, calibration and leakage of the saved classifier, loaded in the same way as by `measure`."""
    classifier = load_style_classifier(str(folder), trust_remote_code=arguments.trust_remote_code)
    found = {
        name: quality(np.log(np.maximum(classifier.probabilities(rows[name].texts), 1e-300)), indices[name])._asdict()
        for name in ("calibration", "test")
    }
    leakage = identity_leakage(classifier.probabilities, named_people(vocabulary), shipped_sentences())
    return {"quality": found, "identity_leakage": leakage}


def _write(folder: Path, record: dict[str, Any]) -> None:
    """Writes the card, and last the record, which marks a finished run."""
    test = record["quality"]["test"]
    write_text(folder / CARD_FILE, classifier_card(record))
    write_json(folder / CLASSIFIER_FILE, record)
    print(
        f"accuracy {test['accuracy']:.1%}, among the five likeliest {test['top_5']:.1%} ({test['num_rows']:,} texts)\n"
        f"calibration error {test['calibration_error']:.1%}, at temperature {record['temperature']:.3f}\n"
        f"identity leakage {record['identity_leakage']['leakage']:.1f}\n"
        f"classifier: {folder.resolve()}"
    )


if __name__ == "__main__":
    main()
