from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode
from transformers import AutoModelForCausalLM, GenerationConfig, LogitsProcessor, LogitsProcessorList

from hb_metrics.collect.replies import decoding as decoding_module
from hb_metrics.collect.replies import forward
from hb_metrics.collect.replies.decoding import decode
from hb_metrics.collect.replies.decoding_settings import Decoding
from hb_metrics.collect.replies.forward import decoding_paths
from hb_metrics.collect.replies.sampling import draw
from hb_metrics.models.contexts import EndTokens
from hb_metrics.models.thoughts import Thoughts
from tests.hb_metrics.collect.small_architectures import longrope, small_architecture

ENDS = EndTokens(dropped=(1,))
GREEDY = Decoding(max_new_tokens=12)
BEAMS = Decoding(num_beams=4, max_new_tokens=12, min_new_tokens=3, no_repeat_ngram_size=3)
SAMPLE = Decoding(sample=True, max_new_tokens=12, temperature=1.5, top_k=40, top_p=0.9)
SAMPLE_ALL = Decoding(sample=True, max_new_tokens=12, top_k=400)
SAMPLE_MOST = Decoding(sample=True, max_new_tokens=12, top_k=400, top_p=0.9)


def contexts(num, length, seed=0):
    rng = np.random.default_rng(seed)
    shared = rng.integers(4, 400, length // 2)
    return [[*shared, *rng.integers(4, 400, length - length // 2)] for _ in range(num)]


def draw_keys(num, decoding, seed=0):
    shape = (num, decoding.max_new_tokens)
    return np.random.default_rng(seed).integers(-(2**63), 2**63, shape)


class NoNgramTwice(LogitsProcessor):
    """Excludes n-grams of the reply, token by token; those of the context may come again."""

    def __init__(self, size, start):
        self.size, self.start = size, start

    def __call__(self, input_ids, scores):
        for row, said in enumerate(input_ids[:, self.start :].tolist()):
            for place in range(len(said) - self.size + 1):
                if said[place : place + self.size - 1] == said[len(said) - self.size + 1 :]:
                    scores[row, said[place + self.size - 1]] = -torch.inf
        return scores


def reply_of_transformers(model, context, decoding):
    """What `generate` gives, cut at the end token."""
    tokens = torch.tensor([context])
    forced = model.config.is_encoder_decoder and model.generation_config.forced_bos_token_id is not None
    length = 1 + forced if model.config.is_encoder_decoder else len(context)
    processors = LogitsProcessorList()
    if decoding.no_repeat_ngram_size:
        processors.append(NoNgramTwice(decoding.no_repeat_ngram_size, length))
    config = GenerationConfig(
        num_beams=decoding.num_beams,
        do_sample=False,
        max_new_tokens=decoding.max_new_tokens + forced,
        min_new_tokens=decoding.min_new_tokens + forced,
        length_penalty=decoding.length_penalty,
        eos_token_id=1,
        pad_token_id=2,
        decoder_start_token_id=model.generation_config.decoder_start_token_id,
        forced_bos_token_id=model.generation_config.forced_bos_token_id,
        use_cache=not model._is_stateful,  # generate has no beams for a cache that cannot be reordered
    )
    (found,) = model.generate(
        tokens, attention_mask=torch.ones_like(tokens), generation_config=config, logits_processor=processors
    )
    reply = found[length:].tolist()
    return reply[: reply.index(1)] if 1 in reply else reply


@pytest.mark.parametrize(
    ("name", "decoding"),
    [
        *((name, GREEDY) for name in ("llama", "bloom", "mamba", "blenderbot", "t5 with a forced token")),
        *((name, BEAMS) for name in ("gpt2", "mamba", "t5 with a forced token")),
        ("llama", Decoding(num_beams=3, max_new_tokens=8, length_penalty=0.0)),
    ],
)
def test_replies_are_those_of_generate(name, decoding, get_small_model, monkeypatch):
    model, _ = get_small_model(name.split()[0])
    if "forced" in name:
        monkeypatch.setattr(model.generation_config, "forced_bos_token_id", 9)
    monkeypatch.setattr(model.generation_config, "forced_eos_token_id", None)  # a reply that is cut has no end
    given = contexts(4, 7)
    with monkeypatch.context() as patch:  # the model's own settings have no effect
        patch.setattr(model.generation_config, "repetition_penalty", 9.0)
        found = decode(model, given, decoding, ENDS)

    for context, reply in zip(given, found, strict=True):
        assert reply.tokens == reply_of_transformers(model, context, decoding)
        assert reply.truncated == (len(reply.tokens) == decoding.max_new_tokens)


def test_as_many_beams_as_tokens_find_the_likeliest_reply():
    model, (context,) = small_architecture("roberta", AutoModelForCausalLM), contexts(1, 7)
    with torch.inference_mode():
        first = model(torch.tensor([context])).logits[0, -1].log_softmax(-1)
        second = model(torch.tensor([[*context, token] for token in range(400)])).logits[:, -1].log_softmax(-1)
    best = divmod(int((first[:400, None] + second).argmax()), second.shape[1])
    decoding = Decoding(num_beams=400, max_new_tokens=2)
    assert tuple(decode(model, [context], decoding, EndTokens(dropped=()))[0].tokens) == best


@pytest.mark.parametrize(
    ("name", "decoding"), [("blenderbot", SAMPLE), ("llama", GREEDY), ("llama", SAMPLE_ALL), ("llama", SAMPLE_MOST)]
)
def test_a_reply_does_not_depend_on_its_batch(name, decoding, get_small_model):
    model, _ = get_small_model(name)
    given, numbers = contexts(40, 9), draw_keys(40, decoding)
    together = decode(model, given, decoding, ENDS, numbers)

    order = np.random.default_rng(1).permutation(40)
    shuffled = decode(model, [given[row] for row in order], decoding, ENDS, numbers[order])
    assert shuffled == [together[row] for row in order]
    for row in range(0, 40, 8):
        one = slice(row, row + 1)
        assert decode(model, given[one], decoding, ENDS, numbers[one]) == together[one]


def contexts_of_several_lengths(num, shared, seed=0):
    rng = np.random.default_rng(seed)
    prefix = rng.integers(4, 400, shared)
    return [[*prefix, *rng.integers(4, 400, rng.integers(1, 12))] for _ in range(num)]


@pytest.mark.parametrize("decoding", [GREEDY, SAMPLE])
@pytest.mark.parametrize(("name", "shared"), [("gpt2", 3), ("llama", 0)])
def test_a_reply_depends_neither_on_its_padding_nor_on_the_limits_of_others(name, decoding, shared, get_small_model):
    model, _ = get_small_model(name)
    given, numbers = contexts_of_several_lengths(20, shared), draw_keys(20, decoding)
    limits = [1 + row % 12 for row in range(20)]
    assert len({len(context) for context in given}) > 5
    assert decoding_paths(model, given, 12) == (True, True)
    together = decode(model, given, decoding, ENDS, numbers, limits=limits)
    for row in range(0, 20, 3):
        one, mine = slice(row, row + 1), replace(decoding, max_new_tokens=limits[row])
        assert decode(model, given[one], mine, ENDS, numbers[one]) == together[one]


@torch.inference_mode()
def test_a_common_beginning_is_read_once(get_small_model):
    model, _ = get_small_model("llama")
    given = contexts_of_several_lengths(6, 9)
    given.append(given[0])

    def logits(*arguments, **options):
        batch = forward.Forward(model, *arguments, **options)
        tokens = torch.full((len(arguments[0]),), 7)
        return batch.num_known, torch.stack([batch.first(), batch.next(tokens)], 1)

    alone = torch.cat([logits([context], cached=False)[1] for context in given])
    num_known, together = logits(given)
    assert num_known == 9
    torch.testing.assert_close(together, alone, atol=1e-4, rtol=0)
    known = forward.states_of(model, [*given[0][:5], 3, 3, 3])
    num_known, first = logits([given[0]], known=known)
    assert num_known == 5
    torch.testing.assert_close(first, alone[:1], atol=1e-4, rtol=0)


def test_padding_is_for_models_that_are_found_to_take_it(get_small_model, monkeypatch):
    given = contexts_of_several_lengths(6, 2)
    for name, expected in {"gpt2": True, "llama": True, "t5": False, "blenderbot": False}.items():
        assert decoding_paths(get_small_model(name)[0], given, 12).padded == expected
    model, _ = get_small_model("gpt2")
    assert not decoding_paths(model, contexts(6, 5), 12).padded  # of one length
    assert not decoding_paths(model, [], 12).padded
    forward = model.forward

    def ignoring_the_mask(*arguments, attention_mask=None, **options):
        return forward(*arguments, **options)

    monkeypatch.setattr(model, "forward", ignoring_the_mask)
    assert not decoding_paths(model, given, 12).padded


def test_a_trial_of_long_replies_takes_few_steps_and_finds_faults_at_their_end(monkeypatch):
    """LongRoPE changes all keys beyond a length, so the kept ones are wrong."""
    model = small_architecture("llama", AutoModelForCausalLM, **longrope(200))
    given, steps, run = contexts_of_several_lengths(6, 2), [], forward.Forward.next
    monkeypatch.setattr(forward.Forward, "next", lambda self, tokens: steps.append(1) or run(self, tokens))
    assert decoding_paths(model, given, 150) == (True, True)
    assert decoding_paths(model, given, 210) == (False, False)
    assert len(steps) < 400


@pytest.mark.parametrize("decoding", [GREEDY, BEAMS])
def test_end_tokens_end_a_reply_and_are_kept_or_dropped(decoding, get_small_model):
    model, _ = get_small_model("gpt2")
    given = contexts(4, 6)
    every = EndTokens(dropped=tuple(range(0, 400, 2)), kept=tuple(range(1, 400, 2)))
    shortest = max(decoding.min_new_tokens, 1)
    for reply in decode(model, given, Decoding(num_beams=decoding.num_beams, min_new_tokens=0), every):
        assert len(reply.tokens) <= 1
        assert not reply.truncated
        assert all(token % 2 for token in reply.tokens)
    some = EndTokens(dropped=(1,), kept=tuple(range(100, 300)), blank=tuple(range(100, 250)))
    skipped = []
    for reply in decode(model, given, decoding, some):
        skipped.append(next(place for place, token in enumerate(reply.tokens) if token not in some.blank))
        *body, last = reply.tokens[skipped[-1] :]
        assert not any(100 <= token < 300 for token in body)
        assert reply.truncated or 100 <= last < 300 or len(reply.tokens) >= shortest
    assert any(skipped)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"num_beams": 0}, "num_beams is 0; set a number from 1 "),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"end_after_sentence": True, "num_beams": 2}, "num_beams is 2"),
    ],
)
def test_settings_that_cannot_be_decoded_with_are_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        Decoding(**wrong)


@pytest.mark.parametrize("decides_otherwise", [False, True])
def test_a_context_with_a_close_decision_runs_alone_no_further_than_needed(
    decides_otherwise, get_small_model, monkeypatch
):
    model, _ = get_small_model("llama")
    given, numbers = contexts(6, 7), draw_keys(6, SAMPLE)
    expected = decode(model, given, SAMPLE, ENDS, numbers)
    assert len(expected[2].tokens) == 12
    steps = []

    def with_a_close_decision(logits, keys, **settings):
        chosen, close = draw(logits, keys, **settings)
        steps.append(len(keys))
        if len(keys) > 1:
            close[:] = False
            if len(steps) == 4:
                close[2] = True
                chosen[2] += decides_otherwise
        return chosen, close

    monkeypatch.setattr(decoding_module, "draw", with_a_close_decision)
    assert decode(model, given, SAMPLE, ENDS, numbers) == expected
    assert steps.count(1) == (4 + 12 if decides_otherwise else 4)


class Waits(TorchFunctionMode):
    """Counts what makes a program wait for the device: numbers of tensors read, and rows looked for."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        waits = {"tolist", "item", "nonzero", "numpy", "cpu", "__bool__", "__int__", "__float__", "__index__"}
        index = args[1] if name in ("__getitem__", "__setitem__") else ()
        index = index if isinstance(index, tuple) else (index,)
        by_mask = any(isinstance(part, torch.Tensor) and part.dtype == torch.bool for part in index)
        self.count += name in waits or by_mask
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(("decoding", "thinks"), [(GREEDY, False), (SAMPLE_ALL, False), (GREEDY, True), (SAMPLE, True)])
def test_a_step_waits_for_the_device_once(decoding, thinks, get_small_model, monkeypatch):
    model, _ = get_small_model("gpt2")
    thoughts = Thoughts("<", ">", True, False)  # a thought without end
    ends = EndTokens(dropped=(), blank=(3,), pieces=("x",) * 400, thoughts=thoughts if thinks else None)
    logits = torch.randn(5, 400, generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr(forward.Forward, "first", lambda self: logits.clone())
    monkeypatch.setattr(forward.Forward, "next", lambda self, tokens: logits.clone())
    counts = []
    for number in (6, 12):
        longer = replace(decoding, max_new_tokens=number, max_reasoning_tokens=number * thinks, min_new_tokens=4)
        with Waits() as waits:
            found = decode(model, contexts(5, 6), longer, ends, draw_keys(5, replace(longer, max_new_tokens=24)))
        assert {len(reply.tokens) for reply in found} == {number}
        counts.append(waits.count)
    assert counts[1] - counts[0] == 6
