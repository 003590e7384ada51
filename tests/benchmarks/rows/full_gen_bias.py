"""Full Gen Bias, and the sampling noise in it, of style vectors that are in memory."""

import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tests.benchmarks.row import OURS, Row, Side

if TYPE_CHECKING:
    import evaluate
    import pandas as pd

NUM_REPLIES = 240_000
NUM_STYLES = 217
SCALE = 1000
BATCH = 8192  # as `make measure` gives replies to the metric
SEED = 0


class Replies(NamedTuple):
    """What is measured.

    Attributes:
        style_probabilities: [replies, styles] float32.
        descriptors: [replies] the descriptor in each prompt.
        templates: [replies] its template.
    """

    style_probabilities: np.ndarray
    descriptors: list[str]
    templates: list[str]


def replies(fraction: float) -> Replies:
    """Replies to prompts of v1.0, drawn without replacement and in their order, with style vectors that are made up.

    A fraction has that part of the descriptors, in all templates.
    """
    from hb_dataset import load_table

    number = round(fraction * NUM_REPLIES)
    generator = np.random.default_rng(SEED)
    prompts = load_table("v1.0")
    prompts = prompts.slice(0, round(fraction * len(prompts)))
    drawn = prompts.take(np.sort(generator.choice(len(prompts), number, replace=False)))
    probabilities = generator.standard_exponential((number, NUM_STYLES), dtype=np.float32)
    probabilities **= 4  # a few styles stand out
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    return Replies(probabilities, drawn["descriptor"].to_pylist(), drawn["template"].to_pylist())


def by_us(inputs: Replies, metric: Any) -> dict[str, np.ndarray]:
    """Our evaluate module, given the replies in batches."""
    _add_batches(metric, inputs)
    found = metric.compute()
    return {name: np.array(found[name]) for name in ("full_gen_bias", "noise_floor")}


def our_module(inputs: Replies) -> Any:
    """Our evaluate module."""
    from hb_metrics.full_gen_bias.full_gen_bias import FullGenBias

    return FullGenBias()


def by_pandas(inputs: Replies, frame: "pd.DataFrame") -> dict[str, np.ndarray]:
    """Group means, variances and counts, and the formulas."""
    groups = frame.groupby(["template", "descriptor"], sort=False)
    means, variances, counts = groups.mean(), groups.var(), groups.size()
    if (counts == 1).any():  # these take the mean of their template's other cells
        variances = variances.fillna(variances.groupby("template", sort=False).transform("mean"))
    spread = means.groupby("template", sort=False).var(ddof=0).sum(axis=1)
    of_means = variances.div(counts, axis=0).groupby("template", sort=False).sum().sum(axis=1)
    number = counts.groupby("template", sort=False).size()
    return {
        "full_gen_bias": np.array(SCALE * spread.mean(), dtype=float),
        "noise_floor": np.array(SCALE * ((1 - 1 / number) * of_means / number).mean(), dtype=float),
    }


def as_frame(inputs: Replies) -> "pd.DataFrame":
    """The replies as pandas has them; the style vectors are not copied."""
    import pandas as pd

    frame = pd.DataFrame(inputs.style_probabilities, copy=False)
    return frame.assign(template=inputs.templates, descriptor=inputs.descriptors)


def by_evaluate(inputs: Replies, metric: "evaluate.Metric") -> dict[str, np.ndarray]:
    """An evaluate module that leaves it to `evaluate` to keep the replies."""
    _add_batches(metric, inputs)
    found: dict[str, np.ndarray] = metric.compute()
    return found


def plain_module(inputs: Replies) -> "evaluate.Metric":
    """An evaluate module as the documentation shows how to write one."""
    import datasets
    import evaluate

    class PlainFullGenBias(evaluate.Metric):
        def _info(self) -> evaluate.MetricInfo:
            features = {
                "predictions": datasets.Sequence(datasets.Value("float32")),
                "descriptors": datasets.Value("string"),
                "templates": datasets.Value("string"),
            }
            return evaluate.MetricInfo(
                description="", citation="", inputs_description="", features=datasets.Features(features)
            )

        def _compute(self, predictions: Any, descriptors: Any, templates: Any) -> dict[str, np.ndarray]:
            matrix = np.array(predictions, dtype=np.float32)
            return by_pandas(inputs, as_frame(Replies(matrix, list(descriptors), list(templates))))

    datasets.disable_progress_bars()
    scratch = tempfile.TemporaryDirectory()
    metric = PlainFullGenBias(cache_dir=scratch.name)
    metric.scratch = scratch  # goes when the metric goes
    return metric


def _add_batches(metric: Any, inputs: Replies) -> None:
    for first in range(0, len(inputs.descriptors), BATCH):
        rows = slice(first, first + BATCH)
        metric.add_batch(
            predictions=inputs.style_probabilities[rows],
            descriptors=inputs.descriptors[rows],
            templates=inputs.templates[rows],
        )


def _notes(found: Mapping[str, np.ndarray]) -> str:
    return (
        f"float32 in memory, {NUM_STYLES} styles; ours is the evaluate module, given batches of {BATCH:,}, and checks "
        "every row and sums exactly; pandas is given a frame that is made already, and sums in float32"
    )


ROW = Row(
    title="Full Gen Bias and its noise floor",
    inputs=replies,
    work=lambda inputs: len(inputs.descriptors),
    unit="replies",
    sides={
        OURS: Side(run=by_us, load=our_module, repeats=5),
        "pandas": Side(run=by_pandas, load=as_frame, bar=5.0, memory_bar=8.0, repeats=5),
        "evaluate's buffer": Side(run=by_evaluate, load=plain_module, bar=5.0, memory_bar=8.0, repeats=1),
    },
    relative_tolerance=1e-6,  # float32 all the way in pandas
    notes=_notes,
)
