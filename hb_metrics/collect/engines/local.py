from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from hb_metrics.collect.engines.engine import Ability, Engine, EnginePlan, Lack, LikelihoodRequests
from hb_metrics.collect.replies.decoding_settings import (
    MODEL_PRESET,
    Decoding,
    Extent,
    decoding_preset,
    ignored_settings,
)
from hb_metrics.collect.replies.decoding_shards import decode_into_shards
from hb_metrics.collect.replies.prompt_replies import ReplyPlan, plan_replies
from hb_metrics.collect.replies.requests import ReplyRequests
from hb_metrics.collect.scoring.options import OptionPlan, plan_options
from hb_metrics.collect.scoring.perplexity import plan_perplexity
from hb_metrics.collect.scoring.pseudo_likelihood import plan_pseudo_log_likelihood
from hb_metrics.collect.scoring.scoring_shards import score_into_shards
from hb_metrics.models.float32 import quantization_of
from hb_metrics.models.loading import LoadedModel, load_model


class LocalEngine(Engine):
    loaded: LoadedModel
    gives_options = True
    lacks: ClassVar[dict[Ability, Lack]] = {
        "replies": Lack("is a masked language model, which cannot reply", "pass a causal or encoder-decoder model")
    }

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.name = loaded.name
        self.kind = loaded.kind
        self.words = f"{loaded.kind}, {loaded.dtype}"
        self.gives = frozenset[Ability](
            ("likelihoods", "weights") if loaded.kind == "masked" else ("likelihoods", "weights", "replies")
        )

    def identity(self) -> dict[str, object]:
        quantization, adapter = quantization_of(self.loaded.config), self.loaded.adapter
        if quantization is not None and not getattr(self.loaded.model, "is_quantized", False):
            quantization += ", computed with full weights"  # the device does not support the quantization
        return {
            **super().identity(),
            "digest": self.loaded.digest,
            "dtype": self.loaded.dtype,
            "num_parameters": self.loaded.model.num_parameters(),
            **({} if quantization is None else {"quantization": quantization}),
            **({} if adapter is None else {"adapter": asdict(adapter)}),
        }

    def decoding(self, preset: str, extent: Extent, **changes: Any) -> tuple[Decoding, dict[str, object]]:
        model = self.loaded.model
        try:
            ignored = ignored_settings(model) if preset == MODEL_PRESET else {}
            return decoding_preset(preset, model, extent, **changes), ignored
        except TypeError as error:  # transformers checks few types
            raise ValueError(
                f"the generation_config.json of '{self.name}' has a value of a wrong type ({error}); correct it, or "
                "set another --decoding"
            ) from error

    def plan_replies(self, requests: ReplyRequests) -> ReplyPlan:
        return plan_replies(requests, self.loaded)

    def reply(self, plan: ReplyPlan, folder: Path) -> pa.Table:
        return decode_into_shards(plan, self.loaded, folder)

    def plan_options(self, requests: ReplyRequests, options: Sequence[Sequence[str]]) -> OptionPlan:
        return plan_options(requests.ids, requests.messages, options, self.loaded, requests.layout)

    def score_options(self, plan: OptionPlan, folder: Path) -> None:
        score_into_shards(
            plan.scores,
            plan.columns,
            folder,
            self.loaded.model,
            scores=["log_likelihood"],
            inputs=list(zip(plan.columns["text"], plan.columns["form"], strict=True)),
            label="decisions",
            unit="option",
        )

    def plan_likelihoods(self, requests: LikelihoodRequests) -> EnginePlan:
        model, tokenizer = self.loaded.model, self.loaded.tokenizer
        if self.kind == "masked":
            assert requests.spans is not None
            plan = plan_pseudo_log_likelihood(requests.texts, requests.spans, model, tokenizer)
        else:
            plan = plan_perplexity(requests.texts, model, tokenizer)
        about = {
            "path": plan.scoring,
            "reason": plan.scoring_reason,
            "start_token": plan.start_token,
            "positions": plan.positions,
            "predicted_tokens": int(plan.num_tokens.sum()),
        }
        return EnginePlan((requests, plan), about)

    def score_into_shards(self, plan: EnginePlan, folder: Path) -> None:
        requests, scoring = plan.work
        columns = {"id": requests.ids, **requests.about.to_pydict(), "text": requests.texts}
        score_into_shards(scoring, columns, folder, self.loaded.model)


def load_engine(name: str, **settings: Any) -> LocalEngine:
    """Loads a model as an engine. `settings` are those of `load_model`."""
    return LocalEngine(load_model(name, **settings))
