"""Regard: how a text speaks of a demographic group (Sheng et al., 2019; Aggarwal et al., 2022, section 2).

Not its sentiment: a sad text may speak of a group with respect. From the embedded classifier, learnt from written lines
(REGARD_CLASSIFIER.md), or any sequence classifier with the labels negative, neutral, positive and, at best, other. The
group is masked ("the XYZ was known for") unless the caller wants it to be read.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from hb_metrics.inference.classifiers.censoring import mention_pattern
from hb_metrics.inference.classifiers.sequence_classifier import BATCH_SIZE, load_sequence_classifier
from hb_metrics.inference.models.loading import EMBEDDED
from hb_metrics.inference.shards import fill_shards, plan_row_shards
from hb_metrics.inference.units import distinct

REGARDS = ("negative", "neutral", "positive", "other")
# A text that says nothing of the group, is mixed, or is no sense. A classifier may do without it.
OTHER = "other"
MASK = "XYZ"
NAME = "MiniLM regard exemplars (embedded)"
REGARD_DATA = Path(__file__).parent / "regard_data"
EXEMPLARS = REGARD_DATA / "exemplars.yaml"
CALIBRATION = REGARD_DATA / "calibration.yaml"
# Both chosen on the calibration lines.
DEPTHS = (0, 2, 4, 6)
SHRINKAGE = 0.7
# Some seconds of work for the embedded classifier on two cores: little is lost to a kill, and every process has some.
ROWS_PER_SHARD = 512

REGARD_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("regard_probabilities", pa.list_(pa.float32(), len(REGARDS))),
        ("truncated", pa.bool_()),
    ]
)

NOT_REGARD_ERROR = (
    "classifier '{name}' has the labels {labels}; those of regard are negative, neutral, positive and, at best, other. "
    '{problem}; give a classifier of regard, or say which label is which, as in labels="{example}"'
)
MAPPING_ERROR = (
    "labels names '{label}', which classifier '{name}' does not have; its labels are {labels}: name those only"
)
UNKNOWN_REGARD_ERROR = "labels takes '{label}' for '{regard}', which is no regard; allowed: {allowed}"
LABELS_ERROR = (
    "regard labels '{text}': {problem}; write LABEL=REGARD for each label of the classifier, with commas between them, "
    "as in 'LABEL_0=negative,LABEL_1=neutral,LABEL_2=positive'"
)
OPTION_ERROR = "the embedded regard classifier has no {option} '{value}'; leave it out"
NOT_TEXT_ERROR = "text {row} is {text!r}, not a string; leave out rows without a text and count them"
BLANK_ERROR = "text {row} is blank; leave blank texts out and count them"
BLANK_MENTION_ERROR = "mentions of text {row} hold {mention!r}; give the words a group is called by"
LENGTH_ERROR = "there are {texts} texts and {others} {what}; give as many of both"
ZERO_ERROR = "classifier '{name}' gives text {row} probability 0 of every label; check its weights"


@dataclass(frozen=True)
class RegardClassifier:
    """A classifier of regard ready to be asked.

    Attributes:
        name: The name it was asked for by; `NAME` for the embedded one.
        digest: What identifies its weights.
        labels: `REGARDS`, always in this order.
        notes: What was decided on the way and a reader of the results should know.
        classify: Texts → [texts, 4] float64 probabilities in the order of `labels` that sum to 1 a row, and [texts]
            bool whether a text was cut. A ValueError names a text that is blank or no text.
    """

    name: str
    digest: str
    labels: tuple[str, ...]
    notes: tuple[str, ...]
    classify: Callable[[Sequence[str]], tuple[np.ndarray, np.ndarray]]


def load_regard_classifier(
    name: str = EMBEDDED,
    *,
    labels: Mapping[str, str] | None = None,
    revision: str | None = None,
    device: str | torch.device = "cpu",
    trust_remote_code: bool = False,
    batch_size: int = BATCH_SIZE,
) -> RegardClassifier:
    """Loads a classifier of regard.

    Args:
        name: `"embedded"`, the Hub id of a sequence classifier, or a local folder.
        labels: Label of the classifier → regard, for labels that are not called after their regard; see
            `parse_regard_labels`. Several labels may be one regard: their probabilities are added.
        revision: Branch, tag or commit of a Hub id.
        device: Where it runs, in float32.
        trust_remote_code: Whether code that comes with the model may run on this machine.
        batch_size: Texts classified at once; bounds the memory.

    Returns:
        The classifier. Without a label for "other", its probability is 0, and a note says so.

    Raises:
        ValueError: It is no sequence classifier, or its labels are not those of regard.
        OSError: The classifier or its tokenizer is not there.
        ModuleNotFoundError: The embedded classifier is not installed.
    """
    if name == EMBEDDED:
        for option, value in (("revision", revision), ("labels", labels)):
            if value is not None:
                raise ValueError(OPTION_ERROR.format(option=option, value=value))
        return _embedded()
    classifier = load_sequence_classifier(
        name, revision=revision, device=device, trust_remote_code=trust_remote_code, batch_size=batch_size
    )
    columns = _columns(name, classifier.labels, labels)
    notes = classifier.notes
    if labels is not None:
        notes = (*notes, "labels read as " + ", ".join(f"{label} = {regard}" for label, regard in labels.items()))
    if not columns[OTHER]:
        notes = (*notes, "it has no label for other, which has probability 0")
    if classifier.is_sigmoid:
        notes = (*notes, "its labels have probabilities of their own; they are divided by their sum")

    def classify(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        _check_texts(texts)
        found, truncated = classifier.classify(texts)
        probabilities = np.stack([found[:, columns[regard]].sum(axis=1) for regard in REGARDS], axis=1)
        totals = probabilities.sum(axis=1, keepdims=True)
        if not totals.all():
            raise ValueError(ZERO_ERROR.format(name=name, row=np.flatnonzero(totals == 0)[0]))
        return probabilities / totals, truncated

    return RegardClassifier(name, classifier.digest, REGARDS, notes, classify)


def parse_regard_labels(text: str) -> dict[str, str]:
    """Reads "LABEL_0=negative,LABEL_1=neutral,LABEL_2=positive": label of a classifier → regard.

    Raises:
        ValueError: A part is no `LABEL=REGARD`, a label stands twice, or a regard is not one of `REGARDS`.
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        label, equals, regard = (each.strip() for each in part.rpartition("="))
        if not (label and equals and regard):
            raise ValueError(LABELS_ERROR.format(text=text, problem=f"'{part.strip()}' is no LABEL=REGARD"))
        if label in found:
            raise ValueError(LABELS_ERROR.format(text=text, problem=f"'{label}' stands twice"))
        found[label] = _regard(label, regard)
    return found


def mask_groups(texts: Sequence[str], mentions_of_each: Sequence[Sequence[str]]) -> list[str]:
    """Replaces every mention of its group in each text with "XYZ".

    A mention is found as in `censoring.censor`: in any case, as whole words, with hyphens, spaces or nothing at its
    hyphens, and with the plural of its last word. The longest mention wins where several begin. Articles stay, and so
    do the words "he" and "she".

    Args:
        texts: The texts.
        mentions_of_each: For each text what its group is called, singular and plural: ("gay person", "gay people").
            Without any, the text stays as it is.

    Raises:
        ValueError: A mention is blank, or there are more or fewer mentions than texts.
    """
    if len(texts) != len(mentions_of_each):
        raise ValueError(LENGTH_ERROR.format(texts=len(texts), others=len(mentions_of_each), what="lists of mentions"))
    masked = []
    for row, (text, mentions) in enumerate(zip(texts, mentions_of_each, strict=True)):
        for mention in mentions:
            if not mention.strip():
                raise ValueError(BLANK_MENTION_ERROR.format(row=row, mention=mention))
        masked.append(_mentions_pattern(tuple(mentions)).sub(MASK, text) if mentions else text)
    return masked


def regards_into_shards(
    texts: Sequence[str],
    ids: Sequence[str],
    classifier: RegardClassifier,
    folder: Path,
    *,
    progress: bool = True,
) -> pa.Table | None:
    """Classifies the texts that are not on disk yet, and reads all regards.

    Args:
        texts: Texts, masked or not, none of them blank.
        ids: What each is keyed by; each id once.
        classifier: The classifier. Identical texts of a shard are classified once.
        folder: Where the shards are; made if it is not there.
        progress: Whether the main process shows a progress bar.

    Returns:
        A table with the columns `id`, `regard_probabilities` ([4] a row, in the order of `REGARDS`) and `truncated`
        (whether the classifier was given a part of the text only) in the order of `texts`, on the main process; `None`
        on all others.

    Raises:
        ValueError: A text is blank or no text, or there are more or fewer ids than texts.
    """
    if len(texts) != len(ids):
        raise ValueError(LENGTH_ERROR.format(texts=len(texts), others=len(ids), what="ids"))
    _check_texts(texts)
    shards = plan_row_shards(len(texts), ROWS_PER_SHARD, folder)

    def compute(mine: Sequence[int], advance: Callable[[int], object]) -> Iterator[pa.Table]:
        for index in mine:
            rows = shards[index].rows
            unique, which = distinct([texts[row] for row in rows])
            probabilities, truncated = classifier.classify(unique)
            values = probabilities.astype(np.float32)[which]
            yield pa.table(
                {
                    "id": [ids[row] for row in rows],
                    "regard_probabilities": pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), len(REGARDS)),
                    "truncated": truncated[which],
                },
                schema=REGARD_SCHEMA,
            )
            advance(len(rows))

    return fill_shards(
        shards, ids, REGARD_SCHEMA, compute, label="regard", unit="text", inputs=texts, progress=progress
    )


def regard_array(table: pa.Table) -> np.ndarray:
    """[texts, 4] float32 from the `regard_probabilities` of a table, in the order of `REGARDS`."""
    column = table["regard_probabilities"].combine_chunks()
    return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), len(REGARDS))


def _embedded() -> RegardClassifier:
    from hb_metrics.inference.classifiers.embedded_styles import EmbeddedClassifier, ExemplarSet

    learnt_from = ExemplarSet("regard", EXEMPLARS, CALIBRATION, "regard", "lines", DEPTHS, SHRINKAGE)
    embedded = EmbeddedClassifier(learnt_from)
    order = [embedded.labels.index(regard) for regard in REGARDS]

    def classify(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        _check_texts(texts)
        probabilities, truncated = embedded.classify(texts)
        return probabilities[:, order], truncated

    note = "it stands in for the classifier of Sheng et al. (2019), and was learnt from written lines"
    return RegardClassifier(NAME, embedded.digest, REGARDS, (note,), classify)


def _columns(name: str, labels: Sequence[str], mapping: Mapping[str, str] | None) -> dict[str, list[int]]:
    """Regard → the places of its labels among those of the classifier."""
    shown = ", ".join(f"'{label}'" for label in labels)
    mapping = {} if mapping is None else mapping
    for label in mapping:
        if label not in labels:
            raise ValueError(MAPPING_ERROR.format(label=label, name=name, labels=shown))
    regards = [_regard(label, mapping[label]) if label in mapping else label.strip().lower() for label in labels]
    strangers = [label for label, regard in zip(labels, regards, strict=True) if regard not in REGARDS]
    missing = [regard for regard in REGARDS if regard != OTHER and regard not in regards]
    if strangers or missing:
        problem = " and ".join(
            [f"{', '.join(map(repr, strangers))} is not one of them"] * bool(strangers)
            + [f"{', '.join(missing)} is missing"] * bool(missing)
        )
        example = ",".join(f"{label}={regard}" for label, regard in zip(labels, REGARDS, strict=False))
        raise ValueError(NOT_REGARD_ERROR.format(name=name, labels=shown, problem=problem, example=example))
    return {regard: [place for place, each in enumerate(regards) if each == regard] for regard in REGARDS}


def _regard(label: str, regard: str) -> str:
    if regard.strip().lower() not in REGARDS:
        raise ValueError(UNKNOWN_REGARD_ERROR.format(label=label, regard=regard, allowed=", ".join(REGARDS)))
    return regard.strip().lower()


@cache
def _mentions_pattern(mentions: tuple[str, ...]) -> re.Pattern[str]:
    """Any of the mentions, the longest first."""
    longest_first = sorted(set(mentions), key=lambda mention: (-len(mention), mention))
    return re.compile("|".join(mention_pattern(mention.strip()).pattern for mention in longest_first), re.IGNORECASE)


def _check_texts(texts: Sequence[str]) -> None:
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(NOT_TEXT_ERROR.format(row=row, text=text))
        if not text.strip():
            raise ValueError(BLANK_ERROR.format(row=row))
