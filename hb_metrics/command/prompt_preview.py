"""Makes the prompts of a run with `--prompts`, and prints a preview of any run's prompts."""

from typing import TYPE_CHECKING

from hb_dataset.filled_prompts import own_prompt_table
from hb_dataset.names import NAMES_AXIS
from hb_dataset.own_prompts import GENDERED
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.own_prompts import own_people, own_prompts
from hb_metrics.measurements.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

    from hb_dataset.vocabulary import Vocabulary


def own_table(settings: Settings, vocabulary: "Vocabulary", *, compares_texts: bool) -> "pa.Table":
    """Fills the run's own prompts. `compares_texts` is true if the run measures the likelihood of prompts."""
    prompts = own_prompts(settings)
    people = own_people(settings, prompts, vocabulary)
    if compares_texts and prompts[0].kind != "term":
        raise ValueError(
            "likelihood compares prompts that contain {person} or {people}, and these prompts do not; set "
            "--measurements without it, such as generation,offensiveness"
        )
    return own_prompt_table(prompts, people, settings.of(GenerationOptions).replies_per_cell or 1)


def show_prompts(settings: Settings, prompts: "pa.Table") -> None:
    """Prints some of a run's prompts, spread over terms and templates. With a cue, its text and question are shown."""
    from hb_dataset.seeded_draws import balanced_sample

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
    own = own_prompts(settings) if run.prompts is not None else []
    if gendered := [prompt.id for prompt in own if prompt.kind != "cue" and GENDERED.search(prompt.prompt)]:
        print(
            f"\nwarning: {len(gendered):,} prompts (such as '{gendered[0]}') contain a gendered pronoun, which does "
            "not agree with all people; if it means the person, write {they}, {them} or {their} instead"
        )
    print(f"\n{len(shown)} of {len(prompts):,} prompts, from {of_shown} of {of_all:,} templates")
