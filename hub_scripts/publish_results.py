r"""Opens a pull request that adds a run's figures, as evaluation results, to its model's repository on the Hub.

    holistic-bias publish results runs/gpt2 --repo_id openai-community/gpt2 --dataset_id ORG/holistic_bias

The script shows the files (`.eval_results/holistic_bias_*.yaml`), and opens the pull request only with `--yes`.
`--dry_run DIR` writes the files to a folder instead, and needs neither a token nor a network connection. If main
already contains the files, or you have already proposed them, the script opens no pull request.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hb_dataset.markdown_table import escape_markdown
from hb_dataset.prompts import version_configs, version_of
from hb_dataset.versions import frozen_versions
from hb_metrics.layout.figure import Figure
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.measurement import Measurement
from hb_metrics.run.record import Model, Record
from hb_metrics.run.run_record import figures_belong_to, is_on_hub, last_part, measured_model
from hub_scripts import hub
from hub_scripts.hub import publishing_parser, repo_id, write_files

if TYPE_CHECKING:
    from hb_metrics.measurements.results import Results


def main(argv: Sequence[str] | None = None) -> None:
    parser = publishing_parser(__doc__, other_files=False)
    parser.add_argument("run", type=Path, metavar="RUN", help="The folder of a finished run of `measure`.")
    parser.add_argument("--repo_id", required=True, type=repo_id, metavar="OWNER/NAME", help="The model's repository.")
    parser.add_argument(
        "--dataset_id", required=True, type=repo_id, metavar="OWNER/NAME", help="The dataset's repository on the Hub."
    )
    parser.add_argument("--yes", action="store_true", help="Open the pull request.")
    options = parser.parse_args(argv)
    results = read_settled_results(options.run)
    check_model(results.record.model, options.repo_id)
    subject = figures_belong_to(results.record.model)
    if not is_on_hub(subject) or subject.name != options.repo_id:
        print(f"the run measured {measured_model(results.record.model)}; check that {options.repo_id} is this model")
    files = evaluation_results(results, options.dataset_id)
    if not files:
        raise ValueError(f"'{options.run}' has no figures to publish; measure likelihood or generation")
    contents = {path: text.encode() for path, text in files.items()}
    if options.dry_run is None:
        _publish(results, contents, options)
    else:
        print(shown(contents))
        write_files(options.dry_run, contents)
        print(f"written to {options.dry_run}; nothing was published")


def read_settled_results(folder: Path) -> "Results":
    from hb_metrics.measurements.results import read_run

    results = read_run(folder).results
    settings, config = vars(results.record.settings), results.record.data.config
    for option in ("vocabulary_dir", "prompts", "axes", "terms"):
        if settings[option] is not None:
            raise ValueError(f"the run has --{option} {settings[option]}; publish a run without this option")
    allowed = [published.name for version in frozen_versions() for published in version_configs(version)]
    if config not in allowed:
        raise ValueError(f"the run measured {config!r}, which is not published; allowed: {', '.join(allowed)}")
    return results


def check_model(model: Model, repo_id: str) -> None:
    subject = figures_belong_to(model)
    # Old Hub ids, such as "gpt2", have no owner, and repositories may move to another owner.
    if is_on_hub(subject) and last_part(subject.name) != last_part(repo_id):
        raise ValueError(f"the run measured '{subject.name}', not '{repo_id}'; set --repo_id to this model")


def shown(files: Mapping[str, bytes]) -> str:
    return "\n".join(f"{path}:\n{content.decode()}" for path, content in files.items())


def _publish(results: "Results", contents: Mapping[str, bytes], options: argparse.Namespace) -> None:
    record, api = results.record, hub.connect()
    version, tag = version_of(record.data.config), record.tag
    model = hub.open_repository(api, options.repo_id, "model", create=False)
    dataset = hub.open_repository(api, options.dataset_id, "dataset", create=False)
    if version not in dataset.tags:
        raise ValueError(f"{dataset} has no version {version}; publish this version first")
    with hub.explained(api, f"Reading {model}"):
        files = model.differing(model.head, contents)
    if not files:
        print(f"nothing to change: {options.repo_id} already contains these files")
        return
    print(shown(files))
    if not options.yes:
        print(f"nothing was written; add --yes to open a pull request on {options.repo_id} with these files")
        return
    url, is_new = hub.propose(
        model,
        files,
        title=f"HolisticBias results ({record.data.config}{'' if tag is None else f', tag {tag}'})",
        description=(
            "These figures show how much a model's treatment of people depends on the words that describe them. They "
            f"were measured with HolisticBias {version} (Smith et al., 2022). The run measured "
            f"{escape_markdown(measured_model(record.model))}. The pull request changes only "
            f"{', '.join(f'`{path}`' for path in files)}."
        ),
    )
    print(f"pull request: {url}" if is_new else f"proposed already: {url}")


def evaluation_results(results: "Results", dataset_id: str) -> dict[str, str]:
    """Returns the YAML files with a run's figures, by path in the model's repository.

    There is one file per measurement, classifier, tag and cue. If a later run agrees in all four, its file replaces the
    earlier file. Runs record no date, so the Hub shows the date of the commit.
    """
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml
    from huggingface_hub.utils import yaml_dump

    config = results.record.data.config
    files = {}
    for measurement in MEASUREMENTS:
        entries = [
            EvalResultEntry(
                dataset_id=dataset_id,
                task_id=f"{figure.task}_{config}",
                value=figure.value,
                dataset_revision=version_of(config),
                notes=_notes(results.record, measurement, figure),
            )
            for figure in measurement.figures(results)
            if figure.task is not None and figure.value is not None
        ]
        if entries:
            variant = measurement.variant(results.record)
            words = [re.sub(r"[^a-z0-9._]+", "-", name.lower()).strip("-.") for name in variant]
            path = f".eval_results/holistic_bias_{'_'.join([config, measurement.name, *words])}.yaml"
            files[path] = yaml_dump(eval_result_entries_to_yaml(entries), sort_keys=False)
    return files


def _notes(record: Record, measurement: Measurement, figure: Figure) -> str:
    notes = [f"config {record.data.config}"]
    if (sample := record.settings.sample) is not None:
        notes.append(f"sample of {sample:,} prompts, drawn with seed {record.settings.seed}")
    notes += [*figure.notes, *measurement.figure_settings(record)]
    notes.append(", ".join(filter(None, [f"model {measured_model(record.model)}", record.model.dtype])))
    if (release := record.versions.get("holistic-bias")) is not None:
        notes.append(f"holistic-bias {release}")
    return "; ".join(notes)
