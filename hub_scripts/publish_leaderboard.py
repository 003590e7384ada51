r"""Publishes a leaderboard on the Hub: a static Space, one page made from results that others published.

    holistic-bias publish leaderboard --repo_id ORG/leaderboard --dataset_id ORG/holistic_bias
    holistic-bias publish leaderboard --repo_id ORG/leaderboard --dataset_id ORG/holistic_bias --results runs/ \
        --dry_run board/

It reads `.eval_results/*.yaml` and run folders in repositories of models: of those that the dataset's leaderboard on
the Hub lists, or of `--models`. `--results` reads local run folders and files instead of the Hub's list. Runs are shown
beside each other only if their figures compare. Files are not trusted: what is not valid is refused, and the page lists
it with the reason. The same results make the same page, so that publishing again changes nothing.

A publication removes only files that an earlier one wrote. If somebody else's file is at a path that is published, or
the Space has only other people's files, they are listed and nothing is written, unless you give `--among_other_files`.
"""

import argparse
import re
import tempfile
import warnings
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hub_scripts import hub
from hub_scripts.addresses import check_repo_id, is_repo_id
from hub_scripts.dry_run import add_dry_run_option, check_empty, write_files
from hub_scripts.hub_errors import HubError, reason, status
from hub_scripts.leaderboard.notes import cleaned, hub_model
from hub_scripts.leaderboard.reading import Reading, Refused, joined, read_content, read_files, size_fault

if TYPE_CHECKING:
    from huggingface_hub import HfApi

# Paths that are read in a model's repository: evaluation results, and results.json of run folders.
RESULTS_PATH = re.compile(r"\.eval_results/[\w.+-]+\.ya?ml")
RUN_FOLDER = re.compile(r"(?:[\w+-][\w.+-]*/)*")
MOST_FILES_OF_A_MODEL, MOST_BYTES_OF_A_MODEL = 100, 64 << 20

NO_LIST_ERROR = (
    "the Hub has no list of models with results for {dataset_id} ({reason}); it has one once the dataset is on its "
    "allow-list (see CONTRIBUTING.md). Until then name models with --models, or local results with --results"
)
OTHER_SPACE_ERROR = (
    "the Space {repo_id} runs {sdk}, and a leaderboard is static; nothing was written, name another Space or a new one"
)
READING_ERROR = "{model} cannot be read ({reason}); nothing was written, try again"


def main(argv: Sequence[str] | None = None) -> None:
    """Publishes the leaderboard, or with --dry_run writes its files, and prints what was read and refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--repo_id",
        required=True,
        metavar="OWNER/NAME",
        help="The Space of the Hub to publish in. It is created if it does not exist.",
    )
    parser.add_argument(
        "--dataset_id",
        required=True,
        metavar="OWNER/NAME",
        help="The dataset that the results are about. Results for another one are counted and left out.",
    )
    parser.add_argument(
        "--models",
        nargs="+",
        default=[],
        metavar="OWNER/NAME",
        help="The models whose repositories are read, instead of those that the Hub lists for the dataset.",
    )
    parser.add_argument(
        "--results",
        nargs="+",
        default=[],
        type=Path,
        metavar="PATH",
        help="Local results to read: run folders, folders of such, results.json or evaluation results in YAML. The "
        "Hub's list is not read then.",
    )
    parser.add_argument(
        "--leave_out",
        nargs="+",
        default=[],
        metavar="OWNER/NAME",
        help="Models that are not shown, such as those with figures that you know to be false. The page lists them.",
    )
    add_dry_run_option(parser, "This needs no token, and with --results alone no network.")
    hub.add_other_files_option(parser)
    options = parser.parse_args(argv)
    try:
        for name in ("repo_id", "dataset_id"):
            check_repo_id(getattr(options, name), name)
        for name in ("models", "leave_out"):
            for model in getattr(options, name):
                check_repo_id(model, name)
        if options.dry_run is not None:
            check_empty(options.dry_run)
        _publish(options)
    except (ValueError, OSError, RuntimeError) as error:
        raise SystemExit(f"publish_leaderboard.py: {error}") from error


def _publish(options: argparse.Namespace) -> None:
    from huggingface_hub import HfApi

    from hub_scripts.leaderboard.page import space_files

    # Anybody may read without a token; one that is there also reads what is not public of --models.
    api = HfApi() if options.dry_run is not None else hub.connect()
    if options.dry_run is None:
        check_space(api, options.repo_id)
    reading = without(read_published(api, options.dataset_id, options.models, options.results), options.leave_out)
    files = space_files(reading, options.dataset_id)
    print(f"{len(reading.figures)} figures read; {len(reading.refused)} files, entries or links refused")
    for refused in reading.refused:
        print(f"  {refused.where}: {refused.reason}")
    if options.dry_run is not None:
        write_files(options.dry_run, files)
        print(f"the leaderboard was written to {options.dry_run}, nothing was published")
        return
    with warnings.catch_warnings():
        # The client takes the Parquet file for a dataset in the wrong place.
        warnings.filterwarnings("ignore", "It seems that you are about to commit a data file", UserWarning)
        pushed = hub.push(
            api,
            options.repo_id,
            files,
            repo_type="space",
            message="HolisticBias leaderboard",
            space_sdk="static",
            among_other_files=options.among_other_files,
        )
    if pushed.written or pushed.deleted:
        print(f"{options.repo_id}: published as {pushed.url} ({pushed.summary()})")
    else:
        print(f"{options.repo_id}: already published with the same content, nothing to do")


def check_space(api: "HfApi", repo_id: str) -> None:
    """Checks that a Space is static or does not exist: a metric's is ours too, and would lose its files.

    Raises:
        HubError: It runs a program, or the Hub does not answer.
    """
    from huggingface_hub.errors import HTTPError, RepositoryNotFoundError

    try:
        sdk = api.space_info(repo_id).sdk
    except RepositoryNotFoundError:
        return
    except (HTTPError, OSError, ValueError) as error:
        raise HubError(READING_ERROR.format(model=f"space {repo_id}", reason=reason(error, api))) from None
    if sdk not in (None, "static"):
        raise HubError(OTHER_SPACE_ERROR.format(repo_id=repo_id, sdk=sdk))


def without(reading: Reading, models: Collection[str]) -> Reading:
    """A reading without the figures of these models, which are listed as left out."""
    left_out = {model.lower(): 0 for model in models}
    figures = []
    for figure in reading.figures:
        name = (figure.repo_id or hub_model(figure.model) or "").lower()
        if name in left_out:
            left_out[name] += 1
        else:
            figures.append(figure)
    refused = [
        Refused(model, f"{number} figure{'' if number == 1 else 's'} left out by those who publish this page")
        for model, number in left_out.items()
        if number
    ]
    return Reading(figures, [*reading.refused, *refused], reading.num_others)


def read_published(api: "HfApi", dataset_id: str, models: Sequence[str], paths: Sequence[Path]) -> Reading:
    """Reads published results: of these models and paths, or if there are none of all models that the Hub lists.

    Raises:
        HubError: The Hub does not answer, or has no list.
        ValueError: A path does not exist, or has no results.
    """
    readings = [read_files(paths, dataset_id)] if paths else []
    if not paths and not models:
        models = listed_models(api, dataset_id)
    return joined([*readings, *(read_model(api, model, dataset_id) for model in dict.fromkeys(models))])


def listed_models(api: "HfApi", dataset_id: str) -> list[str]:
    """The models that the Hub lists for a dataset, also those that were made from others.

    It is asked without a token: the names and figures of private models are not for a page that anybody can read.

    Raises:
        HubError: The Hub does not answer, or has no list.
    """
    from huggingface_hub.errors import HTTPError, OfflineModeIsEnabled

    try:
        listed = api.get_dataset_leaderboard(dataset_id, base_model_only=False, token=False)
    except OfflineModeIsEnabled:
        raise HubError(hub.OFFLINE_ERROR) from None
    except (HTTPError, OSError, ValueError, LookupError, TypeError) as error:
        raise HubError(NO_LIST_ERROR.format(dataset_id=dataset_id, reason=reason(error, api))) from None
    return sorted({entry.model_id for entry in listed if is_repo_id(str(entry.model_id))})


def read_model(api: "HfApi", model: str, dataset_id: str) -> Reading:
    """Reads the results on main of a model's repository; one that cannot be seen is refused.

    Raises:
        HubError: The Hub does not answer: a page without the model would be wrong.
    """
    from huggingface_hub.errors import HTTPError, OfflineModeIsEnabled

    try:
        return joined(_read_files(api, model, dataset_id))
    except OfflineModeIsEnabled:
        raise HubError(hub.OFFLINE_ERROR) from None
    except (HTTPError, OSError, ValueError) as error:
        if status(error) in (401, 403, 404):
            return Reading([], [Refused(model, f"the repository cannot be read (HTTP {status(error)})")], 0)
        raise HubError(READING_ERROR.format(model=model, reason=reason(error, api))) from None


def _read_files(api: "HfApi", model: str, dataset_id: str) -> Iterator[Reading]:
    from huggingface_hub.hf_api import RepoFile

    revision = api.model_info(model).sha  # what is read is of one commit
    tree = api.list_repo_tree(model, recursive=True, revision=revision)
    sizes = {entry.path: entry.size for entry in tree if isinstance(entry, RepoFile)}
    paths = [path for path in sorted(sizes) if is_results_path(path, sizes)]
    num_bytes = 0
    for path in paths[MOST_FILES_OF_A_MODEL:]:
        yield Reading([], [Refused(cleaned(f"{model}/{path}"), f"more than {MOST_FILES_OF_A_MODEL} files")], 0)
    for path in paths[:MOST_FILES_OF_A_MODEL]:
        where = f"{model}/{path}"
        if (fault := size_fault(path, sizes[path])) is not None:
            yield Reading([], [Refused(cleaned(where), fault)], 0)
            continue
        num_bytes += sizes[path]
        if num_bytes > MOST_BYTES_OF_A_MODEL:
            yield Reading([], [Refused(cleaned(where), f"more than {MOST_BYTES_OF_A_MODEL:,} bytes of a model")], 0)
            continue
        with tempfile.TemporaryDirectory() as folder:
            file = api.hf_hub_download(model, path, revision=revision, local_dir=folder)
            yield read_content(Path(file).read_bytes(), where, model, dataset_id)


def is_results_path(path: str, paths: "Sequence[str] | dict[str, int]") -> bool:
    """Whether a file holds results: evaluation results, or the results.json beside the run.json of a run folder."""
    folder, name = path[: path.rfind("/") + 1], path[path.rfind("/") + 1 :]
    if name == "results.json":
        return RUN_FOLDER.fullmatch(folder) is not None and f"{folder}run.json" in paths
    return RESULTS_PATH.fullmatch(path) is not None


if __name__ == "__main__":
    main()
