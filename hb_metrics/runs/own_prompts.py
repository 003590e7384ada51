"""Makes the prompts of a run with `--prompts`, and prints a preview of any run's prompts."""

from typing import TYPE_CHECKING

from hb_dataset.names import NAME_CUES, NAMES_AXIS, read_names
from hb_dataset.own_prompts import own_prompt_table, people_of_names, people_of_terms
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.own_prompts import own_prompts
from hb_metrics.measurements.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

    from hb_dataset.vocabulary import Vocabulary


def own_table(settings: Settings, vocabulary: "Vocabulary", *, compares_texts: bool) -> "pa.Table":
    """Fills the run's own prompts. `compares_texts` is true if the run measures the likelihood of prompts."""
    run, options, prompts = settings.run, settings.of(GenerationOptions), own_prompts(settings)
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
    if options.cue_questions is not None:
        raise ValueError(
            "prompts and cue_questions are both set, but the prompts are the questions; remove one of them"
        )
    of_names = kind == "name" or options.cue in NAME_CUES
    if compares_texts and (of_names or is_cued):
        raise ValueError(
            "likelihood compares prompts that contain {person} or {people}, and these prompts do not; set "
            "--measurements without it, such as generation,offensiveness"
        )
    if not of_names:
        if options.names_file is not None:
            raise ValueError("names_file is set, but the prompts have no {name}; add this slot, or omit --names_file")
        if run.dataset_config.endswith("-intersections"):
            raise ValueError("the slots of prompts take single terms; set --dataset_config to a config without pairs")
        people = people_of_terms(vocabulary, run.axes, run.term_list, small=run.dataset_config.endswith("-small"))
        return own_prompt_table(prompts, people)
    if run.axes is not None or run.terms is not None or options.variations:
        raise ValueError("names have no axes, terms or variations; omit --axes, --terms and --variations")
    return own_prompt_table(prompts, people_of_names(read_names(options.names_file)), options.replies_per_cell or 1)


def show_prompts(settings: Settings, prompts: "pa.Table") -> None:
    """Prints some of a run's prompts, spread over terms and templates. With a cue, its text and question are shown."""
    from hb_dataset.balanced_sample import balanced_sample

    run, cue = settings.run, settings.of(GenerationOptions).cue
    shown = balanced_sample(prompts, min(run.show or 1, len(prompts)), seed=run.seed)
    for row in shown.to_pylist():
        label = cue if cue == "prompt" else f"cue ({cue})"
        parts = ("system", row.get("system") or run.system_prompt), (label, row["text"]), ("then", row.get("question"))
        print(f"\n{row['axis']}: {row['descriptor']}" + ("" if row["axis"] == NAMES_AXIS else f" ({row['noun']})"))
        for name, text in parts:
            if text is not None:
                print(f"  {name}: {text}".replace("\n", "\n    "))
    of_shown, of_all = (len(table["template"].unique()) for table in (shown, prompts))
    print(f"\n{len(shown)} of {len(prompts):,} prompts, from {of_shown} of {of_all:,} templates")
