"""Runs a judge on this machine. The probability of a label is the probability of its letter as the next token.

All prompts begin with the same rubric, which is processed only once. Each text is then processed alone, so other texts
never affect its probabilities.
"""

from collections.abc import Sequence
from functools import partial
from itertools import cycle, islice

import numpy as np
import torch
import transformers

from hb_metrics.collect.engines.local import LocalEngine
from hb_metrics.collect.judges.rubric import LETTERS, Prompt, Read, Rubric, prompt_for, shares_of
from hb_metrics.collect.replies.forward import Forward, States, states_of
from hb_metrics.collect.scoring.perplexity import most_tokens
from hb_metrics.collect.scoring.reply_scoring import reply_logits
from hb_metrics.collect.units import map_units
from hb_metrics.models.architecture import decoder_prefix, has_changing_rope, num_shared
from hb_metrics.models.chats import DEFAULT_CHAT, chat_messages
from hb_metrics.models.contexts import encode_messages
from hb_metrics.models.float32 import measured
from hb_metrics.models.memory import run_batch
from hb_metrics.run.replies import LeftOutError

# The largest accepted total variation distance between the probabilities with and without a shared beginning. The
# second number applies to models that do not run in float32, such as quantised models.
_TOLERANCE, _LOW_PRECISION_TOLERANCE = 1e-3, 0.1


class LocalJudge:
    reads = "log-probabilities"
    version = f"transformers {transformers.__version__}"
    cost = None

    def __init__(self, engine: LocalEngine, rubric: Rubric) -> None:
        if "replies" not in engine.gives:
            lack = engine.lacks["replies"]
            raise ValueError(f"judge_model '{engine.name}' {lack.why}; {lack.instead}")
        identity, self.loaded = engine.identity(), engine.loaded
        self.about = {"model": identity["name"], "model_digest": identity["digest"], "served_model": None}
        self.layout = engine.layout(context="auto", tag="none", chat=DEFAULT_CHAT)
        model, tokenizer = self.loaded.model, self.loaded.tokenizer
        size = min(model.get_output_embeddings().weight.shape[0], len(tokenizer))
        pieces = tokenizer.batch_decode([[token] for token in range(size)])
        self.letters = [
            [token for token, piece in enumerate(pieces) if piece.strip() == letter]
            for letter in LETTERS[: len(rubric.labels)]
        ]
        if not all(self.letters):
            raise ValueError(
                f"judge '{self.loaded.name}' lacks a token for one of the letters; set another --judge_model"
            )
        self.limit = most_tokens(model, tokenizer)
        self.prefix = decoder_prefix(model, tokenizer)
        tried = [prompt_for(rubric, text, seed=0) for examples in rubric.examples for text in examples]
        if not all(map(self.fits, tried)):
            raise ValueError(f"the rubric {rubric.name} is too long for {self.limit} tokens; shorten it")
        encoded = [self._encoded(prompt) for prompt in tried]
        self.beginning = encoded[0][: num_shared(encoded)]
        self.ending = encoded[0][len(self.beginning) :]
        self.may_share: dict[int, bool] = {}
        with torch.inference_mode():
            self.shared = None if has_changing_rope(model) else states_of(model, self.beginning)

    def fits(self, prompt: Prompt) -> bool:
        return len(self._encoded(prompt)) < self.limit

    def read(self, prompts: Sequence[Prompt]) -> Read:
        encoded = [self._encoded(prompt) for prompt in prompts]
        shared = [self._shared(len(tokens)) for tokens in encoded]
        known = {token for tokens in self.letters for token in tokens}

        def run(batch: list[tuple[list[int], States | None]]) -> tuple[list[float], bool]:
            row = self._next(*batch[0])
            return [float(row[letter].sum()) for letter in self.letters], int(row.argmax()) in known

        batches = [[read] for read in zip(encoded, shared, strict=True)]  # of one text each
        running = map_units(partial(run_batch, run), batches, self.loaded.model)
        answers = [answer for _, (answer,) in running]
        masses = np.array([row for row, _ in answers]).reshape(len(prompts), len(self.letters))
        if not np.isfinite(masses).all():
            raise LeftOutError(f"judge '{self.loaded.name}' returned NaN as a probability; check its weights")
        return Read(shares_of(masses), np.array([answered for _, answered in answers], dtype=bool))

    def _encoded(self, prompt: Prompt) -> list[int]:
        conversation = chat_messages(prompt.text, [], DEFAULT_CHAT)
        return encode_messages([conversation], self.loaded, self.layout.context, thought=False)[0]

    def _shared(self, length: int) -> States | None:
        """Returns the states of the beginning, unless they change the answer to prompts of this length.

        The trial's prompt is made up. If it were one of the prompts, the results would depend on what this process has
        read before.
        """
        size = min(1 << (length - 1).bit_length(), self.limit - 1)
        if self.shared is not None and size not in self.may_share:
            tokens = [*self.beginning, *islice(cycle(self.ending), size - len(self.beginning))]

            def distance() -> float:
                shared = states_of(self.loaded.model, self.beginning)
                return float((self._next(tokens, shared) - self._next(tokens, None)).abs().sum()) / 2

            difference, in_float32 = measured(self.loaded.model, distance)
            self.may_share[size] = difference <= (_TOLERANCE if in_float32 else _LOW_PRECISION_TOLERANCE)
        return self.shared if self.may_share.get(size) else None

    def _next(self, tokens: list[int], shared: States | None) -> torch.Tensor:
        """Returns the probabilities of the next token: [vocabulary] float64."""
        if shared is not None:
            logits = Forward(self.loaded.model, [tokens], known=shared).first()[0]
        else:
            logits = reply_logits(self.loaded.model, [(tokens, [0])], self.prefix)[0][0]  # before any reply
        return logits.double().softmax(0).cpu()
