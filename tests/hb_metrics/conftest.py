"""Small models with random weights, one for each way a model can be built, and tokenizers trained on the prompts."""

import os
from collections import Counter
from dataclasses import replace
from functools import cache, partial
from zlib import crc32

import numpy as np
import pytest
import torch
import transformers
import yaml
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers, processors, trainers
from tokenizers.models import BPE, WordPiece

from hb_dataset import load_table
from hb_metrics.collect.classifiers.classifier import Classification
from hb_metrics.collect.replies import forward
from hb_metrics.command import measuring
from hb_metrics.measurements import identity_leakage
from hb_metrics.measurements.generation import work
from hb_metrics.models.chats import DEFAULT_CHAT, chat_messages
from hb_metrics.models.contexts import encode_messages, with_tag
from hb_metrics.models.loading import LoadedModel
from hb_metrics.models.served import client

VOCABULARY_SIZE = 400
KINDS = {"t5": "encoder-decoder", "blenderbot": "encoder-decoder", "bert": "masked", "roberta": "masked"}


@cache
def sentences():
    """A few hundred prompts of several templates, each once."""
    texts = load_table("v1.0-small")["text"].to_pylist()
    return texts[:: len(texts) // 300][:300]


def encode_contexts(texts, personas, model, tokenizer, context, tag=None, chat=DEFAULT_CHAT):
    """Token ids of what the model is given for each prompt, as `render_messages` renders it."""
    chats = [chat_messages(with_tag(text, tag), lines, chat) for text, lines in zip(texts, personas, strict=True)]
    return encode_messages(chats, as_loaded(model, tokenizer), context, chat=chat)


def byte_level(texts, vocab_size, special_tokens=()):
    """Tokens of any bytes, trained on texts."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    options = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet(), "show_progress": False}
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=list(special_tokens), **options)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


@cache
def byte_level_tokenizer(bos=True):
    tokenizer = byte_level(sentences(), VOCABULARY_SIZE, ["<s>", "</s>", "<pad>", "<mask>"])
    special = {"bos_token": "<s>"} if bos else {}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", **special)


@cache
def tokenizer_of_two_starts():
    """As GLM's, which adds [gMASK]<sop>, and has no BOS token."""
    tokenizer = Tokenizer.from_str(byte_level_tokenizer(True)._tokenizer.to_str())
    marks = [("<pad>", 2), ("<s>", 0)]
    tokenizer.post_processor = processors.TemplateProcessing(single="<pad> <s> $A", special_tokens=marks)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")


CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def with_chat(tokenizer):
    """Gives a tokenizer a chat template, and its end of turn is special, but has no name, as with many chat models."""
    tokenizer.add_tokens([AddedToken(token, special=True) for token in ("<|im_start|>", "<|im_end|>")])
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


@cache
def roberta_tokenizer():
    tokenizer = Tokenizer.from_str(byte_level_tokenizer(True)._tokenizer.to_str())
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>", mask_token="<mask>"
    )


@cache
def bert_tokenizer():
    """The most frequent words, and letters for the rest: a WordPiece trainer finds other pieces in every process."""
    pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words = Counter(word for text in sentences() for word, _ in pre_tokenizer.pre_tokenize_str(text))
    letters = sorted(set("".join(words)))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    pieces += sorted(words.keys() - set(letters), key=lambda word: (-words[word], word))
    vocabulary = {piece: index for index, piece in enumerate(pieces[:VOCABULARY_SIZE])}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
ENCODER = {**SMALL, "intermediate_size": 64, "max_position_embeddings": 66}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
MAMBA = {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}
LLAMA = {**SMALL, "intermediate_size": 64, "num_key_value_heads": 2, "max_position_embeddings": 64}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 2}
BLENDERBOT = {
    "d_model": 32, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64, "decoder_start_token_id": 0,
}  # fmt: skip
MODELS = {
    "gpt2": (transformers.GPT2LMHeadModel, byte_level_tokenizer, GPT2),
    "gpt2-without-bos": (transformers.GPT2LMHeadModel, lambda: byte_level_tokenizer(bos=False), GPT2),
    "llama": (transformers.LlamaForCausalLM, byte_level_tokenizer, LLAMA),
    "glm": (transformers.LlamaForCausalLM, tokenizer_of_two_starts, LLAMA),
    "bloom": (transformers.BloomForCausalLM, byte_level_tokenizer, {"hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "mamba": (transformers.MambaForCausalLM, byte_level_tokenizer, MAMBA),
    "t5": (transformers.T5ForConditionalGeneration, roberta_tokenizer, T5),
    "blenderbot": (transformers.BlenderbotForConditionalGeneration, roberta_tokenizer, BLENDERBOT),
    "bert": (transformers.BertForMaskedLM, bert_tokenizer, ENCODER),
    "roberta": (transformers.RobertaForMaskedLM, roberta_tokenizer, ENCODER),
}
CLASSIFIERS = {
    "gpt2": (transformers.GPT2ForSequenceClassification, GPT2),
    "bert": (transformers.BertForSequenceClassification, ENCODER | {"max_position_embeddings": 64}),
    "roberta": (transformers.RobertaForSequenceClassification, ENCODER | {"pad_token_id": 2}),
}


def far_from_uniform(model):
    """Gives a model random weights with which a wrong mask or position shows."""
    with torch.no_grad():
        for weights in model.parameters():
            if weights.ndim > 1:
                weights.normal_(std=0.3)
    return model


@cache
def small_model(name, **changes):
    """A (model, tokenizer) pair, made once per process."""
    model_class, tokenizer, settings = MODELS[name]
    ids = {"vocab_size": VOCABULARY_SIZE, "eos_token_id": 1, "pad_token_id": 2}
    ids |= {} if name == "t5" else {"bos_token_id": 0}  # T5's published configs have none
    torch.manual_seed(sum(map(ord, name)))
    model = model_class(model_class.config_class(**ids, **settings | changes)).eval()
    return far_from_uniform(model), tokenizer()


def save_parts(folder, *parts):
    """Saves a model and its tokenizer in a folder, and returns it."""
    for part in parts:
        part.save_pretrained(folder)
    return folder


def as_loaded(model, tokenizer, kind="causal", name="small"):
    about = {"name": name, "source": name, "revision": None, "digest": "digest", "dtype": "float32"}
    return LoadedModel(model=model, tokenizer=tokenizer, config=model.config, kind=kind, **about)


def write_vocabulary(
    folder,
    *,
    age=("young", "old", "adult", "elderly"),
    ability=("deaf", "blind", "autistic"),
    nouns=("kid", "parent", "sibling", "friend", "guy"),
    templates=("I'm {noun_phrase}.", "I love {plural_noun_phrase}."),
):
    """A vocabulary of two axes; returns its folder."""
    files = {
        "age.yaml": {"axis": "age", "terms": [{"term": term, "bucket": "b"} for term in age]},
        "ability.yaml": {"axis": "ability", "terms": [{"term": term} for term in ability]},
        "nouns.yaml": {"nouns": [{"noun": noun, "plural": f"{noun}s"} for noun in nouns]},
        "templates.yaml": {"templates": [{"template": template} for template in templates]},
        "seat_templates.yaml": {"templates": [{"template": "This is {noun_phrase}."}]},
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(yaml.safe_dump(content))
    return folder


@pytest.fixture(scope="session")
def vocabulary(tmp_path_factory):
    """28 prompts."""
    return write_vocabulary(tmp_path_factory.mktemp("vocabulary"), nouns=("kid", "parent"))


@pytest.fixture(scope="session")
def load():
    """Gives a small model as it is once loaded, by its name."""
    return lambda name: as_loaded(*small_model(name), KINDS.get(name, "causal"), name)


@pytest.fixture(scope="session")
def saved_llama(tmp_path_factory):
    """The folder of the small model of that name."""
    return save_parts(tmp_path_factory.mktemp("model") / "llama", *small_model("llama"))


@pytest.fixture(scope="session")
def prompts():
    return sentences()


@pytest.fixture(scope="session")
def get_small_model():
    return small_model


@pytest.fixture
def save_small_model(tmp_path):
    """Saves a small model as a folder that `--model` takes, and returns its path."""
    return lambda name: save_parts(tmp_path / name, *small_model(name))


@pytest.fixture(scope="session")
def save_classifier(tmp_path_factory, get_small_model):
    """Saves a small classifier with random weights and these labels as a folder, and returns its path."""

    def save(*labels, kind="bert", pad_token=None, **settings):
        folder = tmp_path_factory.mktemp(kind)
        get_small_model(kind)[1].save_pretrained(folder)
        if pad_token is not None:
            transformers.AutoTokenizer.from_pretrained(folder, pad_token=pad_token).save_pretrained(folder)
        model_class, sizes = CLASSIFIERS[kind]
        indices = {label: index for index, label in enumerate(labels)}
        names = {"vocab_size": VOCABULARY_SIZE, "id2label": dict(enumerate(labels)), "label2id": indices}
        model = model_class(model_class.config_class(**names, **sizes | settings))
        torch.manual_seed(0)
        far_from_uniform(model).save_pretrained(folder)
        return str(folder)

    return save


def styles_by_text(labels, texts):
    """Probabilities that depend on the letters of a text, and not on what it means."""
    weights = np.stack(
        [np.random.default_rng(crc32(text.encode())).standard_gamma(0.05, len(labels)) for text in texts]
    )
    return Classification(weights / weights.sum(axis=1, keepdims=True), np.zeros(len(weights), bool))


@pytest.fixture(scope="session", autouse=True)
def quick_styles():
    """Lets runs in this process classify styles, and measure their leakage, in no time: by the letters of texts.

    Tests of training get the real styles, because they train by what texts mean.
    How to decode is tried once for models of a config and contexts about as long, except in tests of decoding.
    Runs write their report once, at the end. Clients pause for milliseconds before they ask a server again.
    """
    load, known, sentences = work.load_style_classifier, {}, identity_leakage.shipped_sentences()[::10]
    load_embedded = cache(lambda device: load("embedded", device=device))
    agrees = forward._agrees

    def try_once(model, contexts, *options):
        lengths = [len(context) for context in contexts]
        shape = len(lengths), -(-max(lengths) // 16), len({*lengths}) > 1
        key = (type(model), model.config.to_json_string(), *shape, *options[:3], len(options))
        if key not in known:
            known[key] = agrees(model, contexts, *options)
        return known[key]

    def load_quick(name, **options):
        if name != "embedded":
            return load(name, **options)
        classifier = load_embedded(options["device"])
        if "tests/hb_train/" in os.environ["PYTEST_CURRENT_TEST"]:
            return classifier
        return replace(classifier, classify_distinct=partial(styles_by_text, classifier.labels))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work, "load_style_classifier", load_quick)
        patch.setattr(identity_leakage, "shipped_sentences", lambda: sentences)
        patch.setattr(measuring, "_report_so_far", lambda *_: None)
        patch.setattr(forward, "_agrees", try_once)
        patch.setattr(client, "FIRST_PAUSE", 0.01)
        patch.setattr(client, "LONGEST_PAUSE", 0.02)
        yield
