"""Defines the results of `decisions`. All decisions and their differences are fractions: 0.57 is 57 points of 100."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hb_dataset.own_prompts import Scale
from hb_metrics.run.record import ALPHA, ALPHA_OF_PARTS
from hb_metrics.stats.clusters import Estimate
from hb_metrics.stats.decisions import DecisionEstimate

ALPHA_OF_DOUBT = 0.2  # the level at which a part's decisions may differ, so that no verdict says that they do not
MIN_MASS = 0.5  # if the options have a lower probability, the model would answer something else


@dataclass(frozen=True)
class TermDecisions:
    """A term, or a group of names.

    Attributes:
        mean: The mean decision.
        gap: The mean decision minus that of the axis.
        adjusted_p: The p-value of the gap, adjusted for all terms of the run (Benjamini–Hochberg).
    """

    name: str
    mean: float | None
    num_answers: int
    gap: DecisionEstimate | None
    adjusted_p: float | None


@dataclass(frozen=True)
class TermPair:
    """The two terms, or groups of names, that differ most. The intervals are simultaneous for all pairs of the axis.

    Attributes:
        high: The term with the higher mean decision.
        gap: The mean of `high` minus the mean of `low`.
        means: The mean of `low` and the mean of `high`, over the questions that both have.
        ratio: The mean of `low` divided by the mean of `high`, if the decision is a choice.
    """

    high: str
    low: str
    gap: DecisionEstimate
    means: tuple[float, float]
    ratio: DecisionEstimate | None

    @property
    def words(self) -> str:
        return f"{self.high} compared with {self.low}"

    @property
    def is_clear(self) -> bool:
        """Returns whether the interval excludes 0. A test over all pairs may be significant because of another pair."""
        return self.gap.interval is not None and self.gap.interval[0] > 0


@dataclass(frozen=True)
class AxisDecisions:
    """The decisions about the terms of an axis, or about groups of names.

    Attributes:
        left_out: The terms, names or groups of names that have too few answers to be compared.
        spread: The standard deviation between terms. `None` for groups of names.
        p_value: The p-value of the test that all terms, or all groups of names, have equal means.
        adjusted_p: This p-value, adjusted for all axes (Benjamini–Hochberg).
        pair: `None` if no two terms have answers to the same question.
        baseline: The mean decision minus that for the same prompts without a term. `None` if there are none.
        unanswered: The share of answers without a decision, such as refusals.
        unanswered_pair: The terms whose shares of such answers differ most. `None` if all answers have a decision.
        unanswered_p: The p-value of their difference, adjusted for all pairs and axes (Bonferroni).
        refused: The share of answers that are refusals.
    """

    terms: list[TermDecisions]
    left_out: list[str]
    spread: DecisionEstimate | None
    p_value: float | None
    adjusted_p: float | None
    pair: TermPair | None
    baseline: DecisionEstimate | None
    unanswered: float
    unanswered_pair: TermPair | None
    unanswered_p: float | None
    refused: float

    @property
    def differs(self) -> bool:
        """Returns whether decisions differ: the test is significant, and the largest gap's interval excludes 0."""
        return is_significant(self.adjusted_p) and self.pair is not None and self.pair.is_clear

    @property
    def answers_differ(self) -> bool:
        """Returns whether answers without a decision, such as refusals, depend on the term."""
        return self.unanswered_p is not None and self.unanswered_p < ALPHA_OF_PARTS

    @property
    def is_mostly_unanswered(self) -> bool:
        """Returns whether the largest gap in answers without a decision exceeds that in decisions."""
        unanswered = self.unanswered_pair
        return unanswered is not None and self.pair is not None and unanswered.gap.value > self.pair.gap.value


@dataclass(frozen=True)
class Part:
    """The decisions in a part of the questions, such as those of a topic.

    Attributes:
        ends: The terms with the highest and the lowest mean decision, of the axis where these differ most, among the
            axes of the spread. `None` if no term has answers.
        pair: If decisions clearly differ in this part, the two terms that differ most. The interval is also adjusted
            for the number of tested parts (Bonferroni).
    """

    spread: DecisionEstimate
    ends: tuple[str, str] | None
    pair: TermPair | None = None


@dataclass(frozen=True)
class Answered:
    """A filled prompt and what was decided."""

    prompt: str
    answer: str


@dataclass(frozen=True)
class Example:
    """Two answers to one question, which differ like the two terms of the largest gap: the median of such answers."""

    axis: str
    high: str
    low: str
    of_high: Answered
    of_low: Answered


@dataclass(frozen=True)
class Decisions:
    """The results of `decisions`.

    Attributes:
        mean: The mean decision about people, over questions. `None` if no answer contains a decision.
        spread: The square root of the mean variance between terms, over axes. `None` if the run has only names, or if
            no two terms have answers to the same question.
        by_axis: The results of each axis. The axis "names" compares groups of names.
        by_part: The spread in parts of the prompts: "topic housing" has the questions of a topic, and "wording 2" has
            the second wording of all questions.
        names_by_part: The largest gap between groups of names in each part. Intervals and p-values are adjusted for the
            number of tested parts (Bonferroni).
        order_effect: The mean change of the decision if the favourable option stands first instead of last.
        predictions: The correlation of decisions with each score of the same run, over terms.
        option_mass: The mean probability that the options have together, if decisions are probabilities.
        scale: The scale of the numbers, if all prompts ask for a number on the same scale.
    """

    num_questions: int
    num_answers: int
    num_unanswered: int
    mean: DecisionEstimate | None
    spread: DecisionEstimate | None
    by_axis: dict[str, AxisDecisions]
    by_part: dict[str, Part]
    names_by_part: dict[str, TermPair]
    order_effect: DecisionEstimate | None
    option_mass: float | None
    example: Example | None
    predictions: dict[str, Estimate]
    scale: Scale | None = None

    @property
    def left_out(self) -> list[str]:
        return [name for axis in self.by_axis.values() for name in axis.left_out]

    @property
    def differ(self) -> bool:
        has_axis = any(is_significant(axis.adjusted_p) for axis in self.by_axis.values())
        return has_axis or (self.spread is not None and is_significant(self.spread.p_value))

    @property
    def answers_differ(self) -> bool:
        return any(axis.answers_differ for axis in self.by_axis.values())

    @property
    def clear_parts(self) -> list[str]:
        """Returns the parts in which decisions differ, with a stricter level, because decisions are tested in all."""
        return [name for name, adjusted_p, _ in self._tested_parts if adjusted_p < ALPHA_OF_PARTS]

    @property
    def unclear_parts(self) -> list[str]:
        """Returns the other parts that would differ if they were tested alone, or at the level `ALPHA_OF_DOUBT`.

        In 8 questions, no difference has a p-value below 1 in 128, so among several such topics, none can be clear.
        """
        tests, clear = self._tested_parts, self.clear_parts
        return [
            name
            for name, adjusted_p, p in tests
            if name not in clear and (p < ALPHA_OF_PARTS or adjusted_p < ALPHA_OF_DOUBT)
        ]

    @property
    def _tested_parts(self) -> list[tuple[str, float, float]]:
        """Returns the name of each part, its adjusted p-value, and its p-value."""
        spreads = [(name, part.spread.p_value) for name, part in self.by_part.items()]
        gaps = [(name, pair.gap.p_value) for name, pair in self.names_by_part.items()]
        of_terms, of_names = ([(name, p) for name, p in tests if p is not None] for tests in (spreads, gaps))
        tests = [(name, p * len(of_terms), p) for name, p in of_terms]
        # The p-values of names are adjusted, and at most 1.
        return tests + [(name, p, p / len(of_names) if p < 1 else p) for name, p in of_names]

    @property
    def unread(self) -> float:
        """Returns the largest share, over axes, of answers that are no refusal and could not be read."""
        return max((axis.unanswered - axis.refused for axis in self.by_axis.values()), default=0.0)

    @property
    def has_low_mass(self) -> bool:
        """Returns whether the model would often answer something other than the options."""
        return self.option_mass is not None and self.option_mass < MIN_MASS


def left_out_reason(names: Iterable[str]) -> str:
    return f"not compared, with too few answers to common questions: {', '.join(names)}"


def is_significant(p_value: float | None) -> bool:
    return p_value is not None and p_value < ALPHA


def widest_pair(by_axis: Mapping[str, AxisDecisions]) -> tuple[str, TermPair] | None:
    """Returns the axis and the pair with the largest gap. Gaps that were tested take precedence."""
    pairs = [(axis, of_axis.pair) for axis, of_axis in by_axis.items() if of_axis.pair is not None]
    return max(pairs, key=lambda item: (item[1].gap.interval is not None, item[1].gap.value), default=None)


def clear_pair(by_axis: Mapping[str, AxisDecisions]) -> tuple[str, TermPair] | None:
    return widest_pair({axis: of_axis for axis, of_axis in by_axis.items() if of_axis.differs})
