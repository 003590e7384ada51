"""Log-probabilities of servers: those of a small model are `score_perplexity`'s, and what is of other tokens is not."""

import asyncio
import json
from types import SimpleNamespace

import pyarrow as pa
import pytest
import torch

from hb_metrics.collect.engines.engine import LikelihoodRequests
from hb_metrics.collect.engines.served import ServedEngine
from hb_metrics.collect.scoring.perplexity import score_perplexity
from hb_metrics.models.served.answers import FIELDS, LEAST, read_end, read_likelihood
from hb_metrics.models.served.client import Server, TemporaryFault, connected
from tests.hb_metrics.conftest import sentences, small_model
from tests.hb_metrics.models.served.stand_in import MODEL, StandIn, serving


def model_score(name):
    """Tokens of a prompt and their log-probabilities, as a server computes them: token by token, by itself."""
    model, tokenizer = small_model(name)
    bos = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]

    @torch.no_grad()
    def score(text):
        tokens = bos + tokenizer(text, add_special_tokens=False)["input_ids"]
        logits = model(torch.tensor([tokens])).logits[0].double().log_softmax(-1)
        values = [None, *(logits[at - 1, tokens[at]].item() for at in range(1, len(tokens)))]
        return [tokenizer.decode([token]) for token in tokens], values

    @torch.no_grad()
    def next_token(text):
        """The likeliest token that stays one token after the text, and its log-probability."""
        given = tokenizer(text, add_special_tokens=False)["input_ids"]
        logits = model(torch.tensor([bos + given])).logits[0].double().log_softmax(-1)
        order = logits[-1].argsort(descending=True).tolist()
        texts = ((token, tokenizer.decode([token])) for token in order)
        token, written = next(
            (token, written)
            for token, written in texts
            if written.strip() and tokenizer(text + written, add_special_tokens=False)["input_ids"] == [*given, token]
        )
        return written, logits[-1, token].item()

    score.next = next_token
    return score


@pytest.mark.parametrize("name", ["llama", "gpt2-without-bos"])
def test_the_likelihoods_of_a_served_model_are_those_of_the_model(name):
    texts = sentences()[:12]
    stand_in = StandIn(score=model_score(name))

    async def run(url):
        async with connected(Server(model=MODEL, url=url)) as client:
            bodies = {text: {"prompt": text, **FIELDS} for text in texts}
            contents = [await client.post("completions", bodies[text], dict, what="a text") for text in texts]
        return [read_likelihood(content, text) for content, text in zip(contents, texts, strict=True)]

    with serving(stand_in) as url:
        likelihoods = asyncio.run(run(url))

    expected = score_perplexity(texts, *small_model(name))
    assert [text.num_tokens for text in likelihoods] == expected.num_tokens.tolist()
    assert [text.log_likelihood for text in likelihoods] == pytest.approx(expected.log_likelihoods.tolist(), rel=1e-5)
    assert {text.start_token is None for text in likelihoods} == {expected.plan.start_token is None}


TEXT = "I'm deaf."


def echoed(tokens, values, number=None):
    return {
        "model": "m",
        "choices": [{"text": "", "logprobs": {"tokens": tokens, "token_logprobs": values}}],
        "usage": {"prompt_tokens": len(tokens) if number is None else number},
    }


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (echoed(["I'm", " deaf", "."], [None, -2.0, -0.5]), (-2.5, 2, None)),
        (echoed(["<s>", "I'm", " deaf", "."], [None, -1.0, -2.0, -0.5]), (-3.5, 3, "<s>")),
        (echoed(["<s>", "I'm", " deaf", "."], [0.0, -1.0, -2.0, -0.5]), (-3.5, 3, "<s>")),
        (echoed(["I'm", " deaf", "."], [-1.0, -2.0, -0.5]), (-3.5, 3, None)),  # it hides its start token
        (echoed(["I'm", " deaf", "."], [0.0, -2.0, -0.5]), (-2.5, 2, None)),
        (echoed(["I'm", " deaf", ".", " And"], [None, -2.0, -0.5, -9.0], 3), (-2.5, 2, None)),  # one was written
        ({**echoed(["I'm", " deaf", ".", " And"], [None, -2.0, -0.5, -9.0]), "usage": None}, (-2.5, 2, None)),
    ],
)
def test_an_echo_is_read(content, expected):
    assert read_likelihood(content, TEXT)[:3] == expected


@pytest.mark.parametrize(
    "content",
    [
        {"choices": [{"text": " I hear you", "logprobs": None}], "usage": {"prompt_tokens": 3}},  # transformers serve
        echoed([" I", " hear", " you"], [-1.0, -2.0, -3.0]),  # those of what was written
        echoed(["<s>", "I'm", " deaf", "."], [-1.0, -2.0, -0.5, -0.7]),  # shifted by one
        echoed(["I'm", " deaf", "."], [None, None, -0.5]),
        echoed(["I'm", " deaf", "."], [None, -2.0]),
        echoed(["I'm", " deaf", "."], [None, -2.0, -0.5], 5),
        echoed(["I'm", " deaf", "."], [None, 2.0, -0.5]),
        echoed(["I'm", " deaf", "."], [None, -2.0, float("-inf")]),
        echoed(["I'm", " deaf", "."], [None, -(10**400), -2.0]),
        echoed(["I'm", " deaf", "."], [None, -1e305, -2.0]),
        echoed(["I'm", " deaf", "."], [None, False, -2.0]),
        echoed(["I'm deaf."], [None]),
        None,
    ],
)
def test_what_is_not_of_the_texts_tokens_or_not_of_all_is_not_believed(content):
    content = json.loads(json.dumps(content))  # as it comes
    with pytest.raises(TemporaryFault):
        read_likelihood(content, TEXT)


def test_a_text_with_an_impossible_token_ends_the_run_at_once(tmp_path):
    stand_in = StandIn(score=lambda text: (["<s>", *text], [None, LEAST, *[-1.0] * (len(text) - 1)]))
    probe = SimpleNamespace(model=MODEL, likelihoods=True, start_token="<s>")
    requests = LikelihoodRequests(ids=["a"], about=pa.table({"axis": ["ability"]}), texts=[TEXT])
    with serving(stand_in) as url:
        engine = ServedEngine(Server(model=MODEL, url=url), probe)
        with pytest.raises(ValueError, match="gives a token of prompt 'a' no probability"):
            engine.score_into_shards(engine.plan_likelihoods(requests), tmp_path)
    assert not list(tmp_path.glob("*.parquet"))


def test_characters_of_several_tokens_are_counted_by_tokens():
    content = echoed(["<s>", "na", "\ufffd", "\ufffd", "ve", "!"], [None, -1.0, -1.0, -1.0, -1.5, -9.0], 5)

    assert read_likelihood(content, "naïve")[:3] == (-4.5, 4, "<s>")
    assert read_end(content, "naïve", "ve") == -1.5
