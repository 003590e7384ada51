"""Runs a judge on a server. The probability of a label is the probability of its letter.

If the server returns no log-probabilities, the judge answers several times. The probability of a label is then the
share of answers with its letter. Each answer is written to a journal at once, so a resumed run does not pay for the
same answer twice.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from itertools import islice
from math import exp
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hb_metrics.collect.asking import Journal, answers_of, request_key
from hb_metrics.collect.judges.rubric import LETTERS, Prompt, Read, Rubric, shares_of
from hb_metrics.collect.replies.decoding_settings import REASONING_TOKENS
from hb_metrics.models.processes import process_state
from hb_metrics.models.served.answers import ALTERNATIVES, check_model, first_tokens, read_served_answer
from hb_metrics.models.served.client import TOO_LONG, Client, RefusedError, Server, TemporaryFault, connected
from hb_metrics.models.served.probe import Probe, probe, try_log_probabilities
from hb_metrics.reply_checks.first_tokens import plain_token
from hb_metrics.run.replies import LeftOutError

NUM_ANSWERS = 5  # the number of answers per text if the server returns no log-probabilities
_ANSWER_TOKENS = 8
_FORMAT = "masses"  # of answers in the journal
_TRIAL = "Answer with the letter A and nothing else."
_FIRST = 32  # the run stops if none of this many initial answers is a letter, because requests may cost money
_LETTER = re.compile(r"\W*(?:(?i:the )?(?i:answer|label|letter)(?i: is)?\W*)?([A-Z])(?:\W*$|[.:)]|\s*\n)")


class JudgeAnswer(NamedTuple):
    """The probability that an answer assigns to each letter (see `letter_masses`), and its numbers of tokens."""

    masses: list[float]
    tokens_in: int | None
    tokens_out: int | None


class ServedJudge:
    """Requests letters from a model on a server.

    In reports, `reads` names the source of the probabilities: "log-probabilities", "5 answers" or "the likeliest
    answer".
    """

    version = "served"

    def __init__(self, server: Server, rubric: Rubric, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.num_letters = len(rubric.labels)
        self.num_answered = self.num_asked = 0
        self.total = {"num_answers": 0, "tokens_in": 0, "tokens_out": 0}
        # Each process probes the server by itself. It must not wait for the other processes, because they load
        # classifiers one after another.
        self.probe, number = _tried(server)
        self.about = {"model": server.model, "model_digest": None, "served_model": self.probe.model}
        self.most = _ANSWER_TOKENS + (0 if self.probe.reasoning == "none" else REASONING_TOKENS)
        self.fields = {**self.probe.neutral, self.probe.max_tokens_field: self.most}
        if number is not None:
            self.reads, self.drawn = "log-probabilities", [_likeliest(number)]
        elif self.probe.samples or not self.probe.temperature_kept:
            self.reads = f"{NUM_ANSWERS} answers"
            seeds = [{"seed": seed} if self.probe.samples else {} for seed in range(NUM_ANSWERS)]
            self.drawn = [{"temperature": 1, **seed} for seed in seeds]
        else:
            self.reads, self.drawn = "the likeliest answer", [{"temperature": 0}]

    @cached_property
    def journal(self) -> Journal:
        """The answers so far. They are read only once, because there may be many."""
        return Journal(self.folder, process_state().process_index)

    def fits(self, prompt: Prompt) -> bool:
        """Returns True. The server's maximum length is unknown, and a text that it rejects as too long has no label."""
        return True

    def read(self, prompts: Sequence[Prompt]) -> Read:
        bodies = [{**_messages(prompt.text), **self.fields, **drawn} for prompt in prompts for drawn in self.drawn]
        answers = self._answers(bodies)
        masses = np.array([answer.masses for answer in answers])
        masses = masses.reshape(len(prompts), len(self.drawn), self.num_letters).sum(axis=1)
        return Read(shares_of(masses), masses.any(axis=1))

    def cost(self) -> dict[str, int]:
        """Returns how many answers and tokens all processes have used so far."""
        self.journal.refresh()
        for answer in islice(self.journal.answers.values(), self.total["num_answers"], None):
            self.total["num_answers"] += 1
            self.total["tokens_in"] += answer["tokens_in"] or 0
            self.total["tokens_out"] += answer["tokens_out"] or 0
        return dict(self.total)

    def _answers(self, bodies: Sequence[Mapping[str, object]]) -> list[JudgeAnswer]:
        server, expected = self.server, self.probe.model
        # Without seeds, the requests for the answers to a prompt are the same, so their keys also contain a number.
        keys = [
            request_key([_FORMAT, server.model, expected, body, row % len(self.drawn)])
            for row, body in enumerate(bodies)
        ]

        def read(content: Any) -> JudgeAnswer:
            answer = read_served_answer(content, max_tokens=self.most)
            if answer.ending != "filtered":  # a filter may answer in place of the model
                check_model(answer.model, expected)
            first = None
            if self.reads == "log-probabilities" and answer.ending not in ("filtered", "refused"):
                first = first_tokens(content)
                if first is None:
                    raise TemporaryFault("the answer has no valid log-probabilities, unlike the first one")
            masses = letter_masses(answer.text, first, self.num_letters)
            return JudgeAnswer(masses, answer.num_prompt_tokens, answer.num_tokens)

        async def ask(client: Client, row: int) -> dict[str, object]:
            try:
                answer = await client.post("chat/completions", bodies[row], read, what="a question of the rubric")
            except RefusedError as error:
                if not re.search(TOO_LONG, error.sentences, re.IGNORECASE):
                    raise
                answer = JudgeAnswer([0.0] * self.num_letters, None, None)  # the answers about other texts are paid
            self.num_asked += 1
            self.num_answered += any(answer.masses)
            if self.num_asked >= _FIRST and not self.num_answered:
                raise ValueError(
                    f"none of the judge's first {_FIRST} answers is a letter; set --judge_model to another model"
                )
            return answer._asdict()

        try:
            answers = answers_of(server, dict(enumerate(keys)), ask, self.journal)
        except ValueError as error:
            raise LeftOutError(str(error)) from error
        return [JudgeAnswer(**answer) for answer in answers.values()]


@cache
def _tried(server: Server) -> tuple[Probe, int | None]:
    """Tests which request fields the server supports.

    Returns the results of the test, and the number of log-probabilities to request per token. This number is `None` if
    the server returns no log-probabilities.
    """

    async def tried() -> tuple[Probe, int | None]:
        async with connected(server) as client:
            results = await probe(client, chat=True, extra={})
            body = {**_messages(_TRIAL), **results.neutral, results.max_tokens_field: 1}
            for number in () if results.reasoning != "none" else ALTERNATIVES:
                if await try_log_probabilities(client, "chat/completions", {**body, **_likeliest(number)}, _is_sound):
                    return results, number
        return results, None

    return asyncio.run(tried())


def _is_sound(content: Any) -> bool:
    """Returns whether an answer begins with its likeliest token, as every answer at temperature 0 does."""
    first = first_tokens(content)
    likeliest = "" if first is None else plain_token(max(first, key=itemgetter(1))[0])
    return bool(likeliest) and (read_served_answer(content, max_tokens=1).text or "").startswith(likeliest)


def letter_masses(text: str | None, first: list[list[Any]] | None, num_letters: int) -> list[float]:
    """Returns the probability that an answer assigns to each letter: [letters].

    `first` contains the candidates for the answer's first token. Without log-probabilities, it is `None`, and the
    letter in the answer's text has a probability of 1. A letter that the server does not list has a probability of 0.
    If the answer or its likeliest token is not a letter, all probabilities are 0.
    """
    letters = list(LETTERS[:num_letters])
    if first is None:
        match = _LETTER.match(text or "")
        tokens = [("" if match is None else match[1], 0.0)]
    else:
        tokens = [(plain_token(token), value) for token, value in first]
    if max(tokens, key=itemgetter(1))[0] not in letters:
        return [0.0] * num_letters
    return [sum(exp(value) for token, value in tokens if token == letter) for letter in letters]


def _likeliest(number: int) -> dict[str, object]:
    return {"temperature": 0, "logprobs": True, "top_logprobs": number}


def _messages(text: str) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": text}]}
