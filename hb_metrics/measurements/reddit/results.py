"""Defines the results of `reddit`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PairedTest:
    """The paired tests of a bias type (see `language_model_bias`, which defines the values)."""

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


@dataclass(frozen=True)
class Reddit:
    """The results of `reddit`. `lmp` is the perplexity of ordinary texts, of which `lmp_num_texts` were scored."""

    by_bias_type: dict[str, PairedTest]
    lmp: float
    lmp_num_texts: int
