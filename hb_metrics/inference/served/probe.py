"""What a server does of what it is asked: tried before a run, since servers answer politely and leave out the rest.

Each finding is of answers, never of what a server says that it can do. A field that is refused (400, 422) is one that
it does not take; one that is taken and changes nothing is found by that.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hb_metrics.inference.served.answers import ServedAnswer, read_chat, read_completion
from hb_metrics.inference.served.client import Client, RefusedError
from hb_metrics.inference.served.likelihoods import FIELDS, Form, TextLikelihood, read_likelihood

# Four times the same random words are no chance.
QUESTION = "List twenty random English words, separated by commas."
SYSTEM = "You are a gardener, you live by the sea, and you have three brothers and two cats."
_LENGTHS = (16, 128)  # tokens asked for: more only of a model that thinks, since thoughts begin alike
SEEDS = (11, 12, 13, 14)
_NEXT_TO_NOTHING = 0.001  # of top_p: the likeliest token alone
TEXTS = ("I'm a mother who is deaf and I like gardens.", "gardens I'm and a deaf is like who mother I.")
_SAME = 0.05  # how far the log-likelihood of a text may lie apart at two addresses, by rounding
_SAMPLED: Mapping[str, Any] = {"temperature": 1.0}
_TRIES = 3  # of each request of a probe: a wrong address is known soon
_SINGLE = "max_tokens"
_NEW_SINGLE = "max_completion_tokens"

NO_ANSWER = "a probe of the server"
SEVERAL_MODELS_ERROR = "{where} answers as several models ({models}); give the address of one, or another --model"
UNLIKE_ERROR = (
    "{first} and {other} do not serve the same model in the same way: {what} is {here} at the first and {there} at the "
    "other; give addresses that do"
)


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What was found; `None`: it could not be tried.

    Attributes:
        model: The model, as the server says it.
        fingerprint: What else identifies it, as the server says it.
        server: The program that serves it, as far as it says so.
        max_tokens_field: The field that bounds an answer.
        max_tokens_kept: Whether it does.
        token_counts: Whether tokens are counted.
        greedy: Whether answers at temperature 0 are the same.
        samples: Whether answers at temperature 1 differ between seeds.
        seed_repeats: Whether a seed gives its answer again, while others are asked.
        top_p_kept: Whether `top_p` changes what is drawn.
        top_k_kept: Whether `top_k` does.
        reasoning: "apart", "in the text" or "none", as far as answers showed.
        system_kept: Whether a system message makes the prompt longer.
        likelihoods: The form in which log-probabilities of a prompt's tokens are given; `None`: they are not.
        start_token: The token before a text whose likelihood is given.
    """

    model: str | None
    fingerprint: str | None
    server: str | None
    max_tokens_field: str
    max_tokens_kept: bool | None
    token_counts: bool
    greedy: bool
    samples: bool
    seed_repeats: bool | None
    top_p_kept: bool | None
    top_k_kept: bool | None
    reasoning: str
    system_kept: bool | None
    likelihoods: Form | None
    start_token: str | None

    def description(self) -> dict[str, Any]:
        """What run.json records."""
        return asdict(self)


async def probe(client: Client, *, chat: bool, extra: Mapping[str, Any]) -> Probe:
    """Probes all addresses of a server.

    Args:
        client: The client.
        chat: Whether replies are asked for as chats; else as continuations of a text.
        extra: Fields that every request has, such as `chat_template_kwargs`.

    Raises:
        ValueError: There is no answer to be had, or the addresses are not of the same model.
    """
    probes = [await _Prober(client.only(address, _TRIES), chat, extra).run() for address in client.addresses]
    first, text = probes[0]
    for address, (other, its_text) in zip(client.addresses[1:], probes[1:], strict=True):
        names = (client.addresses[0].name, address.name)
        for name, value in first.description().items():
            if name not in _MAY_DIFFER and getattr(other, name) != value:
                raise ValueError(_unlike(names, name, value, getattr(other, name)))
        if text is not None and its_text is not None and abs(text - its_text) > _SAME:
            raise ValueError(_unlike(names, "the log-likelihood of a text", text, its_text))
    return first


# What an answer may show at one address and not at another, by chance.
_MAY_DIFFER = ("seed_repeats", "fingerprint", "max_tokens_kept", "reasoning")
# What a run may find otherwise when it is resumed: it says nothing against the answers so far.
_MAY_CHANGE = (*_MAY_DIFFER, "token_counts")


def changes(recorded: Mapping[str, Any], found: Probe) -> dict[str, tuple[Any, Any]]:
    """What is otherwise than an earlier probe of the run found it, as (then, now), where answers would not compare."""
    now = found.description()
    return {
        name: (recorded.get(name), value)
        for name, value in now.items()
        if name not in _MAY_CHANGE and recorded.get(name) != value
    }


@dataclass
class _Prober:
    client: Client
    chat: bool
    extra: Mapping[str, Any]
    field: str = _SINGLE

    async def run(self) -> tuple[Probe, float | None]:
        """What was found, and the log-likelihood of a text."""
        first = await self._first()
        texts, tokens = [_written(first)], _LENGTHS[0]
        answers: list[ServedAnswer] = []
        for tokens in _LENGTHS:
            answers = await self._ask([{**_SAMPLED, "seed": seed} for seed in SEEDS], tokens)
            texts = [_written(answer) for answer in answers]
            if len(set(texts)) > 1 or not any(answer.reasoning or answer.text is None for answer in answers):
                break
        samples = len(set(texts)) > 1
        seen = [first, *answers]
        repeats = None
        if samples:
            again = await self._ask([{**_SAMPLED, "seed": seed} for seed in SEEDS], tokens)
            repeats = [_written(answer) for answer in again] == texts
            seen += again
        greedy = await self._agree({"temperature": 0}, tokens)
        top_p = await self._agree({**_SAMPLED, "top_p": _NEXT_TO_NOTHING}, tokens) if samples else None
        top_k = await self._agree({**_SAMPLED, "top_k": 1}, tokens) if samples else None
        with_system = await self._ask_one({}, _LENGTHS[0], SYSTEM) if self.chat else None
        lengths = [None if each is None else each.num_prompt_tokens for each in (first, with_system)]
        form, likelihoods = await self._likelihoods()
        models = {answer.model for answer in seen} | {likelihood.model for likelihood in likelihoods}
        name = self.client.addresses[0].name
        if len(models) > 1:
            shown = ", ".join(sorted("no name" if model is None else f"'{model}'" for model in models))
            raise ValueError(SEVERAL_MODELS_ERROR.format(where=name, models=shown))
        found = Probe(
            model=first.model,
            fingerprint=first.fingerprint,
            server=await self._server(),
            max_tokens_field=self.field,
            max_tokens_kept=_kept([(first, _LENGTHS[0]), *((answer, tokens) for answer in seen[1:])]),
            token_counts=all(answer.num_tokens is not None for answer in seen),
            greedy=greedy,
            samples=samples,
            seed_repeats=repeats,
            top_p_kept=top_p,
            top_k_kept=top_k,
            reasoning=_reasoning(seen),
            system_kept=None if None in lengths else lengths[1] > lengths[0],  # type: ignore[operator]
            likelihoods=form,
            start_token=likelihoods[0].start_token if likelihoods else None,
        )
        return found, likelihoods[0].log_likelihood if likelihoods else None

    async def _first(self) -> ServedAnswer:
        """The first answer; learns which field bounds answers."""
        try:
            return await self._ask_one({}, _LENGTHS[0])
        except RefusedError as error:
            if not self.chat or _NEW_SINGLE not in error.said:
                raise
            self.field = _NEW_SINGLE
            return await self._ask_one({}, _LENGTHS[0])

    async def _ask(self, asked: Sequence[Mapping[str, Any]], tokens: int) -> list[ServedAnswer]:
        """Answers to the question with some fields each, asked together."""
        return list(await asyncio.gather(*(self._ask_one(fields, tokens) for fields in asked)))

    async def _ask_one(self, fields: Mapping[str, Any], tokens: int, system: str | None = None) -> ServedAnswer:
        def read(content: Any) -> ServedAnswer:
            # Any count is read, so that one above what was asked for shows that the bound was not kept.
            return (read_chat if self.chat else read_completion)(content, max_tokens=2**31)

        asked = {**fields, **self.extra, self.field: tokens}
        if not self.chat:
            return await self.client.post("completions", {"prompt": QUESTION, **asked}, read, what=NO_ANSWER)
        messages = [*([{"role": "system", "content": system}] if system else []), {"role": "user", "content": QUESTION}]
        return await self.client.chat(messages, chat_fields(asked), read, what=NO_ANSWER)

    async def _agree(self, fields: Mapping[str, Any], tokens: int) -> bool:
        """Whether fields that leave nothing to draw are taken and give two of three the same, whatever the seed.

        Not all three: rounding may decide between two words that are as likely.
        """
        try:
            answers = await self._ask([{**fields, "seed": seed} for seed in SEEDS[:3]], tokens)
        except RefusedError:
            return False
        return len({_written(answer) for answer in answers}) < len(answers)

    async def _likelihoods(self) -> tuple[Form | None, list[TextLikelihood]]:
        """The form in which likelihoods are given, and those of a text and of its words in disorder."""
        if self.client.server.provider is not None:
            return None, []
        for form in FIELDS:
            found = []
            for text in TEXTS:
                likelihood = await self._likelihood(text, form)
                if likelihood is None:
                    break
                found.append(likelihood)
            if len(found) == len(TEXTS) and found[0].log_likelihood != found[1].log_likelihood:
                return form, found
        return None, []

    async def _likelihood(self, text: str, form: Form) -> TextLikelihood | None:
        def read(content: Any) -> TextLikelihood | str:
            try:
                return read_likelihood(content, text, form)
            except Exception as error:  # noqa: BLE001 - what does not come now does not come later
                return str(error)

        try:
            found = await self.client.post("completions", {"prompt": text, **FIELDS[form]}, read, what=NO_ANSWER)
        except ValueError:
            return None
        return None if isinstance(found, str) else found

    async def _server(self) -> str | None:
        """The program that serves the model, with its release, if it says so at the places that are known for it."""
        if self.client.server.provider is not None:
            return f"provider {self.client.server.provider}"
        address = self.client.addresses[0]
        for path, program, name in (
            ("version", "vLLM", "version"),
            ("info", "TGI", "version"),
            ("props", "llama.cpp", "build_info"),
        ):
            said = await self.client.get(address, path)
            if isinstance(said, dict) and isinstance(said.get(name), str):
                return f"{program} {said[name]}"
        return None


def chat_fields(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a chat as `AsyncInferenceClient.chat_completion` takes them: those it does not know in `extra_body`."""
    known = ("temperature", "top_p", "seed", _SINGLE)
    extra = {name: value for name, value in asked.items() if name not in known}
    return {**{name: asked[name] for name in known if name in asked}, **({"extra_body": extra} if extra else {})}


def _written(answer: ServedAnswer) -> str:
    """All that was written, thought or said."""
    return f"{answer.reasoning or ''}\n{answer.text or ''}"


def _kept(answers: Sequence[tuple[ServedAnswer, int]]) -> bool | None:
    """Whether no answer is longer than was asked for; `None`: none was long enough to show it."""
    for answer, tokens in answers:
        if (answer.num_tokens or 0) > tokens or len(_written(answer).split()) > tokens:
            return False
    ended = any(answer.finish_reason == "length" or answer.num_tokens == tokens for answer, tokens in answers)
    return True if ended else None


def _reasoning(answers: Sequence[ServedAnswer]) -> str:
    thought = [answer for answer in answers if answer.reasoning is not None]
    if not thought:
        return "none"
    return "in the text" if any(answer.inline for answer in thought) else "apart"


def _unlike(names: tuple[str, str], what: str, first: Any, other: Any) -> str:
    return UNLIKE_ERROR.format(first=names[0], other=names[1], what=what, here=repr(first), there=repr(other))
