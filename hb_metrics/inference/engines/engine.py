"""Engines answer a run's requests for replies and log-likelihoods. No other code depends on the kind of engine.

A measurement first calls `layout` and `decoding`. It then calls `plan_replies` or `plan_likelihoods` on every process;
these methods reject requests that cannot be answered. The plan's `description()` is for run.json. Finally, the
measurement calls `reply` or `score_into_shards` on all processes; both can be resumed.
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

# What measurements may need: replies to prompts, log-likelihoods of prompts, or the model itself (with its weights and
# tokens) for dialogue, pairs of texts and continuations.
Ability = Literal["replies", "likelihoods", "weights"]


@dataclass(frozen=True, kw_only=True)
class LikelihoodRequests:
    """Texts to score. For masked models, `spans` has the (start, end), in characters, of the words about people."""

    ids: list[str]
    texts: list[str]
    spans: list[tuple[int, int]] | None = None


class Lack(NamedTuple):
    """Why an engine lacks an ability (the end of a sentence that begins with the model's name), and the remedy."""

    why: str
    instead: str


class Plan(Protocol):
    def description(self) -> dict[str, Any]: ...


class Engine:
    """The base class of engines, which answer requests. Methods for abilities that are not in `gives` are never called.

    `kind` is "causal", "masked" or "encoder-decoder", or `None` if unknown. If `gives` contains "weights", `loaded` is
    the model.
    """

    name: str
    gives: frozenset[Ability]
    kind: str | None = None
    lacks: ClassVar[Mapping[Ability, Lack]] = {}
    loaded: "LoadedModel | None" = None

    @property
    def words(self) -> str:
        raise NotImplementedError

    def identity(self) -> dict[str, Any]:
        """Returns the section `model` of run.json: `name`, `kind`, `digest`, `dtype`, `num_parameters`."""
        raise NotImplementedError

    def layout(self, *, context: Any, tag: str, chat: "ChatOptions") -> "Layout":
        from hb_metrics.inference.models.layout import choose_layout

        return choose_layout(None, context=context, tag=tag, chat=chat)

    def decoding(self, preset: str, extent: Extent, **changes: Any) -> "tuple[Decoding, dict[str, Any]]":
        """Returns the decoding settings, and the settings in the model's generation_config that decoding ignores."""
        if preset == MODEL_PRESET:
            raise ValueError(
                f"decoding 'model' needs the model's generation_config, but '{self.name}' is not loaded here; set "
                "another --decoding"
            )
        return decoding_preset(preset, None, extent, **changes), {}

    def plan_replies(self, requests: "ReplyRequests", layout: "Layout") -> Plan:
        raise NotImplementedError

    def reply(self, plan: Any, folder: Path, *, batch_size: int | None) -> "pa.Table":
        """Answers each conversation that is not on disk yet with the model's next turn.

        The table has the columns of `requests.REPLY_SCHEMA` in the order of the requests, on all processes. If a prompt
        has several replies, `replies.reply_id` makes their ids.
        """
        raise NotImplementedError

    def plan_likelihoods(self, requests: LikelihoodRequests) -> Plan:
        raise NotImplementedError

    def score_into_shards(self, plan: Any, folder: Path) -> "pa.Table | None":
        """Computes or requests the log-likelihoods that are not on disk yet. On the main process, reads all of them.

        The columns are those of `scoring_shards.PERPLEXITY_SCHEMA`.
        """
        raise NotImplementedError


def asked_description(requests: "ReplyRequests", layout: "Layout") -> dict[str, Any]:
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
