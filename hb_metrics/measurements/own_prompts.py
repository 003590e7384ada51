"""Reads the prompts of `--prompts` once, and selects prompts and people for them."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from hb_dataset.filled_prompts import Person, people_of_names, people_of_terms
from hb_dataset.grouped import grouped
from hb_dataset.names import read_names
from hb_dataset.own_prompts import OwnPrompt, read_own_prompts
from hb_dataset.slots import NAME_CUES
from hb_dataset.vocabulary_entries import Vocabulary
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.settings import Settings
from hb_metrics.stats.question_tables import MIN_QUESTIONS


def own_prompts(settings: Settings) -> list[OwnPrompt]:
    run = settings.run
    assert run.prompts is not None
    path = Path(run.prompts)
    state = (path.stat().st_mtime_ns, path.stat().st_size) if path.is_file() else None
    return _read(run.prompts, tuple(run.replace or ()), state)


@lru_cache(maxsize=1)
def _read(source: str, replaced: tuple[str, ...], state: tuple[int, int] | None) -> list[OwnPrompt]:
    """Caches the prompts, so that replacements are printed once. `state` changes when the file changes."""
    return read_own_prompts(source, replaced)


def has_outcomes(settings: Settings) -> bool:
    return settings.run.prompts is not None and any(prompt.outcome for prompt in own_prompts(settings))


def quick_sample(prompts: list[OwnPrompt]) -> list[OwnPrompt]:
    """Selects one prompt in each of the first topics: the first one, where "yes" is favourable, or the last ("no")."""
    by_topic = grouped((prompt.topic, prompt) for prompt in prompts if prompt.more["wording"] == "1")
    return [of_topic[-(number % 2)] for number, of_topic in enumerate(list(by_topic.values())[:MIN_QUESTIONS])]


def orders_of(prompts: list[OwnPrompt], *, is_quick: bool) -> dict[int, list[OwnPrompt]]:
    """Returns the prompts with each order of the options. In a quick trial, each prompt has one of the two orders."""
    if not is_quick:
        return {0: prompts, 1: prompts}
    return {order: [prompt for row, prompt in enumerate(prompts) if row // 2 % 2 == order] for order in (0, 1)}


def own_people(settings: Settings, prompts: Sequence[OwnPrompt], vocabulary: Vocabulary) -> list[Person]:
    """Finds the people with whom to fill prompts: names, or terms with nouns.

    Raises:
        ValueError: The prompts name people in different ways, or the options do not suit them.
    """
    run, options = settings.run, settings.of(GenerationOptions)
    first_of: dict[str, str] = {}
    for prompt in prompts:
        first_of.setdefault(prompt.kind, prompt.id)
    if len(first_of) > 1:
        rows = " and ".join(f"'{name}'" for name in first_of.values())
        raise ValueError(
            f"the prompts {rows} name people in different ways; write prompts with {{person}} or {{people}}, prompts "
            "with {name}, and prompts without any of these slots into separate files"
        )
    (kind,) = first_of
    is_cued = options.cue != "prompt"
    if is_cued != (kind == "cue"):
        advice = "remove --cue" if is_cued else "set --cue to system, memory, name, signature or history, or add a slot"
        raise ValueError(
            f"prompt '{first_of[kind]}' has {'a' if is_cued else 'no'} slot for people, but cue is '{options.cue}'; "
            f"{advice}"
        )
    of_names = kind == "name" or options.cue in NAME_CUES
    if not of_names:
        if options.names_file is not None:
            raise ValueError("names_file is set, but the prompts have no {name}; add this slot, or omit --names_file")
        if run.dataset_config.endswith("-intersections"):
            raise ValueError("the slots of prompts take single terms; set --dataset_config to a config without pairs")
        return people_of_terms(vocabulary, run.axes, run.term_list, small=run.dataset_config.endswith("-small"))
    if run.axes is not None or run.terms is not None or options.variations:
        raise ValueError("names have no axes, terms or variations; omit --axes, --terms and --variations")
    return people_of_names(read_names(options.names_file))
