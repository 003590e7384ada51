import abc
from collections.abc import Callable
from typing import Any, ClassVar

import datasets
import evaluate

from hb_metrics.stats.inputs import check_column, check_references, number_column, text_column, without_scalars

# The same as in hb_dataset.prompts. A published metric does not require hb_dataset.
CITATION = """\
@inproceedings{smith-etal-2022-im,
    title = "{``}{I}{'}m sorry to hear that{''}: Finding New Biases in Language Models
        with a Holistic Descriptor Dataset",
    author = "Smith, Eric Michael and Hall, Melissa and Kambadur, Melanie and Presani, Eleonora and Williams, Adina",
    booktitle = "Proceedings of the 2022 Conference on Empirical Methods in Natural Language Processing",
    year = "2022",
}
"""


def metric_info(
    description: str,
    inputs_description: str,
    *,
    citation: str = CITATION,
    paper: str = "2022.emnlp-main.625",
    **features: Any,
) -> evaluate.MetricInfo:
    """Describes a metric of a paper in the ACL Anthology, by default of Smith et al. (2022)."""
    return evaluate.MetricInfo(
        description=description,
        citation=citation,
        inputs_description=inputs_description,
        features=datasets.Features(features),
        reference_urls=[f"https://aclanthology.org/{paper}/"],
    )


class CheckedMetric(evaluate.Metric, abc.ABC):
    """An `evaluate.Metric` that rejects inputs that `evaluate` would silently ignore or misread.

    `evaluate` ignores references and masks, and reads a string as a column. The methods must have docstrings, because
    `evaluate` appends to them.

    Attributes:
        function: Computes the results from the predictions, the other columns and the options.
        optional: The features that may be omitted. They are then null in each row, because `evaluate` requires every
            feature in every call.
    """

    function: ClassVar[Callable[..., dict[str, Any]]]
    optional: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._added: list[dict[str, Any]] = []

    @abc.abstractmethod
    def _info(self) -> evaluate.MetricInfo:
        """Describes the metric. This method is abstract so that `evaluate.load` does not load this class."""

    def described(
        self, description: str, inputs_description: str, *required: str, predictions: str = "float64", **of_paper: Any
    ) -> evaluate.MetricInfo:
        """Describes the metric. `required` and `optional` are columns of strings."""
        types = {"predictions": predictions, **dict.fromkeys(required, "string")}
        # `evaluate` rejects a null as the first value of a column of type "string".
        types |= dict.fromkeys(self.optional, "large_string")
        features = {name: datasets.Value(of_column) for name, of_column in types.items()}
        return metric_info(description, inputs_description, **of_paper, **features)

    def add(self, *, prediction: Any = None, reference: None = None, **kwargs: Any) -> None:
        """Adds a prediction."""
        prediction = kwargs.pop("predictions", prediction)  # as in `compute`
        columns: dict[str, object] = {name: [value] for name, value in kwargs.items()}
        self.add_batch(predictions=[prediction], references=reference, **columns)

    def add_batch(self, *, predictions: Any = None, references: None = None, **kwargs: Any) -> None:
        """Adds predictions."""
        check_references(references)
        values = self.read_predictions(predictions)
        columns: dict[str, Any] = dict.fromkeys(self.optional, [None] * len(values))
        for name, column in kwargs.items():
            if name in self.optional:
                if column is None:
                    continue
                check_column(name, column)
                if all(value is None for value in without_scalars(column)):
                    continue
            columns[name] = text_column(name, column)
            if len(columns[name]) != len(values):  # `evaluate` ignores a batch whose first column is empty
                raise ValueError(f"{name} has {len(columns[name])} rows, but predictions has {len(values)}")
        super().add_batch(predictions=values, **columns)
        self._added.append({"predictions": values, **columns})

    def compute(self, *, predictions: Any = None, references: None = None, **kwargs: Any) -> dict[str, object] | None:
        """Computes the metric. If an error occurs, rows that were added before are kept."""
        check_references(references)
        added = self._added.copy()
        try:
            results = super().compute(predictions=predictions, **dict.fromkeys(self.optional) | kwargs)
        except Exception:
            self._added = added
            if self.writer is None:  # `evaluate` has closed its file of added rows, and would not read it again
                for batch in added:
                    super().add_batch(**batch)
            raise
        self._added = []
        return results

    def read_predictions(self, column: Any) -> Any:
        """Checks and converts the predictions."""
        return number_column("predictions", column)

    def _compute(self, predictions: Any, **columns: Any) -> dict[str, object]:
        omitted = {name for name in self.optional if all(value is None for value in columns[name])}
        given = {name: column for name, column in columns.items() if name not in omitted}
        return type(self).function(predictions, **given)
