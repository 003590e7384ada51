"""Makes a run's prompts, and prints a preview of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hb_dataset.command_line import AXIS_CUTOFF, check_known
from hb_dataset.filled_prompts import default_noun_rows, own_prompt_table
from hb_dataset.own_prompts import GENDERED, SHIPPED, own_rows, read_own_prompts
from hb_dataset.prompt_columns import NAMES_AXIS, has_names
from hb_dataset.slots import NAME_CUES
from hb_metrics.command.arguments import wanted_measurements
from hb_metrics.measurements import DECISIONS, GENERATION, LIKELIHOOD
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.own_prompts import own_people, own_prompts, quick_sample
from hb_metrics.measurements.settings import Settings
from hb_metrics.run.plurals import with_plurals

if TYPE_CHECKING:
    import pyarrow as pa

    from hb_dataset.vocabulary_entries import Vocabulary


def read_prompts(settings: Settings) -> "pa.Table":
    """Reads the run's prompts. Adds a column of plurals for each column of terms, such as `descriptor_plural`."""
    from hb_dataset.prompts import config_vocabulary
    from hb_dataset.seeded_draws import balanced_sample

    run, options = settings.run, settings.of(GenerationOptions)
    vocabulary = config_vocabulary(run.dataset_config, run.vocabulary_dir)
    if run.prompts is not None:
        _check_axes(settings, vocabulary.axes)
        prompts = _own_table(settings, vocabulary)
    elif options.names_file is not None and options.cue not in NAME_CUES:
        raise ValueError("names_file needs --cue name or signature, or --prompts with {name}; omit --names_file")
    else:
        prompts = _named_people(settings) or _config_prompts(settings, vocabulary)
    if not (len(prompts) and has_names(prompts)):
        _check_every_axis(settings, prompts, vocabulary)
    if run.sample is not None:
        prompts = balanced_sample(prompts, run.sample, seed=run.seed)
    return with_plurals(prompts, vocabulary)


def _config_prompts(settings: Settings, vocabulary: "Vocabulary") -> "pa.Table":
    import pyarrow as pa
    import pyarrow.compute as pc

    from hb_dataset.filled_prompts import find_terms
    from hb_dataset.prompts import load_table

    run = settings.run
    prompts = load_table(run.dataset_config, run.vocabulary_dir)
    are_pairs = "first_axis" in prompts.column_names
    _check_axes(settings, sorted(prompts["axis"].unique().to_pylist()) if are_pairs else vocabulary.axes)
    if run.terms is not None:
        terms = [term.term for term in find_terms(vocabulary, run.axes, run.term_list)]
        templates = prompts["template"].unique()
        prompts = load_table(run.dataset_config.removesuffix("-small"), run.vocabulary_dir)
        is_chosen = pc.is_in(prompts["descriptor"], pa.array(terms, pa.string()))
        prompts = prompts.filter(pc.and_(is_chosen, pc.is_in(prompts["template"], templates)))
        if not len(prompts):
            raise ValueError(
                f"no prompt of {run.dataset_config} has one of '{run.terms}' alone; set another --dataset_config"
            )
    if run.axes is not None:
        prompts = prompts.filter(pc.is_in(prompts["axis"], pa.array(run.axes, pa.string())))
    return prompts


def _check_axes(settings: Settings, known: Sequence[str]) -> None:
    for axis in settings.run.axes or []:
        where = settings.run.vocabulary_dir or settings.run.dataset_config.removesuffix("-small")
        advice = "; separate axes with spaces" if "," in axis else ""
        check_known(axis, known, f"axis '{axis}' is not in {where}{advice}", cutoff=AXIS_CUTOFF)


def _check_every_axis(settings: Settings, prompts: "pa.Table", vocabulary: "Vocabulary") -> None:
    """Raises a ValueError if an axis of the user has no prompts, because small configs leave out some terms."""
    run, known = settings.run, set(prompts["axis"].unique().to_pylist())
    is_whole = run.vocabulary_dir is not None and run.terms is None and "first_axis" not in prompts.column_names
    missing = [axis for axis in run.axes or (vocabulary.axes if is_whole else ()) if axis not in known]
    if missing:
        config, why, instead = run.dataset_config.removesuffix("-small"), "", "set --axes"
        if config != run.dataset_config and run.terms is None:
            why = ", which leaves out terms with a gender or few nouns"
            instead = f"set --dataset_config {config}, or --axes"
        raise ValueError(
            f"axis '{missing[0]}' has no prompts in {run.dataset_config}{why}; {instead} without '{missing[0]}'"
        )


def _named_people(settings: Settings) -> "pa.Table | None":
    """Returns the prompts of a run with names, which replace those of `--dataset_config`, or `None`."""
    wanted, run = wanted_measurements(settings), settings.run
    if GENERATION not in wanted or settings.of(GenerationOptions).cue not in NAME_CUES:
        return None
    others = [other for other in wanted if not other.has_own_prompts and "replies" not in other.needs]
    if others or any(value is not None for value in (run.axes, run.terms, run.sample)):
        raise ValueError("names need --measurements generation alone; remove --axes, --terms and --sample")
    from hb_metrics.measurements.reply_requests import named_people

    return named_people(settings)


def _own_table(settings: Settings, vocabulary: "Vocabulary") -> "pa.Table":
    prompts = own_prompts(settings)
    people = own_people(settings, prompts, vocabulary)
    if LIKELIHOOD in wanted_measurements(settings) and prompts[0].kind != "term":
        raise ValueError(
            "likelihood needs {person} or {people} in prompts; set --measurements generation,offensiveness"
        )
    return own_prompt_table(prompts, people, settings.of(GenerationOptions).replies_per_cell or 1)


def prompts_to_show(settings: Settings) -> "pa.Table":
    """Reads the run's prompts or, if no measurement uses them, the questions for decisions filled with people."""
    wanted, run = wanted_measurements(settings), settings.run
    if run.prompts is not None or not all(measurement.has_own_prompts for measurement in wanted):
        return read_prompts(settings)
    if DECISIONS not in wanted:
        raise ValueError(f"--measurements {run.measurements} does not use the prompts of --dataset_config; omit --show")
    from hb_dataset.prompts import config_vocabulary

    vocabulary = config_vocabulary(run.dataset_config, run.vocabulary_dir)
    _check_axes(settings, vocabulary.axes)
    questions = read_own_prompts(SHIPPED)
    questions = quick_sample(questions) if run.quick else questions
    return own_prompt_table(questions, default_noun_rows(own_people(settings, questions, vocabulary)))


def own_prompt_rows(settings: Settings) -> "pa.Table":
    return own_rows(own_prompts(settings))


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
