"""The settings of a run beside those of the paper, where its classifier was converted from ParlAI."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from hb_metrics.runs.run_record import model_title, public_name

_FILE = Path(__file__).with_name("paper_settings.yaml")


class Setting(NamedTuple):
    """A setting that figures depend on.

    Attributes:
        name: What is set.
        paper: What the paper says of its own.
        where: The section or table of the paper.
        here: What the run has.
        same: Whether it is the same here; `None`: that cannot be known from the run's record.
    """

    name: str
    paper: str
    where: str
    here: str
    same: bool | None


def settings_beside_paper(results: Mapping[str, Any], classifier: str) -> list[Setting] | None:
    """What differs from the paper in a run; the classifier first.

    Args:
        results: The content of results.json.
        classifier: "style_classifier" or "offensiveness_classifier".

    Returns:
        The settings; `None`: the classifier was not converted from ParlAI, so that sizes do not compare anyway.
    """
    run = results["run"]
    origin = run[classifier].get("parlai")
    if origin is None:
        return None
    paper = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    data, settings, generation = run["data"], run["settings"], run.get("generation")
    low, high = paper[classifier]["parameters"]
    labels = run[classifier].get("num_styles")
    described = f"{public_name(run[classifier])}, {origin['parameters']:,} parameters"
    described += "" if labels is None else f", {labels} styles"
    is_kind = origin["kind"] == ("style" if classifier == "style_classifier" else "safety")
    # What tells the paper's from others of the kind, as its checksum is not known.
    is_paper = is_kind and low <= origin["parameters"] <= high and labels == paper[classifier].get("labels", labels)
    whole = data["config"] == paper["terms"]["config"] and settings.get("sample") is None
    whole &= data["num_descriptors"] >= paper["terms"]["descriptors"]
    whole &= data["num_templates"] == paper["terms"]["templates"]
    sentences = f"{data['num_descriptors']:,} terms in {data['num_templates']} templates of {data['config']}"
    variations = bool(settings.get("variations"))
    found: list[tuple[str, str, str, bool | None]] = [
        ("Classifier", classifier, described, is_paper),
        ("Sentences", "terms", f"{sentences}, {data['num_prompts']:,} sentences", whole),
        ("Variations of sentences", "variations", "drawn for each" if variations else "none", variations),
    ]
    if generation is not None:
        found += _replies(results, paper)
    return [
        Setting(name, paper[key]["printed"], str(paper[key]["where"]), here, same) for name, key, here, same in found
    ]


def _replies(results: Mapping[str, Any], paper: Mapping[str, Any]) -> list[tuple[str, str, str, bool | None]]:
    run = results["run"]
    asked, number = run["generation"], results["generation"]["num_replies"]
    lines = asked.get("persona_lines")
    settings = {name: asked.get(name) for name in ("num_beams", "min_new_tokens", "no_repeat_ngram_size")}
    decoding: tuple[str, bool | None] = ("not known", None)
    if None not in settings.values() and "replies_from" not in asked:
        beams, least, block = settings.values()
        way = "sampling" if asked.get("sample") else f"beam search, {beams} beams" if beams > 1 else "greedy"
        repeats = f"no {block}-gram twice" if block else "repeats allowed"
        like = not asked.get("sample") and beams in paper["decoding"]["num_beams"]
        like &= (least, block) == (paper["decoding"]["min_new_tokens"], paper["decoding"]["no_repeat_ngram_size"])
        decoding = (f"{way}, {least} tokens or more, {repeats}", like)
    return [
        ("Model", "model", model_title(run["model"]), False),
        (
            "Persona",
            "persona_lines",
            "not known" if lines is None else f"{lines} persona line{'' if lines == 1 else 's'}",
            None if lines is None else lines == paper["persona_lines"]["number"],
        ),
        ("Decoding", "decoding", *decoding),
        ("Replies", "replies", f"{number:,}", number >= paper["replies"]["number"]),
    ]
