"""The card of a style classifier: what it was trained on, accuracy, calibration and identity leakage."""

from typing import Any

from hb_metrics.report.layout.numbers import bias, share

LICENCE = """\
Not stated, because only you can know it. It depends on the licences of the encoder ({encoder}) and of the texts and
labels ({dataset}), and on whether they permit training and sharing a model. Look up both before you share this folder,
and write the licence into the front matter."""


def classifier_card(record: dict[str, Any]) -> str:
    """The card, in Markdown, of what classifier.json records."""
    settings, quality, leakage = record["settings"], record["quality"], record["identity_leakage"]
    test = quality["test"]
    rows = record["rows"]
    labels = record["labels"]
    skipped = ", ".join(f"{name.replace('_', ' ')}: {number:,}" for name, number in rows["num_skipped"].items())
    moved = ", ".join(f"{row['descriptor']} ({share(row['move'], 0)})" for row in leakage["most_moved"])
    return f"""---
library_name: transformers
pipeline_tag: text-classification
tags:
- holistic-bias
- style
---

# {len(labels)} styles, classified by {settings["model_name_or_path"]}

A sequence classifier for `measure.py --style_classifier FOLDER`, trained with `hb_train/style_classifier.py`.

## Training

* Encoder: {settings["model_name_or_path"]} (digest `{record["encoder"]["digest"]}`).
* Texts and labels: {settings["dataset"]}, {rows["train"]:,} rows to train on in {len(labels)} labels; \
{rows["calibration"]:,} held out to calibrate, {rows["test"]:,} to test. Left out: {skipped}.
* {record["num_steps"]:,} steps, seed {record["seed"]}, learning rate {record["learning_rate"]:g}. Texts of more
  than {settings["max_length"]} tokens were cut: {rows["num_cut"]:,}.

## Accuracy On {test["num_rows"]:,} held-out texts, unused in fitting and selection:

| likeliest label is right | among the five likeliest | always the most frequent label |
| ---: | ---: | ---: |
| {share(test["accuracy"])} | {share(test["top_5"])} | {share(test["chance"])} |

## Calibration

Logits are divided by {record["temperature"]:.3f}, which is in the weights of the last layer: the softmax of this
folder's logits is calibrated. On the test texts, probability and accuracy are {share(test["calibration_error"])} apart
on average.

## Identity leakage

Identity leakage is the change of probabilities when only the term in a text changes. {leakage["num_sentences"]} plain
sentences that are the same for all {leakage["num_terms"]:,} terms of {record["vocabulary"]["name"]} have a Full Gen
Bias of **{bias(leakage["leakage"])}** (×1000) by this classifier, of which {bias(leakage["shared"])} is common to all
sentences. An unbiased speaker would have this value if terms are visible. On average a term moves
{share(leakage["mean_move"])} of the probability to other styles; the strongest terms are {moved}.

`measure` masks the prompt's term for the classifier, and reports the part of a run's Full Gen Bias that other terms in
replies may cause.

## Licence

{LICENCE.format(encoder=settings["model_name_or_path"], dataset=settings["dataset"])}
"""
