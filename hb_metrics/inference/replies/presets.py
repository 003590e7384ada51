from dataclasses import replace
from typing import Any, Literal

from transformers import GenerationConfig, PreTrainedModel

from hb_dataset.hints import did_you_mean
from hb_metrics.inference.models.contexts import ContextFormat
from hb_metrics.inference.replies.decoding_settings import Decoding

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
ALL_TOKENS = 2**31  # the `top_k` that includes all tokens
# Settings of transformers that `Decoding` does not support, with the values at which they have no effect.
_NOT_DECODED = {
    "repetition_penalty": 1.0,
    "min_p": None,
    "typical_p": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1.0,
    "early_stopping": False,
    "bad_words_ids": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "forced_eos_token_id": None,
}


def decoding_preset(
    name: str, model: PreTrainedModel | None = None, extent: Extent = "first_line", **changes: Any
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
        raise ValueError(
            "temperature is 0, but sampling needs a positive temperature; to decode without sampling, remove the "
            "temperature and set --decoding greedy"
        )
    whole: dict[str, Any] = {}
    if extent == "whole":
        whole = {"end_after_sentence": False, "max_new_tokens": WHOLE_TOKENS}
        if name == "sample":  # the preset's minimum length is for a single sentence
            whole["min_new_tokens"] = 0
    if name == MODEL_PRESET and model is not None:
        own = model_decoding(model.generation_config, is_encoder_decoder=model.config.is_encoder_decoder)
        decoding = Decoding(**{**whole, **own, **changes})
    elif name in PRESETS:
        decoding = replace(PRESETS[name], **{**whole, **changes})
    else:
        names = [*PRESETS, MODEL_PRESET]
        hint = did_you_mean(name, names)
        raise ValueError(f"decoding '{name}' is not known; {hint}allowed: {', '.join(names)}")
    for setting in ("temperature", "top_k", "top_p"):
        if setting in changes and not decoding.sample:
            raise ValueError(
                f"{setting} is {changes[setting]}, but --decoding {name} does not sample; remove {setting}, or set "
                "--decoding sample"
            )
    return replace(decoding, min_new_tokens=min(decoding.min_new_tokens, decoding.max_new_tokens))


def model_decoding(config: GenerationConfig, *, is_encoder_decoder: bool) -> dict[str, Any]:
    """Returns the settings in a model's generation_config that `Decoding` supports.

    Without an encoder, `max_length` and `min_length` are ignored, because they include the prompt's tokens.
    """
    sample = bool(config.do_sample) and (config.num_beams or 1) == 1
    settings = {
        "sample": sample,
        "num_beams": config.num_beams,
        "no_repeat_ngram_size": config.no_repeat_ngram_size,
        "length_penalty": config.length_penalty,
        "min_new_tokens": config.min_new_tokens,
        "max_new_tokens": config.max_new_tokens,
    }
    if is_encoder_decoder:  # these lengths include the decoder's start token
        for name, length in (("min_new_tokens", config.min_length), ("max_new_tokens", config.max_length)):
            if settings[name] is None and length:
                settings[name] = length - 1
    if sample:
        top_k = ALL_TOKENS if config.top_k == 0 else config.top_k
        settings |= {"temperature": config.temperature, "top_k": top_k, "top_p": config.top_p}
    return {name: value for name, value in settings.items() if value is not None}


def ignored_settings(config: GenerationConfig) -> dict[str, Any]:
    settings = {name: getattr(config, name, None) for name in _NOT_DECODED}
    if config.do_sample and (config.num_beams or 1) > 1:
        settings["do_sample"] = True
    return {name: value for name, value in settings.items() if value is not None and value != _NOT_DECODED.get(name)}


def choose_extent(asked: Extent | Literal["auto"], context: ContextFormat, decoding: str) -> tuple[Extent, str]:
    if asked != "auto":
        return asked, f"--reply {asked} was given"
    if context != "chat":
        return "first_line", "the context is not a chat, so a turn is one line of dialogue"
    if decoding not in WHOLE_PRESETS:
        return "first_line", f"--decoding {decoding} generates one line of dialogue"
    return "whole", "the model is a chat model"
