r"""Trains a style classifier for `measure.py --style_classifier`, and measures its reaction to terms.

    accelerate launch hb_train/style_classifier.py --model_name_or_path FacebookAI/roberta-base \
        --dataset replies.csv --label_column style --output_dir classifiers/mine

It takes any encoder of the Hub, and any texts with one label each: a CSV, TSV, JSON, JSONL or Parquet file, a folder or
a dataset of the Hub. The same share of each label's rows is held out to calibrate, and again to test; a temperature is
fitted on the calibration rows and put into the weights. The folder has the classifier and a card with its accuracy,
calibration and identity leakage: how far probabilities move when only the term in a text changes. classifier.json
records all figures. The same command resumes an interrupted training.

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
from hb_train.classifiers.calibration import Quality, fit_temperature, quality
from hb_train.classifiers.card import classifier_card
from hb_train.classifiers.encoder import calibrate_head, encoder_digest, load_encoder
from hb_train.classifiers.labelled_rows import SHIPPED, SplitRows, label_indices, read_rows, split_rows
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
    trust_remote_code: bool = option(False, "Whether Python code that comes with the encoder may run on this machine.")
    dataset: str | None = option(
        None,
        "The texts and labels: a CSV, TSV, JSON, JSONL or Parquet file, a folder, a dataset of the Hub, or "
        "'shipped', the exemplars of the embedded classifier.",
    )
    dataset_config: str | None = option(None, "The config of a dataset that has several.")
    dataset_split: str = option("train", "The split of the dataset that is read.")
    text_column: str = option("text", "The column of the texts.")
    label_column: str = option("label", "The column of the labels, one style per text.")
    calibration_dataset: str | None = option(
        None,
        "Other rows to calibrate on, given like --dataset; 'shipped' are the replies that the embedded "
        "classifier is calibrated on. Default: a share of the rows.",
    )
    test_dataset: str | None = option(
        None, "Other rows to test on, given like --dataset. Default: a share of the rows."
    )
    max_length: int = option(128, "The largest number of tokens of a text in training; a longer one is cut.")
    vocabulary: str = option("v1.0", "The version of the vocabulary whose terms leakage is measured over.")

    def __post_init__(self) -> None:
        """Raises `ValueError` if a text would have nearly no token."""
        check_least(self, max_length=8)


def main(argv: list[str] | None = None) -> None:
    """Reads the options, trains, and prints how good the classifier is and where it is."""
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
        bf16=False,  # probabilities of a few texts are compared
        save_strategy="epoch",
        save_total_limit=1,
        report_to="none",
        logging_steps=50,
    )


def train_classifier(arguments: StyleClassifierArguments, training_args: TrainingArguments) -> dict[str, Any] | None:
    """Trains, calibrates, tests, and measures leakage; writes the classifier, its card and classifier.json.

    Returns:
        The content of classifier.json, on the main process; `None` on all others, and where it was there already.

    Raises:
        ValueError: The encoder, the rows and the options do not go together, or training diverged.
        OSError: The encoder or the rows are not there.
    """
    check_given(model_name_or_path=arguments.model_name_or_path, dataset=arguments.dataset)
    encoder, dataset = str(arguments.model_name_or_path), str(arguments.dataset)
    vocabulary = read_version(arguments.vocabulary)
    use_all_cores(training_args)
    with training_args.main_process_first(local=False):
        rows = _read_rows(arguments, training_args.seed)
    sources = [dataset, arguments.calibration_dataset or dataset, arguments.test_dataset or dataset]
    labels, indices = label_indices(rows, sources)
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
        "rows_digest": hashlib.sha256(repr([(part.texts, part.labels) for part in rows]).encode()).hexdigest(),
    }
    folder = open_training_run(training_args, description, CLASSIFIER_FILE)
    if folder is None:
        return None

    encoded = [
        _encode(part.texts, of_part.tolist(), tokenizer, arguments.max_length)
        for part, of_part in zip(rows, indices, strict=True)
    ]
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=encoded[0],
        eval_dataset=encoded[1],
        data_collator=DataCollatorWithPadding(tokenizer),
        processing_class=tokenizer,
    )
    trainer.train(resume_from_checkpoint=checkpoint_to_resume(training_args))
    logits = np.asarray(trainer.predict(encoded[1]).predictions, np.float64)
    check_finite(training_args, logits, "logit of a text")
    temperature = fit_temperature(logits, indices[1])
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
                **{name: len(part.texts) for name, part in rows._asdict().items()},
                "num_skipped": rows.train.num_skipped,
                "num_cut": sum(row["is_cut"] for part in encoded for row in part),
            },
            "num_steps": trainer.state.global_step,
            "temperature": temperature,
            **_measured(folder, arguments, rows, labels, indices, vocabulary, quality(logits, indices[1])),
        }
        _write(folder, record)
    end_processes(trainer)
    return record


def _read_rows(arguments: StyleClassifierArguments, seed: int) -> SplitRows:
    assert arguments.dataset is not None
    columns = {"text_column": arguments.text_column, "label_column": arguments.label_column}
    others = []
    for name in ("calibration", "test"):
        source = getattr(arguments, f"{name}_dataset")
        split = name if source == SHIPPED else "train"
        others.append(None if source is None else read_rows(source, split=split, **columns))
    return split_rows(
        read_rows(arguments.dataset, config=arguments.dataset_config, split=arguments.dataset_split, **columns),
        *others,
        seed=seed,
    )


def _encode(texts: list[str], labels: list[int], tokenizer: Any, max_length: int) -> Any:
    """Rows of `input_ids`, `attention_mask` and `labels`, and whether a text was cut."""
    longest = min(max_length, tokenizer.model_max_length)
    whole = tokenizer(texts, verbose=False)["input_ids"]
    columns = dict(tokenizer(texts, truncation=True, max_length=longest))
    is_cut = [len(tokens) > longest for tokens in whole]
    return Dataset.from_dict({**columns, "labels": labels, "is_cut": is_cut})


def _measured(
    folder: Path,
    arguments: StyleClassifierArguments,
    rows: SplitRows,
    labels: list[str],
    indices: list[np.ndarray],
    vocabulary: Any,
    before: Quality,
) -> dict[str, Any]:
    """Accuracy, calibration and leakage of the classifier as it was saved, loaded as `measure.py` loads it."""
    classifier = load_style_classifier(str(folder), trust_remote_code=arguments.trust_remote_code)
    assert list(classifier.labels) == labels
    found = {
        name: quality(np.log(np.maximum(classifier.probabilities(part.texts), 1e-300)), of_part)
        for name, part, of_part in zip(rows._fields[1:], rows[1:], indices[1:], strict=True)
    }
    leakage = identity_leakage(classifier.probabilities, named_people(vocabulary), shipped_sentences())
    return {
        "quality": {name: _plain(each) for name, each in {**found, "calibration_before": before}.items()},
        "identity_leakage": leakage,
    }


def _write(folder: Path, record: dict[str, Any]) -> None:
    """Writes the card, and last of all the record, with which the run is finished."""
    test = record["quality"]["test"]
    write_text(folder / CARD_FILE, classifier_card(record))
    write_json(folder / CLASSIFIER_FILE, record)
    print(
        f"accuracy {test['accuracy']:.1%}, among the five likeliest {test['top_5']:.1%} ({test['num_rows']:,} texts)\n"
        f"calibration error {test['calibration_error']:.1%}, at temperature {record['temperature']:.3f}\n"
        f"identity leakage {record['identity_leakage']['leakage']:.1f}\n"
        f"classifier: {folder.resolve()}"
    )


def _plain(found: Quality) -> dict[str, Any]:
    return {**found._asdict(), "curve": [each._asdict() for each in found.curve]}


if __name__ == "__main__":
    main()
