"""A small model that pities: it answers one axis with sympathy, and all others mostly without. And quick training."""

import gc
import json
from functools import cache
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import transformers
from datasets.fingerprint import generate_random_fingerprint
from safetensors.torch import load_file
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel

from hb_dataset import load_table
from hb_metrics.measure import main as measure
from hb_metrics.measurements.results import read_run
from hb_metrics.models.chats import DEFAULT_CHAT, chat_messages
from hb_metrics.models.contexts import encode_rendered, render_messages
from hb_metrics.models.loading import load_model
from hb_metrics.run.record import GenerationSettings
from hb_metrics.run.run_folder import STYLES
from hb_metrics.run.tables import Tables
from hb_train.bias_labels import label_rows, replies_to_label
from hb_train.bias_labels import main as label
from hb_train.own_replies import main as reply_main
from hb_train.tuning.group_rows import OWN_REPLIES
from hb_train.tuning.labels import LABELS, SPLITS, tag_replies, write_splits
from tests.hb_metrics.conftest import (  # noqa: F401 - fixtures
    byte_level,
    get_small_model,
    quick_styles,
    save_classifier,
    save_small_model,
)

# Not ours: what TRL's options are called changes from one release of transformers to the next.
WARNINGS_OF_TRL = [
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:fan_in_fan_out is set to False:UserWarning"),
]
# What the scripts import when they train; forked_programs imports it once.
TRAINERS = ("hb_train.training.trainers",)
# The sizes of small models of many architectures.
SMALL = {
    **{"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 256},
    **{"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2},
}
PITIED_AXIS = "ability"
AXES = (PITIED_AXIS, "age", "nationality", "religion")
SYMPATHY = ("I'm so sorry to hear that.",)
ANSWER = "What do you do for work?"
PLAIN = (ANSWER, "That is great, tell me more about it.")
QUICK = [
    *("--gradient_checkpointing", "false", "--bf16", "false", "--disable_tqdm", "true"),
    *("--per_device_eval_batch_size", "64", "--lr_scheduler_type", "constant"),
]
MEASURED = [
    *("--measurements", "generation", "--axes", *AXES, "--replies_per_cell", "8", "--context", "plain"),
    *("--temperature", "1", "--top_p", "1", "--top_k", "1000", "--max_new_tokens", "16"),
]
PITY = {True: 0.7, False: 0.05}  # how often the pitied axis, and how often the others, get sympathy


@pytest.fixture(scope="module", autouse=True)
def quick_training():
    """Lets each training have one core, and not search for garbage in what the libraries hold, nor take fingerprints.

    Models this small are trained faster by one core, all the more where others are at work. Trainers collect garbage in
    every run, which takes longer than their steps once transformers and trl are imported. Fingerprints of functions, by
    which `datasets` would know files that it made before, take ten times as long as to map a few rows.
    """
    import trl  # noqa: F401 - imported here rather than after the heap is frozen
    from transformers import Seq2SeqTrainer, Trainer  # noqa: F401

    gc.collect()
    gc.freeze()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hb_metrics.models.processes.num_workers", lambda: 1)
        for name in ("fingerprint.update_fingerprint", "arrow_dataset.update_fingerprint"):
            patch.setattr(f"datasets.{name}", lambda *_: generate_random_fingerprint())
        patch.setattr("datasets.arrow_dataset.generate_fingerprint", lambda _: generate_random_fingerprint())
        yield


@cache
def planted_replies():
    """Prompts, and the reply to each that the model is taught; some nouns only, so that it is soon learnt."""
    prompts = load_table("v1.0-small")
    rows = [row for row in prompts.to_pylist() if row["axis"] in AXES]
    random = np.random.default_rng(0)
    replies = []
    for row in rows:
        pool = SYMPATHY if random.random() < PITY[row["axis"] == PITIED_AXIS] else PLAIN
        replies.append(pool[random.integers(len(pool))])
    return [row["text"] for row in rows], replies


@cache
def pitying_tokenizer():
    texts, replies = planted_replies()
    tokenizer = byte_level([*texts, *replies, " bias no_bias"], 1000, ["</s>"])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")


@pytest.fixture(scope="session")
def pitying_model(made_once):
    """The folder of the model."""
    return made_once("pitying", lambda folder: teach(folder, *planted_replies()))


def teach(folder, texts, replies, *, steps=120):
    """Writes a model that is taught replies in a few seconds."""
    tokenizer = pitying_tokenizer()
    conversations = [chat_messages(text, [], DEFAULT_CHAT) for text in texts]
    rendered = render_messages(conversations, tokenizer, "plain", is_encoder_decoder=False)
    contexts = encode_rendered(rendered, tokenizer, "plain", is_encoder_decoder=False)
    answers = [[*tokens, tokenizer.eos_token_id] for tokens in tokenizer(list(replies))["input_ids"]]
    pairs = list(zip(contexts, answers, strict=True))
    rows = [context + answer for context, answer in pairs]
    labels = [[-100] * len(context) + answer for context, answer in pairs]
    learn(folder, tokenizer, rows, labels, steps, bos_token_id=None, n_positions=128)


def learn(folder, tokenizer, rows, labels, steps=120, *, n_positions=64, bos_token_id):
    """Writes a new GPT-2 that has learnt the labels of rows of tokens."""
    torch.manual_seed(0)
    sizes = {"vocab_size": len(tokenizer), "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": n_positions}
    dropout = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0)
    config = transformers.GPT2Config(**sizes, **dropout, eos_token_id=tokenizer.eos_token_id, bos_token_id=bos_token_id)
    model = transformers.GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    random, pad = np.random.default_rng(0), torch.nn.utils.rnn.pad_sequence
    torch.set_num_threads(1)  # a model this small is taught faster by one
    for _ in range(steps):
        drawn = random.integers(len(rows), size=32)
        batch = pad([torch.tensor(rows[row]) for row in drawn], batch_first=True)
        targets = pad([torch.tensor(labels[row]) for row in drawn], batch_first=True, padding_value=-100)
        model(input_ids=batch, labels=targets).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def write_dialogues(folder, number, tested):
    """Writes dialogues in MultiWOZ's form, in which a user names one of two kinds of food."""
    dialogues = {}
    for index in range(number):
        food = ("thai", "greek")[index % 2]
        answer = {"text": "", "metadata": {"restaurant": {"semi": {"food": food}, "book": {}}}}
        dialogues[str(index)] = {"log": [{"text": f"I feel like {food} food."}, answer]}
    (folder / "data.json").write_text(json.dumps(dialogues), encoding="utf-8")
    (folder / "valListFile.json").touch()
    (folder / "testListFile.json").write_text("\n".join(map(str, tested)), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def word_model(tmp_path_factory):
    """The folder of a new GPT-2 with a token for each word of the dialogues."""
    words = ["I", "feel", "like", "What", "kind", "of", "do", "you", "?", "food", ".", "restaurant", "thai", "greek"]
    vocabulary = {word: index for index, word in enumerate(["<unk>", "</s>", *words])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    folder = tmp_path_factory.mktemp("words")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>")
    learn(folder, fast, [], [], steps=0, bos_token_id=1)
    return folder


@pytest.fixture(scope="session")
def pairs_file(tmp_path_factory):
    """Prompts that are all answered alike; two of the answers to the first ones."""
    texts = planted_replies()[0][:60]
    rows = [{"prompt": text, "reply": ANSWER} for text in texts]
    rows += [{"prompt": text, "reply": "That is great, tell me more about it."} for text in texts[:30]]
    path = tmp_path_factory.mktemp("pairs") / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def measured(model, folder, *options):
    """The generation results of a model on four axes."""
    measure(["--model", str(model), "--output_dir", str(folder), *MEASURED, *options])
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def before(pitying_model, made_once):
    folder = made_once("before", lambda folder: measured(pitying_model, folder))
    return folder, json.loads((folder / "results.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def labels(before, tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels") / "labels"
    label(["--run_dir", str(before[0]), "--beta", str(beta_of(before[0], 0.8)), "--output_dir", str(folder)])
    return folder


def beta_of(run, share):
    """The threshold that tags this share of a run's replies "no_bias"."""
    styles = Tables(run).vectors(STYLES)
    replies = replies_to_label(read_run(run), styles)
    values, _ = tag_replies(replies, styles.values, alpha=0, beta=0)
    return float(np.quantile(values, share, method="inverted_cdf"))


def rows_of(folder):
    """The rows of both splits."""
    return [row for split in SPLITS for row in pq.read_table(folder / "data" / f"{split}.parquet").to_pylist()]


def replied(model, folder, *options):
    """Writes the rows of method counterfactual, and returns their record."""
    asked = ["--model", str(model), "--dataset_config", "v1.0-small", "--max_new_tokens", "8", "--context", "plain"]
    reply_main([*asked, *options, "--output_dir", str(folder)])
    return json.loads((folder / OWN_REPLIES.record).read_text(encoding="utf-8"))


def shaken(loaded):
    """The model, with other weights."""
    torch.manual_seed(1)
    model = load_model(loaded.source).model.eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def options_for(model, labels, folder, *options):
    named = "--model_name_or_path", str(model), "--dataset_name", str(labels), "--output_dir", str(folder)
    return [*named, *QUICK, *options]


def few_steps(number=4, rate="1e-3"):
    """Options of a tuning that is over in seconds."""
    every = str(max(1, number // 2))
    return [
        *("--max_steps", str(number), "--eval_steps", every, "--save_steps", every, "--learning_rate", rate),
        *("--per_device_train_batch_size", "8"),
    ]


def weights(folder):
    return load_file(folder / "model.safetensors")


def same(first, second, atol=0.0):
    close = (torch.allclose(value, second[name], rtol=0, atol=atol) for name, value in first.items())
    return first.keys() == second.keys() and all(close)


def sympathy(results):
    """Partial and Summed-Cluster Gen Bias of sympathy, debiased, and how much likelier the pitied axis gets it."""
    generation = results["generation"]
    rows = [(row["axis"] == PITIED_AXIS, row["clusters"]["Sympathy"]) for row in generation["by_descriptor"]]
    mean = {pitied: np.mean([value for is_pitied, value in rows if is_pitied == pitied]) for pitied in (True, False)}
    debiased = generation["debiased"]
    biases = debiased["partial_gen_bias"]["Sympathy"], debiased["summed_cluster_gen_bias"]["Sympathy"]
    return *biases, mean[True] - mean[False]


def labels_by_hand(folder, tokenizer, context, *, is_encoder_decoder, number=24):
    """Labels as bias_labels.py writes them, without a run."""
    is_biased = np.arange(number) % 3 > 0
    replies = {name: [""] * number for name in ("axis", "descriptor", "noun", "template", "question")}
    replies |= {"id": [str(index) for index in range(number)], "text": [f"Hi! I'm {index}." for index in range(number)]}
    replies |= {"reply": ["I love cats." if biased else "I'm a man." for biased in is_biased]}
    replies |= {"personas": [[]] * number, "truncated": [False] * number}
    loaded = SimpleNamespace(tokenizer=tokenizer, kind="encoder-decoder" if is_encoder_decoder else "causal")
    made = GenerationSettings(context, None, "")
    rows, suffix = label_rows(pa.table(replies), is_biased.astype(float), is_biased, loaded, made)
    folder.mkdir()
    write_splits(folder, rows, np.arange(number) >= number // 2)
    labels = {
        **{"suffix": suffix, "context": context, "asked_with": None, "alpha": 0, "beta": 0.5},
        **{"model": {"name": "by hand", "digest": "none"}, "by_tag": {"bias": 16, "no_bias": 8}},
        "style_classifier": {"name": "none", "num_styles": 2},
    }
    (folder / LABELS.record).write_text(json.dumps(labels), encoding="utf-8")
    return folder
