"""Defines a run's record: all settings on which the results depend, as in run.json."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_type_hints

from hb_metrics.run.typed_json import Excerpt, from_json

CONFIDENCE_LEVEL = 0.95  # of all intervals of a run
ALPHA = 0.05  # of the tests that decide a verdict
# Of all tests of parts together (such as topics, or answers without a decision), so that verdicts are seldom wrong
# because of them.
ALPHA_OF_PARTS = 0.01


@dataclass(frozen=True)
class Layout(Excerpt):
    version: int
    measurements: list[str]


@dataclass(frozen=True)
class RecordedSettings(Excerpt):
    """The options that are read again. `Record.content` contains all options."""

    model: str
    dataset_config: str
    seed: int
    variations: bool
    vocabulary_dir: str | None
    quick: bool = False
    prompts: str | None = None
    axes: list[str] | None = None
    terms: str | None = None
    sample: int | None = None
    replies_per_cell: int | None = None


@dataclass(frozen=True)
class UsedAdapter(Excerpt):
    name: str
    digest: str


@dataclass(frozen=True)
class ServedModel(Excerpt):
    """How a model was served. `model` is the name under which the server answers."""

    model: str | None
    base_url: str | None
    provider: str | None


@dataclass(frozen=True)
class Model(Excerpt):
    """The measured model. `dtype` is `None` if it was not loaded, and `kind` if its answers come from files."""

    name: str
    digest: str | None
    kind: str | None
    dtype: str | None
    adapter: UsedAdapter | None = None
    served: ServedModel | None = None
    answered_in_files: bool = False
    quantization: str | None = None


@dataclass(frozen=True)
class Data(Excerpt):
    config: str
    digest: str
    num_prompts: int
    num_descriptors: int
    num_axes: int
    num_templates: int
    num_cells: int | None = None


@dataclass(frozen=True)
class GenerationSettings(Excerpt):
    """How replies were generated. The attributes without a default are in each record with replies."""

    context: str
    tag: str | None
    tag_reason: str
    cue: Literal["prompt", "system", "memory", "name", "signature", "history"] = "prompt"
    turns: int = 1
    follow_ups: list[str] = field(default_factory=list)
    questions: list[str] | None = None
    left_out_templates: list[str] = field(default_factory=list)
    num_left_out_prompts: int = 0
    system_prompt: str | None = None
    chat_template_kwargs: dict[str, object] | None = None
    end_after_sentence: bool = False
    sample: bool = False
    thinks: bool = False
    max_reasoning_tokens: int | None = None
    reply: str | None = None
    reply_reason: str | None = None
    ignored_settings: dict[str, object] | None = None
    tuned_with: dict[str, object] | None = None
    replies_from: str | None = None
    replies_a_prompt: tuple[int, int] | None = None
    num_copied_replies: int = 0
    num_cut_to_first_line: int = 0


@dataclass(frozen=True)
class UsedClassifier(Excerpt):
    """A classifier. `judge` describes the language model and its rubric if it is a judge."""

    name: str
    is_embedded: bool
    digest: str | None
    notes: list[str]
    version: str | None = None
    judge: dict[str, Any] | None = None


@dataclass(frozen=True)
class StyleClassifier(UsedClassifier):
    num_styles: int = 0
    labels: list[str] = field(default_factory=list)
    clusters: dict[str, list[str]] | None = None
    temperature: float | None = None


@dataclass(frozen=True)
class Judge(UsedClassifier):
    """A judge. `reads` describes how its answers were read, and `rubric` contains the fields of `Rubric`.

    `model_digest` is `None` if a server ran the judge.
    """

    reads: str = ""
    model_digest: str | None = None
    rubric: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RegardClassifier(UsedClassifier):
    pairs: dict[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Scoring(Excerpt):
    path: str
    reason: str


@dataclass(frozen=True)
class FrequencySource(Excerpt):
    source: str
    is_default: bool


@dataclass(frozen=True)
class DecisionPrompts(Excerpt):
    """The prompts that ask for decisions. `labels` are the favourable labels of free text."""

    answers: str
    num_prompts: int
    digest: str
    scoring: str | None = None
    labels: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class AwarenessPrompts(Excerpt):
    prompts_digest: str
    words_digest: str


@dataclass(frozen=True)
class DialogueSource(Excerpt):
    source: str
    digest: str
    num_replies: int


@dataclass(frozen=True)
class RedditTexts(Excerpt):
    """The pairs of a bias type, or the reference texts, which are under the key "reference"."""

    digest: str
    predicted_tokens: int
    num_skipped: dict[str, int]
    num_pairs: int = 0
    num_identical: int = 0
    num_repeated: int = 0
    num_duplicates: int | None = None
    source: str = ""


class Record:
    """A run's record. A section that the run does not have is not set.

    Attributes:
        content: The whole content of run.json. The other attributes contain what this package reads of it.
        left_out: Sentences that state why a measurement was left out, by its name.
        contrasts: The pairs of templates that the run's own vocabulary marks, by the mark.
        judge: The judges, by the name of the rubric.
    """

    content: Mapping[str, Any]
    layout: Layout
    settings: RecordedSettings
    model: Model
    data: Data
    left_out: dict[str, str]
    scoring: Scoring
    contrasts: dict[str, list[tuple[str, str]]]
    generation: GenerationSettings
    frequencies: FrequencySource
    style_classifier: StyleClassifier
    offensiveness_classifier: UsedClassifier
    decisions: DecisionPrompts
    judge: dict[str, Judge]
    dialogue: DialogueSource
    awareness: AwarenessPrompts
    reddit: dict[str, RedditTexts]
    regard: RegardClassifier
    versions: dict[str, str | None]

    def __init__(self, content: Mapping[str, Any], place: str = "run") -> None:
        vars(self)["content"] = content
        for name, kind in get_type_hints(Record).items():
            if name in content and name != "content":
                vars(self)[name] = from_json(kind, content[name], f"{place}.{name}")

    if not TYPE_CHECKING:  # a type checker knows the sections, and no other attributes

        def __getattr__(self, name: str) -> NoReturn:
            if name not in get_type_hints(Record):
                raise AttributeError(name)
            raise ValueError(f"run.json has no section '{name}', so it was changed; measure again in a new folder")

    @property
    def tag(self) -> str | None:
        return self.generation.tag if "generation" in self.content else None

    @property
    def cue(self) -> str:
        return self.generation.cue if "generation" in self.content else "prompt"

    @property
    def measure(self) -> str:
        return "pseudo-perplexity" if self.model.kind == "masked" else "perplexity"
