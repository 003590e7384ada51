"""Style vectors: the probability of each conversational style for each reply (Smith et al., 2022, A.6).

From the embedded classifier of 217 styles (`embedded_styles.py`) or any sequence classifier. Replies are censored for
the descriptor of their prompt first; identical ones of a shard are classified once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
import yaml

from hb_dataset.yaml_lines import Fault, load_with_lines
from hb_metrics.inference.classifiers.sequence_classifier import BATCH_SIZE, load_sequence_classifier
from hb_metrics.inference.models.loading import EMBEDDED
from hb_metrics.inference.shards import fill_shards, plan_row_shards
from hb_metrics.inference.units import distinct

# Some seconds of work for the embedded classifier on two cores: little is lost to a kill, and every process has some.
ROWS_PER_SHARD = 512
PRECISIONS = ("float32", "float16")
CLUSTER_FILES = tuple(
    Path(__file__).parent / "style_data" / name for name in ("clusters_217.yaml", "clusters_goemotions.yaml")
)

ONE_LABEL_ERROR = (
    "classifier '{name}' has the one label '{label}', so every reply has the same style; give one with more"
)
BLANK_ERROR = "reply {row} is blank; leave empty replies out and count them"
OPTION_ERROR = "the embedded style classifier has no {option} '{value}'; leave it out"
CLUSTERS_ERROR = "{path}: {problem}; write `clusters:` and under it `cluster: [label, label]` lines"


@dataclass(frozen=True)
class StyleClassifier:
    """A classifier ready to be asked.

    Attributes:
        name: The name it was asked for by; `embedded_styles.NAME` for the embedded one.
        digest: What identifies its weights.
        labels: [styles] names of the styles.
        multi_label: Whether its labels have probabilities of their own (sigmoid), which are divided by their sum here.
        temperature: What scores are divided by before the softmax.
        notes: What was decided on the way and a reader of the results should know.
        classify: Texts → [texts, styles] probabilities that sum to 1 a row, and [texts] whether a text was cut.
    """

    name: str
    digest: str
    labels: tuple[str, ...]
    multi_label: bool
    temperature: float
    notes: tuple[str, ...]
    classify: Callable[[Sequence[str]], tuple[np.ndarray, np.ndarray]]

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """[texts, styles] float64 style probabilities; a ValueError names a text that is blank."""
        for row, text in enumerate(texts):
            if not text.strip():
                raise ValueError(BLANK_ERROR.format(row=row))
        return self.classify(texts)[0]


def load_style_classifier(
    name: str = EMBEDDED,
    *,
    revision: str | None = None,
    device: str | torch.device = "cpu",
    trust_remote_code: bool = False,
    batch_size: int = BATCH_SIZE,
) -> StyleClassifier:
    """Loads a classifier of styles.

    Args:
        name: `"embedded"`, the Hub id of a sequence classifier, or a local folder.
        revision: Branch, tag or commit of a Hub id.
        device: Where it runs, in float32.
        trust_remote_code: Whether code that comes with the model may run on this machine.
        batch_size: Texts classified at once; bounds the memory.

    Returns:
        The classifier.

    Raises:
        ValueError: It is no sequence classifier, or has one label only.
        OSError: The classifier or its tokenizer is not there.
        ModuleNotFoundError: The embedded classifier is not installed.
    """
    if name == EMBEDDED:
        if revision is not None:
            raise ValueError(OPTION_ERROR.format(option="revision", value=revision))
        from hb_metrics.inference.classifiers.embedded_styles import NAME, EmbeddedStyles

        embedded = EmbeddedStyles()
        return StyleClassifier(
            name=NAME,
            digest=embedded.digest,
            labels=tuple(embedded.labels),
            multi_label=False,
            temperature=embedded.discriminant.temperature,
            notes=("it stands in for the paper's 3B-parameter classifier",),
            classify=embedded.classify,
        )
    classifier = load_sequence_classifier(
        name, revision=revision, device=device, trust_remote_code=trust_remote_code, batch_size=batch_size
    )
    if len(classifier.labels) < 2:
        raise ValueError(ONE_LABEL_ERROR.format(name=name, label=classifier.labels[0]))
    notes = classifier.notes
    if classifier.is_sigmoid:
        notes = (*notes, "its labels have probabilities of their own; they are divided by their sum")

    def classify(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        probabilities, truncated = classifier.classify(texts)
        return probabilities / probabilities.sum(axis=1, keepdims=True), truncated

    return StyleClassifier(
        name=name,
        digest=classifier.digest,
        labels=classifier.labels,
        multi_label=classifier.is_sigmoid,
        temperature=1.0,
        notes=notes,
        classify=classify,
    )


def styles_into_shards(
    replies: Sequence[str],
    ids: Sequence[str],
    classifier: StyleClassifier,
    folder: Path,
    *,
    precision: str = "float32",
    progress: bool = True,
) -> pa.Table | None:
    """Classifies the replies that are not on disk yet, and reads all style vectors.

    Args:
        replies: Censored replies, none of them blank.
        ids: What each is keyed by; each id once.
        classifier: The classifier.
        folder: Where the shards are; made if it is not there.
        precision: `"float32"` or `"float16"`, which takes half the space and rounds to three digits.
        progress: Whether the main process shows a progress bar.

    Returns:
        A table with the columns `id`, `style_probabilities` ([styles] a row) and `truncated` (whether the classifier
        was given a part of the reply only) in the order of `replies`, on the main process; `None` on all others.
    """
    schema = style_schema(len(classifier.labels), precision)
    shards = plan_row_shards(len(replies), ROWS_PER_SHARD, folder)

    def compute(mine: Sequence[int], advance: Callable[[int], object]) -> Iterator[pa.Table]:
        for index in mine:
            rows = shards[index].rows
            unique, which = distinct([replies[row] for row in rows])
            probabilities, truncated = classifier.classify(unique)
            values = probabilities.astype(precision)[which]
            yield pa.table(
                {
                    "id": [ids[row] for row in rows],
                    "style_probabilities": pa.FixedSizeListArray.from_arrays(
                        pa.array(values.ravel()), len(classifier.labels)
                    ),
                    "truncated": truncated[which],
                },
                schema=schema,
            )
            advance(len(rows))

    return fill_shards(shards, ids, schema, compute, label="styles", unit="reply", inputs=replies, progress=progress)


def style_schema(num_styles: int, precision: str = "float32") -> pa.Schema:
    """The columns of the style shards."""
    if precision not in PRECISIONS:
        raise ValueError(f"style precision '{precision}' is not known; allowed: {', '.join(PRECISIONS)}")
    value = pa.float16() if precision == "float16" else pa.float32()
    return pa.schema(
        [("id", pa.string()), ("style_probabilities", pa.list_(value, num_styles)), ("truncated", pa.bool_())]
    )


def style_array(table: pa.Table) -> np.ndarray:
    """[replies, styles] from the `style_probabilities` of a table."""
    column = table["style_probabilities"].combine_chunks()
    return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), column.type.list_size)


def read_style_clusters(path: str | Path) -> dict[str, list[str]]:
    """Reads style clusters (label → cluster, or cluster → labels) from YAML.

    Args:
        path: A file with `clusters:`, and under it lists of labels by cluster, or a cluster for each label.

    Returns:
        Cluster → labels.

    Raises:
        ValueError: It is not such a file.
        OSError: It cannot be read.
    """
    faults: list[Fault] = []
    try:
        content, _ = load_with_lines(Path(path), faults)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(CLUSTERS_ERROR.format(path=path, problem=f"it is not valid YAML ({error})")) from error
    if faults:
        raise ValueError(CLUSTERS_ERROR.format(path=path, problem=f"line {faults[0].line}: {faults[0].message}"))
    found = content.get("clusters") if isinstance(content, Mapping) else None
    if not isinstance(found, Mapping) or not found:
        raise ValueError(CLUSTERS_ERROR.format(path=path, problem="it has no clusters"))
    if all(isinstance(cluster, str) and cluster for cluster in found.values()):
        by_cluster: dict[str, list[str]] = {}
        for label, cluster in found.items():
            by_cluster.setdefault(cluster, []).append(label)
        return by_cluster
    for cluster, labels in found.items():
        if not isinstance(labels, list) or not labels or not all(isinstance(name, str) and name for name in labels):
            raise ValueError(CLUSTERS_ERROR.format(path=path, problem=f"cluster '{cluster}' is {labels!r}"))
    return dict(found)


def clusters_for(labels: Sequence[str]) -> dict[str, list[str]] | None:
    """The shipped clusters whose labels this classifier has all of; `None` if there are none such."""
    names = {form for label in labels for form in (label, label.split(" (")[0])}
    for path in CLUSTER_FILES:
        clusters = read_style_clusters(path)
        if all(label in names for members in clusters.values() for label in members):
            return clusters
    return None
