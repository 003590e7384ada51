"""Models of well-known shapes with random weights, their tokenizer and prompts. Nothing is downloaded."""

from collections import Counter
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from hb_dataset import load_table
from hb_metrics.collect.replies.decoding_settings import decoding_preset
from hb_metrics.collect.replies.prompt_replies import ReplyPlan, plan_replies
from hb_metrics.collect.replies.requests import make_requests
from hb_metrics.models.layout import Layout
from hb_metrics.models.loading import LoadedModel, load_model

END = "<|endoftext|>"  # also starts and pads texts, so no other special token can end a reply
Found = dict[str, Any]


class Skip(Exception):
    """A part that cannot run here; the message is the reason."""


class OutOfTime(BaseException):
    """Not an Exception: some of those are answers to the product."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Where the stages run, whether on tiny models, the embedded model's folder, and the seconds that the stage has."""

    device: str
    tiny: bool = False
    embedded: str | None = None
    seconds: float = field(default=60, compare=False)

    def number(self, whole: int, tiny: int) -> int:
        """The number of texts or tokens, by the size of the models."""
        return tiny if self.tiny else whole


# From the config.json of each model.
SHAPES: dict[str, dict[str, Any]] = {
    "llama-3.1-8b": {
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    },
    "qwen3-0.6b": {
        "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "head_dim": 128,
        "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 151936, "tie_word_embeddings": True,
    },
    "gpt-oss-20b": {
        "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 24,
        "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 201088,
        "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128,
    },
}  # fmt: skip
LARGE, EMBEDDED = "llama-3.1-8b", "embedded"
NAMES = (EMBEDDED, *SHAPES)
_TINY = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 1024, "num_local_experts": 4, "num_experts_per_tok": 2,
}  # fmt: skip


def attentions_of(name: str) -> tuple[str, ...]:
    """The attentions that a model can have; the first is the default."""
    sdpa = () if name == "gpt-oss-20b" else ("sdpa",)  # which lacks its attention sinks
    return (*sdpa, "eager", "flash_attention_2")


@lru_cache(maxsize=1)  # parts that need the same model come one after the other
def build(
    setting: Setting, name: str, dtype: str = "float32", *, attention: str | None = None, all_layers: bool = False
) -> LoadedModel:
    """Makes a model of a shape on the setting's device, or loads the embedded one."""
    attention = attention or attentions_of(name)[0]
    if name == EMBEDDED:
        if setting.embedded is None:
            raise Skip("--embedded was not given")
        loaded = load_model(setting.embedded, dtype=dtype, device=setting.device)
        loaded.model.set_attn_implementation(attention)
        return loaded
    # Checks have four layers, because all would take too much memory in float32.
    settings = SHAPES[name] | ({} if all_layers else {"num_hidden_layers": 4})
    if setting.tiny:
        settings |= {key: value for key, value in _TINY.items() if key in settings}
    # Weights of this size give logits that differ by a few units at any width, so wrong masks and positions show.
    settings["initializer_range"] = 1.3 / settings["hidden_size"] ** 0.5
    config = AutoConfig.for_model(**settings, bos_token_id=0, eos_token_id=0, pad_token_id=None)
    torch.manual_seed(0)
    with torch.device(setting.device):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=attention).eval()
    tokenizer = make_tokenizer(config.vocab_size)
    about = {"kind": "causal", "name": name, "source": name, "revision": None, "digest": name}
    return LoadedModel(model=model, tokenizer=tokenizer, config=config, dtype=dtype, **about)


@cache
def make_tokenizer(size: int) -> PreTrainedTokenizerFast:
    """A tokenizer of the most frequent words of v1.0-small, filled up with made-up words to a vocabulary of a size."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({END: 0}, unk_token=END))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    counts: Counter[str] = Counter()
    for text in load_table("v1.0-small")["text"].to_pylist():
        counts.update(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text))
    words = [END, *(word for word, _ in counts.most_common(size - 1))]
    words += [f"w{number}" for number in range(len(words), size)]
    tokenizer.model = models.WordLevel({word: number for number, word in enumerate(words)}, unk_token=END)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=END, eos_token=END, pad_token=END)


_all_prompts = cache(load_table)


def prompts(setting: Setting, number: int) -> pa.Table:
    """That many prompts of v1.0 (of v1.0-small, if tiny), drawn at random; at most all."""
    table = _all_prompts("v1.0-small" if setting.tiny else "v1.0")
    return table.take(pa.array(np.sort(np.random.default_rng(0).permutation(len(table))[:number])))


def plan_of(loaded: LoadedModel, table: pa.Table, preset: str, tokens: int, *, least: int = 0) -> ReplyPlan:
    """Plans whole replies of at most `tokens` tokens."""
    decoding = decoding_preset(preset, extent="whole", max_new_tokens=tokens, min_new_tokens=least)
    return plan_replies(make_requests(table, decoding=decoding, layout=Layout("plain"), extent="whole"), loaded)
