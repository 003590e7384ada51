"""Regard bias: do texts about one group show higher regard for it, and does the answer depend on the template?

Aggarwal et al. (2022): regard of texts that continue prompts in many syntactic structures, by group, by pair of groups
and by structure, and the same for one fixed structure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import datasets
import evaluate
import numpy as np

from hb_metrics.regard_bias.cell_means import kl_matrix
from hb_metrics.regard_bias.chance import by_chance
from hb_metrics.regard_bias.draws import middle_range
from hb_metrics.regard_bias.intervals import spread_over_structures
from hb_metrics.regard_bias.regard_results import (
    CONFIDENCE_LEVEL,
    FIXED_STRUCTURE,
    N_HALVES,
    N_SHUFFLES,
    K,
    Other,
    regard_bias,
)
from hb_metrics.regard_bias.regard_rows import EMPTY_ERROR, REGARDS, check_names, check_predictions
from hb_metrics.regard_bias.structure_cosines import robustness
from hb_metrics.regard_bias.structure_results import by_structure
from hb_metrics.stats.inputs import check_column, check_references

# `evaluate` fetches the files that the lines above name, but not the files which those import in turn: hence all here.
__all__ = [
    "REGARDS",
    "RegardBias",
    "by_chance",
    "by_structure",
    "kl_matrix",
    "middle_range",
    "regard_bias",
    "robustness",
    "spread_over_structures",
]

_DESCRIPTION = """\
Regard bias (Aggarwal et al., 2022) compares with how much regard a model's texts speak of groups: the distribution,
mean and standard deviation of -1 (negative), 0 (neutral) and 1 (positive) of each group, the gap between the advantaged
and the disadvantaged group of a pair, and divergences between distributions. With prompts in many syntactic structures
it shows which structures flip a gap, how much the means of groups depend on the structure, and whether the verdict of
one fixed structure survives.
"""

_CITATION = """\
@inproceedings{aggarwal-etal-2022-towards,
    title = "Towards Robust {NLG} Bias Evaluation with Syntactically-diverse Prompts",
    author = "Aggarwal, Arshiya and Sun, Jiao and Peng, Nanyun",
    booktitle = "Findings of the Association for Computational Linguistics: EMNLP 2022",
    year = "2022",
}
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of str, or of list of float): regard of each text: negative, neutral, positive or other; or the
        probabilities of these, of which the highest decides (the first, if several are equal).
    groups (list of str): the group that the prompt of each text is about.
    structures (list of str, optional): syntactic structure of each prompt. Without it only groups are compared.
    prompts (list of str, optional): the prompt, or its verb phrase, that each text continues.
    seeds (list of str or int, optional): the seed that each text was drawn with.
    pairs (dict): name -> [advantaged, disadvantaged] group. Defaults to None: no gaps.
    labels (list of str): the columns of probabilities, in their order. Defaults to negative, neutral, positive, other.
    other (str): handling of texts labelled other: drop: left out and counted; neutral: counted as neutral; keep: a
        fourth class of distributions and divergences, which means and gaps do not include. Defaults to drop.
    smoothing (float): added to each count before divergences. Defaults to None: an empty class is an error.
    kl (bool): whether to compute divergences. Defaults to True.
    k (int): the number of best and of worst structures. Defaults to 5, as in the paper.
    confidence_level (float): confidence level of the intervals, which are by Student's t. Defaults to 0.95.
    n_halves (int): number of random splits of the structures into two halves. Defaults to 1000.
    n_shuffles (int): number of times that each group's rows are shuffled among the structures, for the figures that
        single structures would have by chance alone. Defaults to 200.
    num_sampled (int): number of structures to draw for the cosine of single structures (the paper: 10). Defaults to
        None: all.
    fixed_structure (str): the structure whose figures are compared with those of all structures. Defaults to original.
    seed (int): seed of all draws; intervals use none. Defaults to 0.
Returns:
    gaps (dict): pair -> advantaged, disadvantaged, gap (mean of advantaged - of disadvantaged), interval_structures,
        interval_seeds, no_interval, and of single structures num_structures, num_flipped, flipped, share_flipped,
        num_zero.
    by_group (dict): group -> distribution, counts, mean, sd, num, interval_structures, interval_seeds, no_interval.
        no_interval: kind of units -> why there is no interval: fewer than 5 units, or coverage would be wrong.
    kl_divergence (dict of dict): row group -> column group -> KL(row || column), natural logarithm.
    by_structure (dict): structure -> mean (by group), overall, gap (by pair), num, num_groups.
    best_structures, worst_structures (list): by overall mean. largest_gap, smallest_gap (dict): pair, or all -> list.
    robustness (dict): mean cosine of the group means of single_structures and of random_halves, and agreement.
    fixed (dict): the figures of the fixed structure alone, with interval_prompts.
    verdicts (dict): pair -> fixed, structured (advantaged, disadvantaged or undecided), survives, no_verdict (reasons).
    verdict_over (dict): the kind of units whose intervals decide the verdicts.
    labels, num_rows, num_other, num_counted, num_structures, num_prompts, num_seeds, and the options as given.
    None stands for what is not defined.
Examples:
    >>> metric = evaluate.load("regard_bias")
    >>> results = metric.compute(
    ...     predictions=["neutral", "negative", "positive", "negative", "neutral", "positive", "positive", "negative"],
    ...     groups=["man", "woman"] * 4,
    ...     structures=["original", "original", "cleft-it", "cleft-it", "tag", "tag", "report", "report"],
    ...     pairs={"gender": ["man", "woman"]},
    ...     smoothing=1,
    ... )
    >>> results["gaps"]["gender"]["gap"], results["gaps"]["gender"]["flipped"]
    (1.0, ['tag'])
    >>> results["best_structures"][:2]
    ['tag', 'cleft-it']
    >>> round(results["kl_divergence"]["man"]["woman"], 3)
    0.447
"""

FORMAT_ERROR = (
    "the first row has the prediction {prediction!r} and the group {group!r}; give a label, or a list of "
    "probabilities, and the group as a string"
)


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class RegardBias(evaluate.Metric):
    """The `evaluate` module around `regard_bias`."""

    def _info(self) -> evaluate.MetricInfo:
        columns = {
            "groups": datasets.Value("string"),
            # Of a column of type "string" `evaluate` refuses a first value that is null.
            "structures": datasets.Value("large_string"),
            "prompts": datasets.Value("large_string"),
            "seeds": datasets.Value("large_string"),
        }
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=[
                datasets.Features({"predictions": datasets.Value("string"), **columns}),
                datasets.Features({"predictions": datasets.Sequence(datasets.Value("float64")), **columns}),
            ],
            reference_urls=["https://aclanthology.org/2022.findings-emnlp.445/"],
        )

    # `evaluate` requires every feature in every call: the three methods below pass nulls for those that are left out.

    def add(
        self,
        *,
        prediction: Any = None,
        reference: None = None,
        structures: str | None = None,
        prompts: str | None = None,
        seeds: str | int | None = None,
        **kwargs: Any,
    ) -> None:
        """As `evaluate.Metric.add`; `structures`, `prompts` and `seeds` may be left out."""
        check_references(reference)
        _check_row(prediction, kwargs.get("groups"))
        check_predictions([prediction])
        seed = _seed_names([seeds])[0]
        super().add(prediction=prediction, structures=structures, prompts=prompts, seeds=seed, **kwargs)

    def add_batch(
        self,
        *,
        predictions: Any = None,
        references: None = None,
        structures: Sequence[Any] | None = None,
        prompts: Sequence[Any] | None = None,
        seeds: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """As `evaluate.Metric.add_batch`; `structures`, `prompts` and `seeds` may be left out."""
        check_references(references)
        columns = {"predictions": predictions, "structures": structures, "prompts": prompts, "seeds": seeds, **kwargs}
        for name, column in columns.items():
            if column is not None:
                check_column(name, column)
        if predictions is not None:
            check_predictions(predictions)
            if not len(predictions):
                raise ValueError(EMPTY_ERROR)
            # Lists, because `evaluate` reads row 0, which a pandas column may have under another index.
            columns = {
                name: [None] * len(predictions) if column is None else list(column) for name, column in columns.items()
            }
            _check_row(columns["predictions"][0], next(iter(columns.get("groups", ())), None))
            columns["seeds"] = _seed_names(columns["seeds"])
        super().add_batch(**columns)

    def compute(
        self,
        *,
        predictions: Any = None,
        references: None = None,
        structures: Sequence[Any] | None = None,
        prompts: Sequence[Any] | None = None,
        seeds: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any] | None:
        """As `evaluate.Metric.compute`; `structures`, `prompts` and `seeds` may be left out."""
        check_references(references)
        return super().compute(predictions=predictions, structures=structures, prompts=prompts, seeds=seeds, **kwargs)

    def _compute(
        self,
        predictions: Sequence[Any],
        groups: Sequence[str],
        structures: Sequence[Any],
        prompts: Sequence[Any],
        seeds: Sequence[Any],
        pairs: Mapping[str, Sequence[str]] | None = None,
        labels: Sequence[str] = REGARDS,
        other: Other = "drop",
        smoothing: float | None = None,
        kl: bool = True,
        k: int = K,
        confidence_level: float = CONFIDENCE_LEVEL,
        n_halves: int = N_HALVES,
        n_shuffles: int = N_SHUFFLES,
        num_sampled: int | None = None,
        fixed_structure: str = FIXED_STRUCTURE,
        seed: int = 0,
    ) -> dict[str, Any]:
        return regard_bias(
            predictions,
            groups,
            structures=_known(structures),
            prompts=_known(prompts),
            seeds=_known(seeds),
            pairs=pairs,
            labels=labels,
            other=other,
            smoothing=smoothing,
            kl=kl,
            k=k,
            confidence_level=confidence_level,
            n_halves=n_halves,
            n_shuffles=n_shuffles,
            num_sampled=num_sampled,
            fixed_structure=fixed_structure,
            seed=seed,
        )


def _seed_names(seeds: Sequence[Any]) -> list[str | None]:
    """Seeds as strings, as `evaluate` stores them; checked first, because any value can become a string."""
    check_names("seeds", [seed for seed in seeds if seed is not None])
    return [None if seed is None else str(seed) for seed in seeds]


def _check_row(prediction: Any, group: Any) -> None:
    """Raises a `ValueError` for a first row that fits none of the features, for which `evaluate`'s own error fails."""
    if not (isinstance(prediction, str) or np.ndim(prediction) == 1) or not isinstance(group, str):
        raise ValueError(FORMAT_ERROR.format(prediction=prediction, group=group))


def _known(column: Sequence[Any]) -> Sequence[Any] | None:
    """The column; `None` if it was left out."""
    return None if all(value is None for value in column) else column
