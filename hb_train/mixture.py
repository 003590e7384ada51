"""Measures replies that are decoded from a mixture of prompts, to show what bias tuning can reach without training.

    python -m hb_train.mixture runs/tune/before runs/tune/mixture

Each token of a reply to "Hi! I'm a Deaf woman." is drawn from the mixture that method counterfactual would learn (see
`tuning.counterfactual.mixture`): of the model's distributions after this prompt, and after the same prompt with other
descriptors of the run, such as "an autistic woman". After each of these prompts, the model reads the same reply so far.
Decoding takes at least `--num_contexts` times as long as usual.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
from accelerate import PartialState

from hb_dataset.command_line import CommandParser
from hb_dataset.whole_files import write_atomically
from hb_metrics.command.arguments import settings_of
from hb_metrics.command.measuring import measure
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.reply_requests import ask
from hb_metrics.measurements.results import read_run
from hb_metrics.measurements.settings import OF_LOADED, Settings, check_least
from hb_metrics.run.run_folder import REPLIES, open_run, package_versions, run_digest
from hb_train.compare import MIXTURE_RUN
from hb_train.side_effects import Side, load_side
from hb_train.training.options import first_line, run_script
from hb_train.training.runs import model_description
from hb_train.tuning.mixed_replies import COLUMNS, MixedForward, mixed_groups

REPLIES_FILE = "replies.parquet"


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(prog="mixture.py", description=first_line(__doc__))
    parser.add_argument("before", type=Path, help="The folder of a run of the untuned model.")
    parser.add_argument("output_dir", type=Path, help=f"The folder of the replies. Their run is in '{MIXTURE_RUN}'.")
    parser.add_argument("--num_contexts", type=int, default=4, help="The number of prompts in a mixture. Default: 4.")
    options = parser.parse_args(argv)
    run_script("mixture.py", lambda: measure_mixture(options))


def measure_mixture(options: argparse.Namespace) -> None:
    """Replies to the prompts of a run from mixtures, and measures the replies with the settings of the run."""
    check_least(options, num_contexts=2)
    before, output_dir, num_contexts = options.before, options.output_dir, options.num_contexts
    side = load_side(read_run(before))
    check_mixable(side)
    prompts, loaded = side.run.tables.prompts(*COLUMNS), side.engine.loaded
    asked = ask(side.settings, prompts, side.engine)
    plan = side.engine.plan_replies(asked.requests)
    groups = mixed_groups(plan, asked, prompts, loaded, num_contexts)
    temperature = plan.decoding.temperature if plan.decoding.sample else 1.0
    start = partial(MixedForward, groups=groups, temperature=temperature, padded=plan.paths.padded)
    plan = replace(plan, start=start, num_read=num_contexts)
    with PartialState().main_process_first():
        about = {"before": run_digest(before), "num_contexts": num_contexts, "model": model_description(loaded)}
        open_run(output_dir, {**about, "generation": plan.description(), "versions": package_versions()})
    replies = side.engine.reply(plan, output_dir / REPLIES)
    if PartialState().is_main_process:
        answers = replies.select(["id", "reply", "num_tokens", "truncated", "reasoning"])
        write_atomically(output_dir / REPLIES_FILE, lambda scratch: pq.write_table(answers, scratch))
    PartialState().wait_for_everyone()
    measure(_settings_of_replies(side, asked.requests.extent, output_dir, num_contexts))


def check_mixable(side: Side) -> None:
    options = side.settings.of(GenerationOptions)
    if "generation" not in side.run.results.measured:
        raise ValueError(f"run '{side.run.folder}' did not measure generation; pass a run that did")
    possible = {"decoding": ("sample", "greedy"), "cue": ("prompt",), "variations": (False,), "turns": (1,)}
    for name, values in possible.items():
        if (value := getattr(options, name)) not in values:
            raise ValueError(
                f"{name} of run '{side.run.folder}' is {value}, but mixtures need {' or '.join(map(str, values))}; "
                f"measure the model again with --{name} {values[0]}"
            )


def _settings_of_replies(side: Side, extent: str, folder: Path, num_contexts: int) -> Settings:
    values = dict(side.run.record.content["settings"])
    measured = [
        measurement.name
        for measurement in MEASUREMENTS
        if measurement.name in side.run.results.measured
        and not measurement.has_own_prompts
        and not {"weights", "likelihoods"} & {*measurement.needs}
    ]
    for name in OF_LOADED:
        values.pop(name, None)
    return settings_of(
        {
            **values,
            "model": f"{values['model']}, mixture of {num_contexts}",
            "measurements": ",".join(measured),
            "replies_file": str(folder / REPLIES_FILE),
            "reply": extent,
            "output_dir": str(folder / MIXTURE_RUN),
        }
    )


if __name__ == "__main__":
    main()
