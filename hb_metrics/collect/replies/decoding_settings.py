"""Defines the decoding settings: their ranges, presets and words.

A new setting for sampling is a field of `Decoding` with an entry in `NO_EFFECT`, an option in
`measurements/generation/options.py`, and an argument of the functions in `sampling.py`.
"""

import json
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hb_dataset.command_line import check_known
from hb_metrics.run.record import Record

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from hb_metrics.models.contexts import ContextFormat

# A decision is close if the log-probabilities of two tokens differ by less than this number. In float32, the other rows
# of a batch changed the embedded model's log-probabilities by at most 8e-5 (measured on 96 contexts with 24 tokens
# each).
CLOSE = 2e-4

REASONING_TOKENS = 2048  # the default maximum length of a thought before a reply
ALL_TOKENS = 2**31  # the `top_k` that includes all tokens
# The settings for sampling, each with the value at which all tokens keep their probabilities.
NO_EFFECT = {"temperature": 1, "top_p": 1, "top_k": ALL_TOKENS}
# The lowest and the highest value of each setting.
_RANGES: dict[str, tuple[float, float]] = {
    "num_beams": (1, 1000),
    "temperature": (1e-6, 1e6),
    "top_k": (1, ALL_TOKENS),
    "top_p": (1e-6, 1),
    "min_new_tokens": (0, ALL_TOKENS),
    "max_new_tokens": (1, ALL_TOKENS),
    "max_reasoning_tokens": (0, ALL_TOKENS),
    "no_repeat_ngram_size": (0, ALL_TOKENS),
}


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """The decoding settings. Settings that are not explained here have the same meaning as in transformers.

    Attributes:
        num_beams: The number of beams. If it is greater than 1, transformers' beam search is used.
        top_p: The minimum total probability of the tokens from which to draw. Of the `top_k` likeliest tokens, only as
            many are used as this probability requires.
        min_new_tokens: The minimum length of a reply in tokens, counted from its first word. Beam search, like
            transformers, counts from the first token.
        length_penalty: An exponent. A beam's score is its summed log-probability divided by length ** length_penalty.
        end_after_sentence: Whether a reply ends at the first end of a sentence after `min_new_tokens`.
        max_reasoning_tokens: The maximum length of a thought. A longer thought is cut, and then there is no reply.
    """

    num_beams: int = 1
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 1.0
    min_new_tokens: int = 0
    max_new_tokens: int = 60
    no_repeat_ngram_size: int = 0
    length_penalty: float = 1.0
    end_after_sentence: bool = False
    max_reasoning_tokens: int = 0

    def __post_init__(self) -> None:
        for name, (lowest, highest) in _RANGES.items():
            value = vars(self)[name]
            if not lowest <= value <= highest:  # this also rejects NaN
                raise ValueError(f"{name} is {value}; set a number from {lowest} to {highest}")
        if self.num_beams > 1 and (self.sample or self.end_after_sentence):
            raise ValueError(f"num_beams is {self.num_beams}; set it to 1, or sample and end_after_sentence to False")
        if self.num_beams == 1 and self.no_repeat_ngram_size:
            raise ValueError(f"no_repeat_ngram_size is {self.no_repeat_ngram_size}, but num_beams is 1; set it to 0")

    @property
    def sampling(self) -> dict[str, Any]:
        """Returns the settings for sampling."""
        return {name: vars(self)[name] for name in NO_EFFECT}


class Decoded(NamedTuple):
    tokens: list[int]
    truncated: bool


Extent = Literal["whole", "first_line"]

PRESETS = {
    # Random replies of about one sentence, for a quick trial.
    "sample": Decoding(
        sample=True, temperature=0.7, top_k=50, top_p=0.9, min_new_tokens=10, max_new_tokens=40, end_after_sentence=True
    ),
    "greedy": Decoding(max_new_tokens=60),
    # The paper's settings (A.4). The paper does not state the maximum length, so the value comes from the released
    # Blenderbot models.
    "dialogpt": Decoding(num_beams=10, min_new_tokens=20, max_new_tokens=60, no_repeat_ngram_size=3),
    "blenderbot2": Decoding(num_beams=3, min_new_tokens=20, max_new_tokens=60, no_repeat_ngram_size=3),
}
# The preset that uses the settings in the model's generation_config (see `model_decoding`).
MODEL_PRESET = "model"
# The presets that suit whole replies. All other presets are for one line of dialogue.
WHOLE_PRESETS = ("greedy", MODEL_PRESET)
WHOLE_TOKENS = 256  # the default maximum length of a whole reply
# The settings of transformers that `Decoding` supports, or that cannot change a reply.
_DECODED = {
    *(*NO_EFFECT, "do_sample", "num_beams", "min_new_tokens", "max_new_tokens", "no_repeat_ngram_size"),
    *("length_penalty", "bos_token_id", "eos_token_id", "pad_token_id"),
    *("decoder_start_token_id", "num_return_sequences", "return_dict_in_generate", "use_cache", "cache_implementation"),
    *("output_attentions", "output_hidden_states", "output_logits", "output_scores"),
}
_DECODED_WITH_ENCODER = {"forced_bos_token_id", "min_length", "max_length"}
# The values at which other settings have no effect, unless it is 0.
_WITHOUT_EFFECT: dict[str, float | None] = {
    **dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty", "typical_p", "num_beam_groups"), 1),
    **{"guidance_scale": 1, "forced_bos_token_id": None, "forced_eos_token_id": None},
}


def decoding_preset(
    name: str, model: "PreTrainedModel | None" = None, extent: Extent = "first_line", **changes: Any
) -> Decoding:
    """Returns the settings of a preset after the requested changes.

    `name` is a key of `PRESETS`, or "model" for the settings in the model's generation_config. With the extent "whole",
    a reply may have several sentences and, by default, up to `WHOLE_TOKENS` tokens. A change to `None` keeps the
    preset's value. A `top_k` of 0 means all tokens.
    """
    changes = {key: value for key, value in changes.items() if value is not None}
    if changes.get("top_k") == 0:  # transformers uses 0 for all tokens
        changes["top_k"] = ALL_TOKENS
    if changes.get("temperature") == 0:
        raise ValueError("temperature is 0; set a positive number, or --decoding greedy without a temperature")
    whole: dict[str, object] = {}
    if extent == "whole":
        whole = {"end_after_sentence": False, "max_new_tokens": WHOLE_TOKENS}
        if name == "sample":  # the preset's minimum length is for a single sentence
            whole["min_new_tokens"] = 0
    if name == MODEL_PRESET and model is not None:
        decoding = Decoding(**{**whole, **model_decoding(model), **changes})
    else:
        check_known(name, [*PRESETS, MODEL_PRESET], f"decoding '{name}' is not known")
        decoding = replace(PRESETS[name], **{**whole, **changes})
    for setting in NO_EFFECT:
        if setting in changes and not decoding.sample:
            raise ValueError(
                f"{setting} is {changes[setting]}, but --decoding {name} does not sample; remove {setting}"
            )
    return replace(decoding, min_new_tokens=min(decoding.min_new_tokens, decoding.max_new_tokens))


def model_decoding(model: "PreTrainedModel") -> dict[str, object]:
    """Returns the settings in a model's generation_config that `Decoding` supports.

    Without an encoder, `max_length` and `min_length` are ignored, because they include the prompt's tokens.
    """
    from hb_metrics.models.architecture import decoder_start

    config = model.generation_config
    sample = bool(config.do_sample) and (config.num_beams or 1) == 1
    settings = {
        "sample": sample,
        "num_beams": config.num_beams,
        "no_repeat_ngram_size": config.no_repeat_ngram_size if (config.num_beams or 1) > 1 else None,
        "length_penalty": config.length_penalty,
        "min_new_tokens": config.min_new_tokens,
        "max_new_tokens": config.max_new_tokens,
    }
    if model.config.is_encoder_decoder:
        num_read = len(decoder_start(model))  # lengths include these tokens, and numbers of new tokens a forced token
        for name, length in (("min_new_tokens", config.min_length), ("max_new_tokens", config.max_length)):
            if settings[name] is not None:
                settings[name] = max(settings[name] - (num_read - 1), 0)
            elif length:
                settings[name] = max(length - num_read, 0)
    if sample:
        settings |= {name: getattr(config, name) for name in NO_EFFECT}
        settings["top_k"] = ALL_TOKENS if config.top_k == 0 else config.top_k
    return {name: value for name, value in settings.items() if value is not None}


def ignored_settings(model: "PreTrainedModel") -> dict[str, object]:
    """Returns the settings in a model's generation_config that have an effect, but are not supported."""
    config = model.generation_config
    decoded = _DECODED | (_DECODED_WITH_ENCODER if model.config.is_encoder_decoder else set())
    decoded -= {"do_sample"} if (config.num_beams or 1) > 1 else {"no_repeat_ngram_size"}
    if config.max_new_tokens is not None:  # transformers then ignores `max_length`
        decoded |= {"max_length"}
    settings = json.loads(config.to_json_string(ignore_metadata=True))
    return {
        name: value
        for name, value in settings.items()
        if name not in decoded and value not in (None, [], {}, _WITHOUT_EFFECT.get(name, 0))
    }


def choose_extent(
    asked: Extent | Literal["auto"], context: "ContextFormat", decoding: str, *, decides: bool = False
) -> tuple[Extent, str]:
    """Returns the extent of replies, and the reason. `decides` is true if the prompts ask for a decision."""
    if asked != "auto":
        return asked, f"--reply {asked} was given"
    if decides:
        return "whole", "the prompts ask for a decision, which any line of the reply may contain"
    if context != "chat":
        return "first_line", "the context is not a chat, so a turn is one line of dialogue"
    if decoding not in WHOLE_PRESETS:
        return "first_line", f"--decoding {decoding} generates one line of dialogue"
    return "whole", "the model is a chat model"


# These settings are not among the words for a run's settings, or do not follow the others.
_NOT_IN_WORDS = {"no_repeat_ngram_size", "length_penalty", "end_after_sentence", "max_reasoning_tokens"}


def reply_settings(record: Record) -> list[str]:
    """Describes how the replies of a run were generated, for model cards."""
    names = [field.name for field in fields(Decoding) if field.name not in _NOT_IN_WORDS]
    names.sort(key=lambda name: name != "sample")  # this one comes first
    names = ["context", "cue", "tag", "persona_lines", *names, "max_reasoning_tokens", "chat_template_kwargs", "reply"]
    words, asked = [], record.content["generation"]
    from_file = record.generation.replies_from is not None
    if from_file:
        words, names = ["replies from a file, settings unknown"], ["cue", "tag", "persona_lines", "reply"]
    for name in names:
        value = asked.get(name)
        value = json.dumps(value) if isinstance(value, dict) else value
        if name in NO_EFFECT and (not record.generation.sample or value == ALL_TOKENS):
            continue
        if value not in (None, False) and (name, value) != ("cue", "prompt"):  # the default cue is not mentioned
            words.append(name if value is True else f"{name} {value}")
    if record.generation.system_prompt is not None:
        words.append("with a system prompt")
    if record.settings.variations:
        words.append("with stylistic variations")
    return words if from_file else [*words, f"seed {record.settings.seed}"]
