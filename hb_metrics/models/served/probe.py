"""Tests which fields of a request a server supports.

The probe is necessary because servers ignore unknown fields without an error. A field is supported only if it changes
the answers as it should. Fields for options that the user has not set are sent with a neutral value, so that the server
does not use its own default.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

from accelerate.utils import broadcast_object_list

from hb_metrics.models.architecture import num_shared
from hb_metrics.models.chats import ChatOptions
from hb_metrics.models.processes import process_state
from hb_metrics.models.served.answers import (
    FIELDS,
    ServedAnswer,
    TextLikelihood,
    read_likelihood,
    read_next_token,
    read_served_answer,
)
from hb_metrics.models.served.client import Client, RefusedError, Server, TemporaryFault, connected
from hb_metrics.run.run_folder import RUN_FILE, read_json

QUESTIONS = (
    "List forty random English words, separated by commas.",
    "Invent a story of five sentences about two strangers who meet on a train.",
)
SYSTEM = "You are a gardener, you live by the sea, and you have three brothers and two cats."
_LENGTH = 96  # the maximum length of answers, in tokens
_LONG = 2048  # the maximum length, in tokens, of an answer whose end matters
_SHORT = 16  # the maximum length, in tokens, of answers whose text does not matter
SEEDS = (11, 12, 13, 14)
_NEXT_TO_NOTHING = 0.001  # a top_p that allows only the likeliest token
TEXTS = ("I'm a mother who is deaf and I like gardens.", "gardens I'm and a deaf is like who mother I.")
_UNFINISHED = ("The cat sat on the", "I went to the shop and")
_SAME = 0.05  # the largest difference that rounding can cause between two log-likelihoods of a text
_SAMPLED: Mapping[str, object] = {"temperature": 1.0}
_LOWEST: Mapping[str, object] = {"temperature": 0.01}  # some servers reject 0, or use their default for it
# The smallest accepted ratio of the words that answers share at a low temperature and at a temperature of 1.
_CLEARLY = 2.5
_TRIES = 3  # the maximum number of tries per request; it is small so that a wrong address is detected soon
_SELDOM = 0.005  # the largest accepted number of differences per word between answers that should be the same
_SINGLE = "max_tokens"
_NEW_SINGLE = "max_completion_tokens"
# Values with which a field has no effect. The first value that the server accepts is used. For top_k, servers disagree
# about the value that means all tokens.
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "top_p": (1.0,),
    "top_k": (-1, 0),
    "min_p": (0.0,),
    "repetition_penalty": (1.0,),
    "repeat_penalty": (1.0,),
    "presence_penalty": (0.0,),
    "frequency_penalty": (0.0,),
}
_WHAT, _TRIAL = "a probe of the server", "a trial of log-probabilities"
_OF_LOG_PROBABILITIES = ("logprobs", "top_logprobs", "echo", "temperature")
T = TypeVar("T")
Compared = tuple[list[list[str]], list[list[str]]]  # the words of several answers to a question, and of samples


@dataclass(frozen=True, kw_only=True)
class Probe:
    """The results of a probe. A result is `None` if the test was impossible.

    Attributes:
        base_url: The server's address, or `None` for an Inference Provider.
        greedy: Whether all answers to a question are the same at temperature 0.
        samples: Whether the server accepts a seed, and answers at temperature 1 differ between seeds.
        temperature_kept: Whether the server accepts temperatures other than 1, and uses them.
        neutral: The fields that every request contains, with neutral values.
        not_set: The fields that the server rejects. It uses its own defaults for them.
        reasoning: The position of thoughts in the answers: "apart", "in the text" or "none".
        log_likelihood: The log-likelihood of a text, by which a resumed run recognises the model.
    """

    base_url: str | None
    model: str | None
    max_tokens_field: str
    max_tokens_kept: bool | None
    greedy: bool
    samples: bool
    temperature_kept: bool
    top_p_kept: bool | None
    top_k_kept: bool | None
    neutral: dict[str, object]
    not_set: list[str]
    reasoning: str
    writes: bool
    system_kept: bool | None
    history_kept: bool | None
    likelihoods: bool
    start_token: str | None
    log_likelihood: float | None


async def probe(client: Client, *, chat: bool, extra: Mapping[str, object]) -> Probe:
    """Tests which fields a server supports.

    If `chat` is true, the requests are chats. Otherwise, they are texts to continue. Every request contains the fields
    in `extra`.

    Raises:
        ValueError: The server does not respond, or its answers come from several models.
    """
    return await _Prober(replace(client, tries=_TRIES), chat, extra).run()


async def try_log_probabilities(
    client: Client, path: str, body: Mapping[str, object], read: Callable[[Any], T]
) -> T | None:
    """Requests log-probabilities. Returns the result of `read`, or `None` if the server does not return them.

    Raises:
        ValueError: The server does not respond to requests without log-probabilities either.
    """
    client = replace(client, tries=_TRIES)
    try:
        return await client.post(path, body, read, what=_TRIAL)
    except RefusedError:
        return None
    except ValueError:  # some servers answer with status 500, as if the fault were temporary
        plain = {name: value for name, value in body.items() if name not in _OF_LOG_PROBABILITIES}
        await client.post(path, plain, lambda content: content, what=_TRIAL)  # raises an error if the server is down
        return None


def extra_fields(chat: ChatOptions) -> dict[str, object]:
    return {"chat_template_kwargs": dict(chat.template_kwargs)} if chat.template_kwargs else {}


def probe_server(server: Server, folder: Path, *, context: str, chat: Mapping[str, Any]) -> Probe:
    """Tests on the main process which fields a server supports. Returns the results on all processes.

    A resumed run keeps the results of its first test, even if the server's address has changed.

    Raises:
        ValueError: The server did not respond, or its results have changed since the run began.
    """

    async def probe_now() -> Probe:
        async with connected(server) as client:
            return await probe(client, chat=context != "plain", extra=extra_fields(ChatOptions(**chat)))

    results: list[Any] = [None, None]
    if process_state().is_main_process:
        try:
            results[0] = _recorded(server, folder, asyncio.run(probe_now()))
        except (ValueError, OSError) as error:
            results[1] = str(error)
    result, fault = broadcast_object_list(results)
    if fault is not None:  # raise the error on all processes, so that none of them waits
        raise ValueError(fault)
    return result


def _recorded(server: Server, folder: Path, now: Probe) -> Probe:
    """Returns the results that the folder's run has recorded or, for a new run, `now`."""
    path = folder / RUN_FILE
    model = read_json(path).get("model", {}) if path.is_file() else {}
    served = model.get("served")
    if served is None or (model["name"], served["provider"]) != (server.model, server.provider):
        return now  # a new run, or a run of another model; a later check rejects the latter
    if changed := changes(served, now):
        lines = "\n".join(f"  {name} was {then!r} and is {new!r}" for name, (then, new) in changed.items())
        raise ValueError(
            f"{server.where} has changed since the run in '{folder}' began:\n{lines}\nthe run would mix answers from "
            "two servers; serve the model as before, or set --output_dir to a new folder"
        )
    known: dict[str, Any] = {entry.name: served.get(entry.name) for entry in fields(Probe)}
    return Probe(**known)


# Results that may differ between two probes of the same server.
_MAY_DIFFER = ("base_url", "max_tokens_kept", "reasoning", "temperature_kept", "writes")


def changes(recorded: Mapping[str, object], now: Probe) -> dict[str, tuple[Any, Any]]:
    """Returns the results that affect answers and differ from those of an earlier probe, as pairs (earlier, new)."""
    different = {}
    for name, value in asdict(now).items():
        then = recorded.get(name)
        is_close = name == "log_likelihood" and None not in (then, value) and abs(then - value) <= _SAME
        if name not in _MAY_DIFFER and then != value and not is_close:
            different[name] = (then, value)
    return different


@dataclass
class _Prober:
    client: Client
    chat: bool
    extra: Mapping[str, object]
    bound: str = _SINGLE
    neutral: dict[str, object] = field(default_factory=dict)
    tokens: int = _SHORT
    seeds: list[dict[str, int]] = field(default_factory=lambda: [{"seed": seed} for seed in SEEDS])
    seen: list[tuple[ServedAnswer, int]] = field(default_factory=list)  # each with the maximum number of tokens

    async def run(self) -> Probe:
        first = await self._first()
        not_set = await self._set_neutral()
        question, other = QUESTIONS
        self.tokens = _LENGTH
        if not await self._takes({**_SAMPLED, **self.seeds[0]}):
            self.seeds = [{} for _ in SEEDS]
        drawn = await self._ask([{**_SAMPLED, **seed} for seed in self.seeds], question)
        samples = all(self.seeds) and len(set(map(_all, drawn))) > 1
        others = await self._ask([{**_SAMPLED, **seed} for seed in self.seeds[:2]], other)
        greedy = _is_fixed(await self._words({"temperature": 0}, [(question, drawn), (other, others)]))
        likeliest = {**_SAMPLED, "top_p": _NEXT_TO_NOTHING}
        top_p = _is_fixed(await self._words(likeliest, [(question, drawn)])) if samples else None
        top_k = _is_fixed(await self._words({**_SAMPLED, "top_k": 1}, [(question, drawn)])) if samples else None
        if not greedy:
            others += await self._ask([{**_SAMPLED, **seed} for seed in self.seeds[2:]], other)
        temperature_kept = greedy or _share_more(await self._words(_LOWEST, [(question, drawn), (other, others)]))
        self.tokens = _SHORT
        system_kept, history_kept = await self._kept_messages(first) if self.chat else (None, None)
        if self.chat and all(answer.ending == "cut" for answer, _ in self.seen):
            # A thought that the chat template opens has a mark only at its end. Hidden thoughts are never short.
            self.tokens = _LONG
            await self._takes({})
        is_provider = self.client.server.provider is not None  # providers have no /completions
        likelihood = None if is_provider else await self._likelihood_of_text()
        seen = [answer for answer, _ in self.seen]
        models = {answer.model for answer in seen} | ({likelihood.model} if likelihood else set())
        if len(models) > 1:
            shown = ", ".join(sorted("no name" if model is None else f"'{model}'" for model in models))
            raise ValueError(
                f"{self.client.server.url} returned answers from several models ({shown}); set --model to one"
            )
        return Probe(
            base_url=None if self.client.server.provider else self.client.server.url,
            model=first.model,
            max_tokens_field=self.bound,
            max_tokens_kept=_kept(self.seen),
            greedy=greedy,
            samples=samples,
            temperature_kept=temperature_kept,
            top_p_kept=top_p,
            top_k_kept=top_k,
            neutral=self.neutral,
            not_set=not_set,
            reasoning=_reasoning(seen),
            writes=any(answer.text or answer.reasoning for answer in seen),
            system_kept=system_kept,
            history_kept=history_kept,
            likelihoods=likelihood is not None,
            start_token=None if likelihood is None else likelihood.start_token,
            log_likelihood=None if likelihood is None else likelihood.log_likelihood,
        )

    async def _first(self) -> ServedAnswer:
        try:
            return await self._ask_one({})
        except RefusedError as error:
            if not self.chat or _NEW_SINGLE not in error.sentences:
                raise
            self.bound = _NEW_SINGLE
            return await self._ask_one({})

    async def _set_neutral(self) -> list[str]:
        everything = {name: values[0] for name, values in _NEUTRAL.items()}
        if await self._takes({**_SAMPLED, **everything}):  # some servers reject top_p beside a temperature
            self.neutral = everything
            return []
        for name, values in _NEUTRAL.items():
            for value in values:
                if await self._takes({**_SAMPLED, name: value}):
                    self.neutral[name] = value
                    break
        return [name for name in _NEUTRAL if name not in self.neutral]

    async def _kept_messages(self, first: ServedAnswer) -> tuple[bool | None, bool | None]:
        """Returns `system_kept` and `history_kept`. The server keeps a message if a longer one lengthens the prompt."""
        user, assistant = ("user", "Hi."), ("assistant", "Hello.")
        system = await self._prompt_length(("system", SYSTEM))
        short = await self._prompt_length(user, assistant)
        longer = await self._prompt_length(("user", SYSTEM), assistant)
        longest = await self._prompt_length(user, ("assistant", SYSTEM))
        if len({answer.num_prompt_tokens for answer, _ in self.seen}) == 1:  # not the lengths of the prompts
            return None, None
        return _longer(first.num_prompt_tokens, system), _longer(short, longer, longest)

    async def _prompt_length(self, *earlier: tuple[str, str]) -> int | None:
        """Returns the server's count of tokens in a prompt with earlier messages, or 0 if it rejects the messages."""
        try:
            return (await self._ask_one({}, earlier=earlier)).num_prompt_tokens
        except ValueError:  # some servers answer with status 500, as if the fault were temporary
            await self._ask_one({})  # raises an error if the server is down
            return 0

    async def _takes(self, fields: Mapping[str, object]) -> bool:
        try:
            await self._ask_one(fields)
        except RefusedError:
            return False
        return True

    async def _ask(self, asked: Sequence[Mapping[str, object]], question: str = QUESTIONS[0]) -> list[ServedAnswer]:
        return list(await asyncio.gather(*(self._ask_one(fields, question) for fields in asked)))

    async def _ask_one(
        self, fields: Mapping[str, object], question: str = QUESTIONS[0], earlier: Sequence[tuple[str, str]] = ()
    ) -> ServedAnswer:
        def read(content: Any) -> ServedAnswer:
            return read_served_answer(content, max_tokens=2**31)  # also reads answers that exceed the requested length

        asked = {**self.neutral, **fields, **self.extra, self.bound: self.tokens}
        if self.chat:
            messages = [{"role": role, "content": content} for role, content in (*earlier, ("user", question))]
            answer = await self.client.post("chat/completions", {"messages": messages, **asked}, read, what=_WHAT)
        else:
            answer = await self.client.post("completions", {"prompt": question, **asked}, read, what=_WHAT)
        self.seen.append((answer, self.tokens))
        return answer

    async def _words(
        self, fields: Mapping[str, object], questions: Sequence[tuple[str, Sequence[ServedAnswer]]]
    ) -> list[Compared]:
        """Returns the words of the answers to requests with these fields, and of samples, for each question.

        `questions` pairs each question with samples of its answers. The list is empty if the server rejects the fields.
        """
        compared = []
        for question, drawn in questions:
            try:
                answers = await self._ask([{**fields, **seed} for seed in self.seeds], question)
            except RefusedError:
                return []
            compared.append(([_all(answer).split() for answer in answers], [_all(answer).split() for answer in drawn]))
        return compared

    async def _likelihood_of_text(self) -> TextLikelihood | None:
        try:
            first, other = [read_likelihood(await self._scored(text), text) for text in TEXTS]
            if first.log_likelihood != other.log_likelihood and await self._is_aligned():
                return first
        except (TemporaryFault, ValueError):  # the server does not support likelihoods
            pass
        return None

    async def _is_aligned(self) -> bool:
        """Returns whether a token has the same log-probability in the prompt as when it is generated.

        If not, the prompt's log-probabilities are wrong, for example shifted by one token.
        """
        for text in _UNFINISHED:
            try:
                content = await self._scored(text)
                token, value = read_next_token(content, text)
                before = read_likelihood(content, text)
                after = read_likelihood(await self._scored(text + token), text + token)
            except TemporaryFault:
                continue
            if after.num_tokens == before.num_tokens + 1:
                difference = after.log_likelihood - before.log_likelihood
                return abs(difference - value) <= max(_SAME, 0.05 * abs(value))
        return False

    async def _scored(self, text: str) -> Any:
        return await self.client.post("completions", {"prompt": text, **FIELDS}, lambda content: content, what=_WHAT)


def _all(answer: ServedAnswer) -> str:
    return f"{answer.reasoning or ''}\n{answer.text or ''}"


def _is_fixed(compared: Sequence[Compared]) -> bool:
    """Returns whether the server gave the same answer for all seeds.

    The requests had fields, such as a temperature of 0, that should allow only the likeliest token. Rounding still
    changes such answers occasionally, where two words are equally likely. Samples differ every few words, even at a
    temperature of 0.3. Words with which all samples begin are not counted.
    """
    num_alike = num_parted = 0
    for (first, *rest), sampled in compared:
        shared = num_shared(sampled)
        num_alike += sum(max(0, num_shared([first, words]) - shared) for words in rest)
        num_parted += sum(first != words for words in rest)
    return bool(compared) and num_parted <= _SELDOM * num_alike


def _share_more(compared: Sequence[Compared]) -> bool:
    """Returns whether the answers to a question begin with clearly more of the same words than its samples.

    This is also true on servers whose rounding changes many answers (see `_is_fixed`). Words with which all answers to
    a question begin are not counted.
    """
    num_words = num_sampled = 0
    for words, sampled in compared:
        shared = num_shared([*words, *sampled])
        num_words += sum(num_shared(pair) - shared + 1 for pair in combinations(words, 2))
        num_sampled += sum(num_shared(pair) - shared + 1 for pair in combinations(sampled, 2))
    return bool(compared) and num_words >= _CLEARLY * num_sampled


def _longer(short: int | None, *longs: int | None) -> bool | None:
    return None if None in (short, *longs) else short < min(longs)  # type: ignore[operator, type-var]


def _kept(answers: Sequence[tuple[ServedAnswer, int]]) -> bool | None:
    """Returns whether all answers respect their maximum length, or `None` if no answer reached it."""
    if any((answer.num_tokens or 0) > tokens or len(_all(answer).split()) > tokens for answer, tokens in answers):
        return False
    return True if any(answer.ending == "cut" for answer, _ in answers) else None


def _reasoning(answers: Sequence[ServedAnswer]) -> str:
    if any(answer.inline for answer in answers):
        return "in the text"
    thinks = any(answer.reasoning is not None or answer.num_reasoning_tokens for answer in answers)
    return "apart" if thinks else "none"
