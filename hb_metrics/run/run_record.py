"""Describes a run in words for reports and model cards.

The functions read the run's record, which is in run.json and in `results["run"]`. The descriptions do not contain
paths, because paths are private.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

_DIGEST_LETTERS = 12
_DECODING = ("sample", "num_beams", "temperature", "top_k", "top_p", "min_new_tokens", "max_new_tokens")
_REPLY_SETTINGS = (
    *("context", "cue", "tag", "persona_lines", *_DECODING),
    *("max_reasoning_tokens", "chat_template_kwargs", "reply"),
)


def model_title(model: Mapping[str, Any]) -> str:
    name, adapter = model["name"], model.get("adapter")
    return name if adapter is None else f"{name} with adapter {last_part(adapter['name'])}"


def measured_model(run: Mapping[str, Any]) -> str:
    model = run["model"]
    if model.get("served"):
        return f"{_without_path(model['name'])}, queried over HTTP (an OpenAI-compatible server)"
    digest = model["digest"][:_DIGEST_LETTERS]
    if model.get("answered_in_files"):
        return f"{_without_path(model['name'])}, measured from saved answers (digest {digest})"
    quantization, adapter = model.get("quantization"), model.get("adapter")
    if is_on_hub(model):
        words = f"commit {digest} of {model['name']}"
    elif model["name"].endswith("(embedded)"):
        words = f"{model['name']} (digest {digest})"
    else:
        words = f"a local folder, {public_name(model)} (digest {digest})"
    words += "" if quantization is None else f", quantised ({quantization})"
    if adapter is None:
        return words
    digest = adapter["digest"][:_DIGEST_LETTERS]
    return f"{words}, with adapter {public_name(adapter)} ({'commit' if is_on_hub(adapter) else 'digest'} {digest})"


def figures_belong_to(model: Mapping[str, Any]) -> Mapping[str, Any]:
    return model.get("adapter") or model


def served_sentence(run: Mapping[str, Any]) -> str:
    served = run["model"].get("served")
    if not served:
        return ""
    where = served["base_url"] or f"the Inference Provider {served['provider']}"
    where += served_name(run["model"]["name"], served["model"])
    return f"The model was served by {where}. All information about the model comes from the server."


def served_name(requested: str, answered: str | None) -> str:
    """Returns words for the name under which a server answers. They warn if it is unlike the requested name."""
    if answered in (None, requested):
        return ""
    short, long = sorted(
        (re.sub("[^a-z0-9]", "", last_part(name).casefold()) for name in (requested, answered)), key=len
    )
    warning = " (warning: this is not the requested name, so check which model the server runs)"
    return f" under the name {answered}{'' if short and short in long else warning}"


def is_on_hub(model: Mapping[str, Any]) -> bool:
    return re.fullmatch("[0-9a-f]{40}", model.get("digest") or "") is not None


def public_name(model: Mapping[str, Any]) -> str:
    return model["name"] if is_on_hub(model) else last_part(model["name"])


def classifier_name(run: Mapping[str, Any], classifier: str) -> str:
    section = run[classifier]
    digest = section.get("digest")
    return public_name(section) + ("" if digest is None else f" (digest {digest[:_DIGEST_LETTERS]})")


def tag_of(results: Mapping[str, Any]) -> str | None:
    return results["run"].get("generation", {}).get("tag")


def cue_of(results: Mapping[str, Any]) -> str:
    return results["run"].get("generation", {}).get("cue", "prompt")


def tag_and_cue(results: Mapping[str, Any]) -> list[str]:
    cue = cue_of(results)
    return [*filter(None, [tag_of(results)]), *([] if cue == "prompt" else [f"cue {cue}"])]


def _without_path(name: str) -> str:
    return last_part(name) if name.startswith(("/", ".", "~")) or "\\" in name else name


def last_part(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]


def measure_of(results: Mapping[str, Any]) -> str:
    return "pseudo-perplexity" if results["run"]["model"]["kind"] == "masked" else "perplexity"


def reply_settings(results: Mapping[str, Any]) -> list[str]:
    run = results["run"]
    words = []
    for name in _REPLY_SETTINGS:
        value = run["generation"].get(name)
        value = json.dumps(value) if isinstance(value, dict) else value
        if value not in (None, False) and (name, value) != ("cue", "prompt"):  # the default cue is not mentioned
            words.append(name if value is True else f"{name} {value}")
    if run["generation"].get("system_prompt") is not None:
        words.append("with a system prompt")
    if run["settings"].get("cue_questions") is not None:
        words.append("with the user's own questions")
    if run["settings"]["variations"]:
        words.append("with stylistic variations")
    return [*words, f"seed {run['settings']['seed']}"]
