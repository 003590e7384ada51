"""Defines the interface of engines. An engine replies to prompts, or computes their log-likelihoods.

A measurement calls the methods of an engine in three steps, on every process:

1. `layout` and `decoding` choose the settings.
2. `plan_replies` or `plan_likelihoods` makes a plan. It raises an error if the engine cannot answer a request. The
   plan's `description()` is written to run.json.
3. `reply` or `score_into_shards` does the work. A killed run can resume this step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

from hb_metrics.collect.replies.decoding_settings import MODEL_PRESET, Extent, decoding_preset

if TYPE_CHECKING:
    import pyarrow as pa

    from hb_metrics.collect.replies.decoding_settings import Decoding
    from hb_metrics.collect.replies.requests import ReplyRequests
    from hb_metrics.models.chats import ChatOptions
    from hb_metrics.models.layout import Layout
    from hb_metrics.models.loading import LoadedModel

# The abilities that measurements need. "weights" means access to the loaded model itself.
Ability = Literal["replies", "likelihoods", "weights"]


@dataclass(frozen=True, kw_only=True)
class LikelihoodRequests:
    """Texts to score.

    Attributes:
        about: The terms, nouns and templates of the texts (`about_prompts`).
        spans: For masked models, the character positions of the words about people.
    """

    ids: list[str]
    about: "pa.Table"
    texts: list[str]
    spans: list[tuple[int, int]] | None = None


class Lack(NamedTuple):
    """Explains why an engine lacks an ability.

    Attributes:
        why: The end of a sentence that begins with the model's name.
        instead: An instruction to the user that remedies the lack.
    """

    why: str
    instead: str


class Plan(Protocol):
    def description(self) -> dict[str, Any]: ...


class EnginePlan(NamedTuple):
    """A plan whose `work` only its engine reads, with the plan's description."""

    work: Any
    about: dict[str, Any]

    def description(self) -> dict[str, Any]:
        return self.about


class Engine:
    """The base class of engines.

    Attributes:
        words: What is printed about the engine when a run begins.
        gives: The abilities of the engine. Methods for other abilities are never called.
        kind: "causal", "masked" or "encoder-decoder", or `None` if it is unknown.
        lacks: Explanations for the abilities that engines of this class may lack.
        loaded: The model, if `gives` contains "weights".
        gives_options: Whether the engine may give the probabilities of options as answers.
    """

    name: str
    words: str
    gives: frozenset[Ability]
    kind: str | None = None
    lacks: ClassVar[Mapping[Ability, Lack]] = {}
    loaded: "LoadedModel | None" = None
    gives_options: ClassVar[bool] = False

    def identity(self) -> dict[str, object]:
        """Returns the `model` section of run.json, in which `None` means that a value is unknown."""
        return {"name": self.name, "kind": self.kind, "digest": None, "dtype": None, "num_parameters": None}

    def layout(self, *, context: Any, tag: str, chat: "ChatOptions") -> "Layout":
        from hb_metrics.models.layout import choose_layout

        return choose_layout(self.loaded, context=context, tag=tag, chat=chat)

    def decoding(self, preset: str, extent: Extent, **changes: Any) -> "tuple[Decoding, dict[str, object]]":
        """Returns the decoding settings, and the preset's settings that the engine does not support."""
        if preset == MODEL_PRESET:
            raise ValueError(f"--decoding model needs a loaded model, unlike '{self.name}'; set --decoding sample")
        return decoding_preset(preset, None, extent, **changes), {}

    def plan_replies(self, requests: "ReplyRequests") -> Plan:
        raise NotImplementedError

    def reply(self, plan: Any, folder: Path) -> "pa.Table":
        """Computes the replies that are not on disk yet. Every process receives all replies.

        The table has the columns of `schema.REPLY_SCHEMA`, and its rows are in the order of the requests. If a prompt
        has several replies, their ids come from `replies.reply_id`.
        """
        raise NotImplementedError

    def plan_options(self, requests: "ReplyRequests", options: Sequence[Sequence[str]]) -> Any:
        """Returns a plan for the probabilities of options as answers, or a reason why the engine does not give them."""
        raise NotImplementedError

    def score_options(self, plan: Any, folder: Path) -> None:
        raise NotImplementedError

    def plan_likelihoods(self, requests: LikelihoodRequests) -> Plan:
        raise NotImplementedError

    def score_into_shards(self, plan: Any, folder: Path) -> None:
        """Computes the log-likelihoods that are not on disk yet, as shards of `schema.PERPLEXITY_SCHEMA`."""
        raise NotImplementedError
