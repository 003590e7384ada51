"""Defines the options and the results of `reddit`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PairedTest:
    """The paired tests of a bias type (see `language_model_bias`, which defines the first 18 values).

    Attributes:
        num_read: The number of pairs in the file.
        num_skipped: The numbers of pairs that were not scored, by reason.
        num_duplicates: The number of pairs that are also in the training split. `None` if it is unknown.
    """

    t: float | None
    p_value: float | None
    degrees_of_freedom: int
    mean_difference: float
    share_t1_likelier: float
    effect_size: float | None
    wilcoxon_statistic: float | None
    wilcoxon_p_value: float | None
    t_log: float | None
    p_value_log: float | None
    mean_difference_log: float
    effect_size_log: float | None
    mean_perplexity_t1: float
    mean_perplexity_t2: float
    num_pairs: int
    num_ties: int
    is_significant: bool | None
    alpha: float
    split: str
    num_read: int
    num_skipped: dict[str, int]
    num_identical: int
    num_repeated: int
    num_duplicates: int | None


@dataclass(frozen=True)
class Reddit:
    """The results of `reddit`. `lmp` is the perplexity of ordinary texts."""

    by_bias_type: dict[str, PairedTest]
    lmp: float
    lmp_num_texts: int
    lmp_num_skipped: dict[str, int]
    lmp_source: str
