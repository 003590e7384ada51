import numpy as np
import psutil
import pytest
import torch
from transformers import AutoModelForCausalLM

from hb_dataset import load_table
from hb_metrics.collect.engines.local import LocalEngine
from hb_metrics.collect.replies import decoding, decoding_shards
from hb_metrics.collect.replies.decoding import decode
from hb_metrics.collect.replies.decoding_settings import Decoding
from hb_metrics.collect.replies.decoding_shards import KeptStates
from hb_metrics.collect.replies.forward import Forward, States
from hb_metrics.collect.replies.requests import make_requests, next_turn, with_follow_ups
from hb_metrics.models.chats import ChatOptions
from hb_metrics.models.contexts import EndTokens
from tests.hb_metrics.chat_models import chat_tokenizer, untrained_model
from tests.hb_metrics.collect.small_architectures import longrope, small_architecture
from tests.hb_metrics.conftest import as_loaded, byte_level_tokenizer, small_model

TURNS = 3
THINKING = ("thoughts", "rewriting")
SAMPLE = Decoding(sample=True, temperature=1.5, top_k=40, max_new_tokens=8)
# Numbers the messages from the last to the first, so each turn changes all of them.
REWRITING = "{% for message in messages %}{{ loop.revindex ~ message.content }}{% endfor %}"
CHANGES = {  # the changes take effect at the second turn
    "gemma2": {"sliding_window": 64},  # of half of the layers
    "gpt_neo": {"window_size": 64},
    "llama-longrope": longrope(70),
    "phi3": longrope(70),
}


def model_and_tokenizer(name):
    if name in THINKING:  # the template leaves thoughts out of later turns
        tokenizer = chat_tokenizer("r1")
        tokenizer.chat_template = REWRITING if name == "rewriting" else tokenizer.chat_template
        model = untrained_model(tokenizer)
        model.lm_head = torch.nn.Linear(64, len(tokenizer))
        model.lm_head.bias.data[tokenizer.convert_tokens_to_ids("</think>")] = 3  # so that thoughts end
        return model, tokenizer
    if name in (*CHANGES, "deepseek_v32", "jamba"):
        family = name.split("-")[0]
        return small_architecture(family, AutoModelForCausalLM, **CHANGES.get(name, {})), byte_level_tokenizer()
    sizes = {"gpt2": {"n_positions": 512}, "bloom": {}, "mamba": {}}
    return small_model(name, **sizes.get(name, {"max_position_embeddings": 512}))


def first_turn(name, decoding=SAMPLE, number=6):
    table = load_table("v1.0").take(np.arange(number) * 30_000)
    requests = make_requests(table, decoding=decoding, max_reasoning_tokens=40 if name in THINKING else None)
    return with_follow_ups(requests, table["template"].to_pylist(), TURNS)


def converse(engine, folder, requests, monkeypatch, forget=()):
    """Returns the shards of all turns, and for each turn the number of tokens read and of conversations kept.

    The states of earlier turns are forgotten before the turns in `forget`.
    """
    context = "chat" if engine.loaded.tokenizer.chat_template else engine.kind.replace("encoder-decoder", "blenderbot")
    layout = engine.layout(context=context.replace("causal", "plain"), tag="none", chat=ChatOptions())
    read, kept, run = [], [], Forward._run

    def counted(self, tokens, mask=None):
        read[-1] += tokens.numel()
        return run(self, tokens, mask)

    for turn in range(1, TURNS + 1):
        if turn in forget:
            engine.kept = KeptStates()
        plan = engine.plan_replies(requests, layout)
        read.append(0)
        with monkeypatch.context() as patch:
            patch.setattr(Forward, "_run", counted)
            table = engine.reply(plan, folder / str(turn))
        kept.append(len(engine.kept.new))
        assert not engine.kept.last
        if turn < TURNS:
            requests = next_turn(requests, table)
    return [path.read_bytes() for path in sorted(folder.rglob("*.parquet"))], read, kept


# The least share of tokens that the model need not read again.
SAVINGS = {"llama": 0.3, "gemma2": 0.1, "thoughts": 0.1, "phi3": 0, "mamba": 0, "gpt2": 0.3, "bloom": 0.3}
SAVINGS |= dict.fromkeys(["rewriting", "llama-longrope", "gpt_neo", "blenderbot"], 0)


def short_and_long(short, others):
    return [*short, *(pytest.param(name, marks=pytest.mark.long) for name in others)]


@pytest.mark.parametrize("name", short_and_long(list(SAVINGS)[:5], list(SAVINGS)[5:]))
def test_replies_are_those_without_kept_states(name, tmp_path, monkeypatch):
    kind = "encoder-decoder" if name == "blenderbot" else "causal"
    engine, requests = LocalEngine(as_loaded(*model_and_tokenizer(name), kind=kind)), first_turn(name)
    shards, read, _ = converse(engine, tmp_path / "kept", requests, monkeypatch)
    expected, anew, _ = converse(engine, tmp_path / "anew", requests, monkeypatch, forget=range(1, TURNS + 1))
    assert shards == expected
    assert len(shards) == TURNS
    assert sum(read) <= (1 - SAVINGS[name]) * sum(anew)


OTHERS = ["llama", "mamba", *list(CHANGES)[1:], "deepseek_v32", "jamba"]


@pytest.mark.parametrize("name", short_and_long(["gemma2"], OTHERS))
def test_each_turn_has_the_tokens_of_plain_calls(name, tmp_path, monkeypatch):
    engine = LocalEngine(as_loaded(*model_and_tokenizer(name)))
    batches = []

    def recorded(model, contexts, *arguments):
        batches.append((contexts, decode(model, contexts, *arguments)))
        return batches[-1][1]

    monkeypatch.setattr(decoding_shards, "decode", recorded)
    converse(engine, tmp_path, first_turn(name, Decoding(max_new_tokens=8)), monkeypatch)
    replies = [(context, reply.tokens) for batch in batches for context, reply in zip(*batch, strict=True)]
    assert max(len(context) for context, _ in replies) > 80  # beyond the changes
    for context, tokens in replies:
        for number, token in enumerate(tokens):
            read = torch.tensor([[*context, *tokens[:number]]])
            with torch.inference_mode():
                logits = engine.loaded.model(input_ids=read, use_cache=False).logits[0, -1]
            assert logits[token] > logits.max() - 1e-3


def test_replies_do_not_depend_on_what_is_kept(tmp_path, monkeypatch):
    """Nothing is kept after an interruption, and as many tokens as fit into a quarter of the memory."""
    engine, requests = LocalEngine(as_loaded(*model_and_tokenizer("llama"))), first_turn("llama", number=10)
    whole, _, kept = converse(engine, tmp_path / "whole", requests, monkeypatch)
    assert kept == [10, 10, 0]
    assert converse(engine, tmp_path / "interrupted", requests, monkeypatch, forget=[3])[0] == whole
    memory = psutil.virtual_memory()
    monkeypatch.setattr(decoding_shards, "fitting_batch_size", lambda *_: 4)
    for tokens, expected in ((0, [0, 0, 0]), (150, [6, 3, 0])):
        free = memory._replace(available=tokens * 4 * 4 * 2 * 16 * 2)  # a quarter; two layers, 16 keys and values each
        monkeypatch.setattr(psutil, "virtual_memory", lambda free=free: free)
        shards, _, kept = converse(engine, tmp_path / str(tokens), requests, monkeypatch)
        assert (shards, kept) == (whole, expected)


def test_the_model_reads_only_what_is_unknown():
    model, _ = small_model("llama")
    rng = np.random.default_rng(0)
    contexts = [rng.integers(4, 400, length).tolist() for length in (20, 24, 17, 23, 9)]
    contexts.append(contexts[0])
    # The whole context, its beginning, other tokens after its beginning, a text that continues it, and nothing.
    known = [contexts[0], contexts[1][:20], [*contexts[2][:14], 3, 3, 3, 3], [*contexts[3], 5], None, contexts[0]]
    states, expected = [], []
    with torch.inference_mode():
        for context, text in zip(contexts, known, strict=True):
            earlier = Forward(model, [text or [4]])
            earlier.first()
            states.append(None if text is None else earlier.states_of(0))
            alone = Forward(model, [context])
            expected.append(torch.cat([alone.first(), alone.next(torch.tensor([7]))]))
        sets = ([0, 1, 2, 3, 4, 5], 24 - 9), ([0, 1, 2, 3, 5], 24 - 4), ([0, 5], 19), ([2], 14), ([4], 0)
        for rows, num_known in sets:
            together = Forward(model, [contexts[row] for row in rows], states=[states[row] for row in rows])
            assert together.num_known == num_known
            found = torch.stack([together.first(), together.next(torch.full((len(rows),), 7))], 1)
            torch.testing.assert_close(found, torch.stack([expected[row] for row in rows]), atol=1e-4, rtol=0)


def test_a_close_decision_is_made_without_kept_states(monkeypatch):
    model, _ = small_model("llama")
    context = list(range(40, 60))
    with torch.inference_mode():
        earlier = Forward(model, [context])
        earlier.first()
        tokens, layers = earlier.states_of(0)
        wrong = States(tokens, {index: (values, keys) for index, (keys, values) in layers.items()})
        (unlike,) = decode(model, [context], Decoding(max_new_tokens=6), EndTokens(dropped=()), states=[wrong])
        for end in ((), unlike.tokens[2:3]):  # all decisions are close, or those of a reply that ends early
            ends = EndTokens(dropped=tuple(end))
            expected = decode(model, [context], Decoding(max_new_tokens=6), ends)
            assert decode(model, [context], Decoding(max_new_tokens=6), ends, states=[wrong]) != expected
            with monkeypatch.context() as patch:
                patch.setattr(decoding, "CLOSE", 1e9)
                assert decode(model, [context], Decoding(max_new_tokens=6), ends, states=[wrong]) == expected
