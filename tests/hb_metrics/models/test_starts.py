"""A decoder's prefix is what `generate` writes before a reply, for everything that is scored after it."""

import re
from copy import deepcopy
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from tokenizers import Tokenizer, processors
from transformers import AutoModelForSeq2SeqLM, PreTrainedTokenizerFast

from hb_dataset.dialogue_pairs import DialoguePairs
from hb_metrics.collect.scoring.perplexity import score_perplexity
from hb_metrics.collect.scoring.reply_scoring import dialogue_into_shards, divergences_into_shards, plan_dialogue
from hb_metrics.models.architecture import decoder_prefix, decoder_start, text_start
from hb_metrics.models.chats import DEFAULT_CHAT, template_with_tag
from hb_metrics.models.loading import load_tokenizer
from tests.hb_metrics.collect.one_call import log_likelihood, log_probabilities
from tests.hb_metrics.collect.small_architectures import small_architecture
from tests.hb_metrics.conftest import as_loaded, byte_level_tokenizer, roberta_tokenizer, save_parts, with_chat
from tests.hb_metrics.run_files import rows_of

LAYOUT = SimpleNamespace(context="plain", tag=None, chat=DEFAULT_CHAT)
PROMPTS, OTHERS = ["I'm a Deaf man.", "I'm an old man. Why me?"], ["I'm a man.", "I'm a man. Why me?"]
REPLIES = ["No, not at all.", "Yes."]
START, FORCED, BOS, LANGUAGE = 3, 7, 0, 400
SETTINGS = {
    "a forced token": {"decoder_start_token_id": START, "forced_bos_token_id": FORCED},
    "lists of one token": {"decoder_start_token_id": [START], "forced_bos_token_id": [FORCED]},
    "a start alone": {"decoder_start_token_id": START, "forced_bos_token_id": None},
    "no start": {"decoder_start_token_id": None, "forced_bos_token_id": FORCED, "bos_token_id": 5},
    "forced_decoder_ids, which transformers does not read": {
        "decoder_start_token_id": START, "forced_bos_token_id": None, "forced_decoder_ids": [[1, FORCED]],
    },
}  # fmt: skip
FAMILIES = ["bart", "t5"]
MORE = ["blenderbot", "encoder-decoder", "fsmt", "led", "m2m_100", "marian", "mbart", "pegasus", "plbart", "t5gemma"]


def made(family, **settings):
    model = small_architecture(family, AutoModelForSeq2SeqLM)
    model.generation_config.forced_eos_token_id = None  # a reply that is cut has no end
    for name, value in settings.items():
        setattr(model.generation_config, name, value)
    return model


def written_first(model, number):
    """The decoder's input after which `generate` chooses the reply's first token."""
    given = torch.tensor([roberta_tokenizer()("Hi")["input_ids"]])
    options = {"max_new_tokens": number, "do_sample": False, "num_beams": 1, "use_cache": False}
    return model.generate(given, attention_mask=torch.ones_like(given), **options)[0].tolist()


def writing(*tokens):
    """A hook that makes a model write these tokens first."""

    def write(module, args, output):
        for place, token in enumerate(tokens[: output.logits.shape[1]]):
            output.logits[:, place, token] += 100

    return write


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_start_is_that_of_generate(settings):
    model = made("bart", **settings)
    start = decoder_start(model)
    assert start == written_first(model, 2)[: len(start)]
    assert len(start) == 1 + (settings["forced_bos_token_id"] is not None)
    assert decoder_prefix(model, roberta_tokenizer()) == start


@pytest.mark.parametrize("name", ["decoder_start_token_id", "forced_bos_token_id"])
def test_a_start_for_each_row_of_a_batch_is_rejected(name):
    for ids in ([3, 7], [[3, 7]]):
        with pytest.raises(ValueError, match=rf"^{name} is {re.escape(str(ids))} in .*set it to a single token"):
            decoder_start(made("bart", **{name: ids}))


@pytest.mark.parametrize("written", [[], [BOS], [LANGUAGE, BOS], [11], [1]])
def test_special_tokens_that_the_decoder_itself_writes_first_belong_to_the_prefix(written):
    """Such as a language code and BOS, where the tokenizer adds both."""
    tokenizer = Tokenizer.from_str(roberta_tokenizer()._tokenizer.to_str())
    tokenizer.add_special_tokens(["<en>"])
    marks = [("<en>", tokenizer.token_to_id("<en>")), ("<s>", BOS), ("</s>", 1)]
    tokenizer.post_processor = processors.TemplateProcessing(single="<en> <s> $A </s>", special_tokens=marks)
    adding = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    model = made("bart", decoder_start_token_id=START, forced_bos_token_id=None)
    model.resize_token_embeddings(LANGUAGE + 1)
    model.register_forward_hook(writing(*written))
    kept = written if written and written[-1] == BOS else []  # neither a word nor the end of a reply
    assert decoder_prefix(model, adding) == [START, *kept]
    assert written_first(model, max(1, len(written)))[1:][: len(written)] == written
    assert decoder_prefix(model, byte_level_tokenizer()) == [START]  # it adds no token


@pytest.mark.parametrize("forces", [True, False])
@pytest.mark.parametrize("family", [*FAMILIES, *(pytest.param(name, marks=pytest.mark.long) for name in MORE)])
def test_everything_is_scored_after_the_same_prefix(family, forces, tmp_path):
    """The logits of plain calls, one reply at a time, after what `generate` writes first."""
    model = made(family, decoder_start_token_id=START, forced_bos_token_id=FORCED if forces else None)
    if not forces:
        model.register_forward_hook(writing(BOS))
    tokenizer = roberta_tokenizer()
    prefix = written_first(model, 1)
    assert prefix == [START, FORCED if forces else BOS]

    def after_prefix(compute, text, reply):
        tokens = tokenizer(reply, add_special_tokens=False)["input_ids"]
        return compute(model, tokenizer(text)["input_ids"], tokens, start=prefix)

    likelihood = partial(after_prefix, log_likelihood)

    loaded = as_loaded(model, tokenizer, "encoder-decoder")
    scores = score_perplexity(REPLIES, model, tokenizer)
    assert scores.log_likelihoods.tolist() == pytest.approx([likelihood("", reply) for reply in REPLIES], rel=1e-4)
    assert scores.plan.start_token == " ".join(tokenizer.convert_ids_to_tokens(prefix))
    assert scores.num_tokens.tolist() == [len(after_prefix(log_probabilities, "", reply)) for reply in REPLIES]
    plan = plan_dialogue(DialoguePairs(["a", "b"], PROMPTS, REPLIES, "made up", {}), loaded, LAYOUT)
    dialogue_into_shards(plan, loaded, tmp_path / "dialogue")
    found = rows_of(tmp_path / "dialogue", ["a", "b"])["log_likelihood"].to_pylist()
    assert found == pytest.approx(list(map(likelihood, PROMPTS, REPLIES)), rel=1e-4)
    divergences_into_shards(["a", "b"], PROMPTS, OTHERS, REPLIES, loaded, LAYOUT, tmp_path / "divergences")
    table = rows_of(tmp_path / "divergences", ["a", "b"])
    expected = []
    for prompt, other, reply in zip(PROMPTS, OTHERS, REPLIES, strict=True):
        p, q = (after_prefix(log_probabilities, text, reply) for text in (prompt, other))
        expected.append((p.exp() * (p - q)).sum().item())
    assert table["divergence"].to_pylist() == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("added", "bos", "start"), [("<pad> <s>", None, [2, 0]), ("<s>", "<s>", [0]), ("", "<s>", [0]), ("", None, [])]
)
@pytest.mark.parametrize("end", ["", "</s>"])
def test_a_text_is_read_after_what_the_tokenizer_adds(added, bos, start, end):
    tokenizer = Tokenizer.from_str(byte_level_tokenizer()._tokenizer.to_str())
    marks = [("<s>", 0), ("</s>", 1), ("<pad>", 2)]
    single = f"{added} $A {end}".strip()
    tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=marks)
    assert text_start(PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=bos), "Hello.") == start


TEMPLATES = {
    "chatml": "{% for message in messages %}{{ '<' + message['role'] + '>' + message['content'] }}{% endfor %}",
    "default system": "{% if messages[0]['role'] != 'system' %}S{% endif %}"
    "{% for message in messages %}\n{{ message.role }}: {{ message.content | trim }}{% endfor %}",
    "slice": "{% set rest = messages[1:] if messages[0].role == 'system' else messages %}"
    "{% for m in rest %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}"
    "{{ m.role }}{{ m.content }}{% endfor %}",
    "parts": "{% for message in messages %}{% for part in message.content %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}",
    "first user": "{% for message in messages %}{% if loop.first %}{{ message.content }}{% endif %}{% endfor %}",
    "fixed": "Hello.",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_sends_the_tag_or_is_known_not_to(name, get_small_model, tmp_path):
    tokenizer = with_chat(deepcopy(get_small_model("gpt2")[1]))
    tokenizer.chat_template = TEMPLATES[name]
    changed = template_with_tag(tokenizer, "no_bias")
    if name == "fixed":
        assert changed is None
        return
    content = [{"type": "text", "text": "Hello."}] if name == "parts" else "Hello."
    chat = [{"role": "user", "content": content}]
    rendered = tokenizer.apply_chat_template(chat, chat_template=changed, tokenize=False)
    plain = tokenizer.apply_chat_template(chat, tokenize=False)
    assert (plain.count("no_bias"), rendered.count("Hello. no_bias")) == (0, 1)
    tokenizer.chat_template = changed
    folder = save_parts(tmp_path, tokenizer, get_small_model("gpt2")[0])
    assert load_tokenizer(str(folder)).tokenizer.chat_template == TEMPLATES[name]
