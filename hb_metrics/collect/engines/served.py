from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from math import exp
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from hb_metrics.collect.asking import ask_into_shards
from hb_metrics.collect.engines.engine import Ability, Engine, EnginePlan, Lack, LikelihoodRequests
from hb_metrics.collect.replies.decoding_settings import NO_EFFECT, REASONING_TOKENS, Decoding, Extent
from hb_metrics.collect.replies.requests import ReplyAnswer, ReplyRequests, answer_of, reply_columns
from hb_metrics.collect.scoring.served_options import ServedOptionPlan, chat_plans, echo_plan, works
from hb_metrics.collect.shards import read_shards
from hb_metrics.models.chats import ChatOptions
from hb_metrics.models.contexts import render_messages
from hb_metrics.models.layout import Layout
from hb_metrics.models.served.answers import (
    FIELDS,
    ServedAnswer,
    TextLikelihood,
    check_model,
    has_impossible_token,
    is_filtered,
    read_likelihood,
    read_served_answer,
    text_of,
)
from hb_metrics.models.served.client import CONVERSATION_TOO_LONG, Server, TemporaryFault
from hb_metrics.models.served.probe import Probe, extra_fields
from hb_metrics.models.thoughts import Written
from hb_metrics.run.answer_files import MOST_PER_TOKEN
from hb_metrics.run.replies import LeftOutError
from hb_metrics.run.run_record import served_name
from hb_metrics.run.schema import PERPLEXITY_SCHEMA, REPLY_SCHEMA

# The usual columns of replies, and columns with the server's data about each reply.
SERVED_REPLY_SCHEMA = pa.schema(
    [
        *REPLY_SCHEMA,
        ("finish_reason", pa.string()),
        ("ending", pa.string()),
        ("served_model", pa.string()),
        ("tokens_in", pa.int64()),
        ("tokens_out", pa.int64()),
    ]
)
SERVED_SCORE_SCHEMA = pa.schema([*PERPLEXITY_SCHEMA, ("served_model", pa.string())])
_FIRST_REPLIES = 32  # no more are requested if this many are all empty, because requests may cost money
_IF_EMPTY = (
    "If the model thinks, raise --max_reasoning_tokens. If it has no chat template, set --context plain. If the "
    "server's filter removes the replies (such as the finish reason content_filter), the model cannot be measured there"
)


class ServedEngine(Engine):
    kind = "causal"
    gives_options = True
    lacks: ClassVar[dict[Ability, Lack]] = {
        "weights": Lack(
            "runs on a server, but this measurement needs the model's weights",
            "load a copy of the model on this machine and measure it",
        ),
        "likelihoods": Lack(
            "is on a server that returns no log-probabilities of a prompt's own tokens (`echo` with `logprobs` in "
            "/v1/completions)",
            "serve it with a program that returns them, such as vLLM",
        ),
    }

    def __init__(self, server: Server, probe: Probe) -> None:
        self.name = server.model
        self.server, self.probe, self.where = server, probe, server.where
        name = served_name(self.name, probe.model)
        self.words = f"served by {self.where}{name}, {server.concurrency} requests at a time"
        self.gives = frozenset[Ability](("replies", "likelihoods") if probe.likelihoods else ("replies",))

    def identity(self) -> dict[str, object]:
        return {**super().identity(), "served": {"provider": self.server.provider, **asdict(self.probe)}}

    def layout(self, *, context: Any, tag: str, chat: ChatOptions) -> Layout:
        layout = super().layout(context=context, tag=tag, chat=chat)
        if layout.context not in ("chat", "plain"):
            raise ValueError(f"--context {layout.context} needs a tokenizer; on a server, set --context chat or plain")
        return layout

    def decoding(self, preset: str, extent: Extent, **changes: Any) -> tuple[Decoding, dict[str, object]]:
        """Returns the decoding settings that the server supports, and the preset's settings that it does not support.

        Raises:
            ValueError: The server ignores a setting that the run needs.
        """
        if not self.probe.writes:
            raise ValueError(
                f"{self.where} returned an empty reply to every question of the probe, so all replies would be empty. "
                f"{_IF_EMPTY}"
            )
        decoding, left_out = super().decoding(preset, extent, **changes)
        if decoding.num_beams > 1:
            raise ValueError(f"num_beams is {decoding.num_beams}, but servers have no beams; set --decoding sample")
        if not self.probe.temperature_kept and not (decoding.sample and decoding.temperature == 1):
            raise ValueError(
                f"{self.where} rejects or ignores temperatures other than 1; set --decoding sample and --temperature 1"
            )
        if decoding.sample and not self.probe.samples:
            raise ValueError(f"{self.where} rejects or ignores seeds; set --decoding greedy")
        if not decoding.sample and not self.probe.greedy:
            raise ValueError(f"{self.where} returns different answers at temperature 0; set --decoding sample")
        asked: dict[str, Any] = {"min_new_tokens": 0, "end_after_sentence": False}
        for name, value in decoding.sampling.items() if decoding.sample else ():
            if value == NO_EFFECT[name] or vars(self.probe).get(f"{name}_kept"):
                continue
            if name != "top_k" or changes.get(name) is not None:
                raise ValueError(
                    f"{self.where} ignores {name}; set --{name} {0 if name == 'top_k' else NO_EFFECT[name]}"
                )
            asked[name] = NO_EFFECT[name]  # the preset's limit excludes only unlikely tokens
        left_out |= {name: vars(decoding)[name] for name, value in asked.items() if vars(decoding)[name] != value}
        return replace(decoding, **asked), left_out

    def plan_replies(self, requests: ReplyRequests) -> EnginePlan:
        if self.probe.max_tokens_kept is False:
            raise ValueError(f"{self.where} ignores {self.probe.max_tokens_field}; use a server that supports it")
        self._check_roles(requests)
        decoding, thinks = requests.decoding, self.probe.reasoning != "none"
        reasoning = requests.max_reasoning_tokens
        if reasoning is None:
            reasoning = REASONING_TOKENS if thinks else 0
        # The server counts thoughts towards the maximum length of an answer.
        most = {self.probe.max_tokens_field: decoding.max_new_tokens + reasoning}
        fields: dict[str, object] = {**self.probe.neutral, **most, "temperature": 0}
        if decoding.sample:
            fields["temperature"] = decoding.temperature
            fields |= {name: value for name, value in decoding.sampling.items() if value != NO_EFFECT[name]}
        fields |= extra_fields(requests.layout.chat)
        if requests.layout.context == "chat":
            path, bodies = "chat/completions", [{"messages": messages, **fields} for messages in requests.messages]
        else:
            prompts = render_messages(requests.messages, None, "plain", is_encoder_decoder=False)
            path, bodies = "completions", [{"prompt": prompt, **fields} for prompt in prompts]
        if decoding.sample:
            bodies = [{**body, "seed": requests.request_seed(row)} for row, body in enumerate(bodies)]
        about = {
            **requests.description(),
            **asdict(decoding),
            "thinks": thinks,
            "max_reasoning_tokens": reasoning,
            "fields_sent": {**fields, **({"seed": "of each prompt"} if decoding.sample else {})},
        }
        return EnginePlan((requests, path, bodies, fields[self.probe.max_tokens_field]), about)

    def _check_roles(self, requests: ReplyRequests) -> None:
        roles = {message["role"] for messages in requests.messages for message in messages}
        if "system" in roles and self.probe.system_kept is False:
            raise ValueError(
                f"{self.where} ignores or rejects system messages, which contain persona lines, the system prompt and "
                "the cue; set --personas 0, remove --system_prompt, and set --cue to prompt, history or signature"
            )
        if ("assistant" in roles or requests.turns > 1) and self.probe.history_kept is False:
            raise ValueError(f"{self.where} ignores earlier messages; set --turns 1, and no --cue history")

    def reply(self, plan: EnginePlan, folder: Path) -> pa.Table:
        requests, path, bodies, max_tokens = plan.work
        reasons: list[str | None] = []  # for each answer, its finish reason if it is empty, and "" if it has text

        def read(content: Any, row: int) -> dict[str, object]:
            answer = read_served_answer(content, max_tokens=max_tokens)
            if answer.ending != "filtered" and answer.finish_reason != CONVERSATION_TOO_LONG:  # no model answered
                check_model(answer.model, self.probe.model)
            reasons.append("" if answer.text else answer.finish_reason)
            if len(reasons) == _FIRST_REPLIES and all(reasons) and requests.turn == 1:
                raise LeftOutError(
                    f"the first {_FIRST_REPLIES} replies of {self.where} are all empty (finish reasons: "
                    f"{', '.join(sorted(set(map(str, reasons))))}), so no more are requested. {_IF_EMPTY}"
                )
            return answer._asdict()

        def columns(rows: Sequence[int], answers: Sequence[Mapping[str, Any]]) -> dict[str, object]:
            served = [ServedAnswer(**answer) for answer in answers]
            return {
                **reply_columns(requests, rows, [reply_of(answer, extent=requests.extent) for answer in served]),
                "finish_reason": [answer.finish_reason for answer in served],
                "ending": [answer.ending for answer in served],
                "served_model": [answer.model for answer in served],
                "tokens_in": [answer.num_prompt_tokens for answer in served],
                "tokens_out": [answer.num_tokens for answer in served],
            }

        shards = ask_into_shards(
            self.server, path, requests.ids, bodies, folder, SERVED_REPLY_SCHEMA, read, columns, label="replies"
        )
        return read_shards(shards, SERVED_REPLY_SCHEMA)

    def plan_options(self, requests: ReplyRequests, options: Sequence[Sequence[str]]) -> ServedOptionPlan | str:
        self._check_roles(requests)
        if requests.layout.context == "plain":
            if not self.probe.likelihoods:
                return "the server returns no log-probabilities of a prompt's own tokens"
            prompts = render_messages(requests.messages, None, "plain", is_encoder_decoder=False)
            plans = [echo_plan(requests.ids, prompts, options)]
        elif self.probe.reasoning != "none":
            return "the model thinks before it answers"
        else:
            fields = {**self.probe.neutral, self.probe.max_tokens_field: 1, **extra_fields(requests.layout.chat)}
            plans = chat_plans(requests.ids, [{"messages": messages, **fields} for messages in requests.messages])
        without = "the server returns no log-probabilities that show the probability of each option"
        return next((plan for plan in plans if works(plan, self.server, options)), without)

    def score_options(self, plan: ServedOptionPlan, folder: Path) -> None:
        ids = plan.columns["id"]

        def read(content: Any, row: int) -> dict[str, object]:
            if not is_filtered(content):
                check_model(text_of(content.get("model")), self.probe.model)
            values = plan.read(content, row)
            if values is None:
                raise TemporaryFault("the answer contains no log-probabilities, although others did")
            return values

        def columns(rows: Sequence[int], answers: Sequence[Mapping[str, object]]) -> dict[str, object]:
            labels = {name: [values[row] for row in rows] for name, values in plan.columns.items() if name != "id"}
            return labels | {name: [answer[name] for answer in answers] for name in answers[0]}

        ask_into_shards(self.server, plan.path, ids, plan.bodies, folder, plan.schema, read, columns, label="decisions")

    def plan_likelihoods(self, requests: LikelihoodRequests) -> EnginePlan:
        about = {
            "path": "served, echo",
            "reason": "in the probe, the server returned a log-probability for every token of a prompt",
            "start_token": self.probe.start_token,
            "fields_sent": FIELDS,
        }
        return EnginePlan(requests, about)

    def score_into_shards(self, plan: EnginePlan, folder: Path) -> None:
        requests = plan.work
        bodies = [{"prompt": text, **FIELDS} for text in requests.texts]

        def read(content: Any, row: int) -> dict[str, object]:
            likelihood = read_likelihood(content, requests.texts[row])
            check_model(likelihood.model, self.probe.model)
            if has_impossible_token(content, requests.texts[row], -MOST_PER_TOKEN):  # a further answer would not help
                raise ValueError(
                    f"{self.where} gives a token of prompt '{requests.ids[row]}' no probability, so its perplexity is "
                    "infinite; remove likelihood from --measurements"
                )
            return likelihood._asdict()

        def columns(rows: Sequence[int], answers: Sequence[Mapping[str, Any]]) -> dict[str, object]:
            likelihoods = [TextLikelihood(**answer) for answer in answers]
            return {
                **requests.about.take(pa.array(rows, pa.int64())).to_pydict(),
                "text": [requests.texts[row] for row in rows],
                "perplexity": [exp(-text.log_likelihood / text.num_tokens) for text in likelihoods],
                "log_likelihood": [text.log_likelihood for text in likelihoods],
                "num_tokens": [text.num_tokens for text in likelihoods],
                "served_model": [text.model for text in likelihoods],
            }

        asked = ("completions", requests.ids, bodies)
        ask_into_shards(self.server, *asked, folder, SERVED_SCORE_SCHEMA, read, columns, label="likelihoods")


def reply_of(answer: ServedAnswer, *, extent: Extent) -> ReplyAnswer:
    """Converts a server's answer into the form that all engines use."""
    text = answer.text or ""
    is_open = answer.is_open or (not text and answer.ending == "cut")
    thought, number = answer.num_reasoning_tokens, answer.num_tokens
    if thought is None and (is_open or answer.reasoning is None):
        thought = number if is_open else 0
    known = not answer.invents_turn and number is not None and thought is not None
    return answer_of(
        Written(text, answer.reasoning, is_open, answer.invents_turn),
        extent,
        num_tokens=0 if not text else number - thought if known else None,  # type: ignore[operator]
        truncated=None if answer.ending == "unknown" else answer.ending == "cut",
        num_reasoning_tokens=thought,
    )
