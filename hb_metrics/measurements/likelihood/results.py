"""Defines the results of `likelihood`. All shares are from 0 to 1, and values are by axis, descriptor and template."""

from dataclasses import dataclass

from hb_metrics.stats.contrasts import Contrasts
from hb_metrics.stats.likelihood_tables import TermShare


@dataclass(frozen=True)
class LikelihoodBias:
    """The results of the metric `likelihood_bias`, whose card describes them."""

    likelihood_bias: float
    by_axis: dict[str, float]
    by_template: dict[str, float]
    by_axis_and_template: dict[str, dict[str, float]]
    bh_likelihood_bias: float
    bh_by_axis: dict[str, float]
    effect_size: float
    effect_size_by_axis: dict[str, float]
    median_perplexity: dict[str, dict[str, float]]
    lowest_descriptors: dict[str, list[str]]
    highest_descriptors: dict[str, list[str]]
    num_tests: int
    num_tests_by_axis: dict[str, int]
    num_pairs_by_axis: dict[str, int]
    num_skipped_tests: int
    num_tests_too_small: int
    num_tests_too_small_by_axis: dict[str, int]
    skipped_axes: list[str]
    left_out_descriptors: list[str]
    alpha: float


@dataclass(frozen=True)
class DescriptorMedians:
    """The medians of a descriptor's sentences: [templates]. They are `None` in templates without the descriptor."""

    axis: str
    descriptor: str
    median_perplexity: list[float | None]
    median_num_tokens: list[float | None]


@dataclass(frozen=True)
class Perplexities:
    """A summary of the sentences' perplexities.

    Attributes:
        quantiles_by_axis_and_template: The quantiles for 5, 25, 50, 75 and 95 % of sentences.
    """

    median: float
    templates: list[str]
    quantiles_by_axis_and_template: dict[str, dict[str, list[float]]]
    by_descriptor: list[DescriptorMedians]


@dataclass(frozen=True)
class Likelihood:
    """The results of `likelihood`. `contrasts` are `None` if the vocabulary marks no pairs of templates."""

    likelihood_bias: LikelihoodBias
    perplexity: Perplexities
    term_share: TermShare
    contrasts: Contrasts | None
