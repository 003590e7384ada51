"""Describes a run in words for reports and model cards. The words do not contain paths, because paths are private."""

import re

from hb_metrics.run.record import Model, Record, UsedAdapter, UsedClassifier

_DIGEST_LETTERS = 12


def model_title(model: Model) -> str:
    name = _without_path(model.name)
    return name if model.adapter is None else f"{name} with adapter {last_part(model.adapter.name)}"


def measured_model(model: Model) -> str:
    if model.served is not None:
        return f"{_without_path(model.name)}, queried over HTTP (an OpenAI-compatible server)"
    digest = (model.digest or "")[:_DIGEST_LETTERS]
    if model.answered_in_files:
        return f"{_without_path(model.name)}, measured from saved answers (digest {digest})"
    if is_on_hub(model):
        words = f"commit {digest} of {model.name}"
    elif model.name.endswith("(embedded)"):
        words = f"{model.name} (digest {digest})"
    else:
        words = f"a local folder, {public_name(model)} (digest {digest})"
    words += "" if model.quantization is None else f", quantised ({model.quantization})"
    adapter = model.adapter
    if adapter is None:
        return words
    digest = adapter.digest[:_DIGEST_LETTERS]
    return f"{words}, with adapter {public_name(adapter)} ({'commit' if is_on_hub(adapter) else 'digest'} {digest})"


def figures_belong_to(model: Model) -> Model | UsedAdapter:
    return model.adapter or model


def served_sentence(model: Model) -> str:
    served = model.served
    if served is None:
        return ""
    where = served.base_url or f"the Inference Provider {served.provider}"
    where += served_name(model.name, served.model)
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


def is_on_hub(source: Model | UsedAdapter | UsedClassifier) -> bool:
    return re.fullmatch("[0-9a-f]{40}", source.digest or "") is not None


def public_name(source: Model | UsedAdapter | UsedClassifier) -> str:
    return source.name if is_on_hub(source) else last_part(source.name)


def classifier_name(classifier: UsedClassifier) -> str:
    digest = classifier.digest
    return public_name(classifier) + ("" if digest is None else f" (digest {digest[:_DIGEST_LETTERS]})")


def tag_and_cue(record: Record) -> list[str]:
    return [*filter(None, [record.tag]), *([] if record.cue == "prompt" else [f"cue {record.cue}"])]


def _without_path(name: str) -> str:
    return last_part(name) if name.startswith(("/", ".", "~")) or "\\" in name else name


def last_part(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
