"""What answers a run's requests: prompts → replies, texts → log-likelihoods. All else does not know which engine did.

An engine is a subclass of `Engine`. What it can give is in `gives`; the methods of what it does not give are never
called. A measurement asks in this order: `layout` and `decoding` for how to ask, `plan_replies` or `plan_likelihoods`
(every process; what cannot be answered is refused here), `description()` of the plan for run.json, then `reply` or
`score_into_shards` (all processes, resumable). An engine answers messages: the requests of a later turn, planned when
the earlier one was answered, have the conversations so far.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

from hb_metrics.inference.replies.presets import MODEL_PRESET, Extent, decoding_preset

if TYPE_CHECKING:
    import pyarrow as pa

    from hb_metrics.inference.models.chats import ChatOptions
    from hb_metrics.inference.models.layout import Layout
    from hb_metrics.inference.models.loading import LoadedModel
    from hb_metrics.inference.replies.decoding_settings import Decoding
    from hb_metrics.inference.replies.requests import ReplyRequests

# What measurements may need: replies to prompts; log-likelihoods of prompts; the model itself, with its weights and
# tokens, for dialogue, pairs of texts and continuations.
Ability = Literal["replies", "likelihoods", "weights"]


@dataclass(frozen=True, kw_only=True)
class LikelihoodRequests:
    """The texts whose log-likelihoods are asked for.

    Attributes:
        ids: [texts] what each is keyed by; each once.
        texts: [texts] the texts.
        spans: [texts] (start, end) of the words in each that are about people, in characters; only for masked models.
    """

    ids: list[str]
    texts: list[str]
    spans: list[tuple[int, int]] | None = None


class Lack(NamedTuple):
    """Why an engine does not give something.

    Attributes:
        why: The second half of a sentence that begins with the model's name.
        instead: What to do, as the second half of a sentence.
    """

    why: str
    instead: str


class Plan(Protocol):
    """Requests as an engine will answer them."""

    def description(self) -> dict[str, Any]:
        """Everything in it that results depend on, for run.json."""


class Engine:
    """Answers requests; each engine is a subclass.

    Attributes:
        name: What the model is called on pages.
        gives: What it can give.
        kind: How the model gives likelihoods: "causal", "masked", "encoder-decoder"; `None`: not known.
        lacks: Why it does not give what it cannot.
        loaded: The model, if it gives `weights`.
    """

    name: str
    gives: frozenset[Ability]
    kind: str | None = None
    lacks: ClassVar[Mapping[Ability, Lack]] = {}
    loaded: "LoadedModel | None" = None

    @property
    def words(self) -> str:
        """What it is, in a few words for the line that a run prints first."""
        raise NotImplementedError

    def identity(self) -> dict[str, Any]:
        """The section `model` of run.json: `name`, `kind`, `digest`, `dtype`, `num_parameters`; `None`: not known."""
        raise NotImplementedError

    def layout(self, *, context: Any, tag: str, chat: "ChatOptions") -> "Layout":
        """How prompts are laid out. Arguments and errors as `choose_layout`."""
        from hb_metrics.inference.models.layout import choose_layout

        return choose_layout(None, context=context, tag=tag, chat=chat)

    def decoding(self, preset: str, extent: Extent, **changes: Any) -> "tuple[Decoding, dict[str, Any]]":
        """How replies are decoded, and the settings of the model's own generation_config that are passed over.

        Arguments and errors as `decoding_preset`.
        """
        if preset == MODEL_PRESET:
            raise ValueError(
                f"decoding 'model' takes the settings of the model's own generation_config, and '{self.name}' is not "
                "loaded here; give another --decoding"
            )
        return decoding_preset(preset, None, extent, **changes), {}

    def plan_replies(self, requests: "ReplyRequests", layout: "Layout") -> Plan:
        """Plans the replies.

        Raises:
            ValueError: A request cannot be answered as it is asked.
        """
        raise NotImplementedError

    def reply(self, plan: Any, folder: Path, *, batch_size: int | None) -> "pa.Table":
        """Answers each conversation with the model's next turn, as far as it is not on disk yet.

        Args:
            plan: What `plan_replies` returned.
            folder: Where the shards of this turn are.
            batch_size: How many prompts are replied to at once; `None`: the engine decides.

        Returns:
            A table with the columns of `requests.REPLY_SCHEMA` in the order of the requests, on all processes. Where a
            prompt has several replies, their ids are those of `replies.reply_id`.
        """
        raise NotImplementedError

    def plan_likelihoods(self, requests: LikelihoodRequests) -> Plan:
        """Plans the scoring.

        Raises:
            ValueError: A text cannot be scored.
        """
        raise NotImplementedError

    def score_into_shards(self, plan: Any, folder: Path) -> "pa.Table | None":
        """Gets the log-likelihoods that are not on disk yet, and reads all of them.

        Returns:
            A table with the columns of `scoring_shards.PERPLEXITY_SCHEMA` in the order of the requests, on the main
            process; `None` on all others.

        Raises:
            ValueError: One is NaN or infinite.
        """
        raise NotImplementedError


def asked_description(requests: "ReplyRequests", layout: "Layout") -> dict[str, Any]:
    """What run.json records of replies that another engine gives, of which only what was asked is known."""
    chat = {
        "chat_template_kwargs": dict(requests.chat.template_kwargs) or None,
        "system_prompt": requests.chat.system_prompt,
    }
    return {
        "context": layout.context,
        "context_reason": layout.context_reason,
        **(chat if layout.context == "chat" else {}),
        **requests.description(),
        **asdict(requests.decoding),
    }
