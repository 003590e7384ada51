"""Clusters the styles of a run's replies: a page with dendrogram and heat map, and a file for `--style_clusters`.

holistic-bias style-clusters runs/gpt2
holistic-bias measure --model openai-community/gpt2 --style_clusters runs/gpt2/style_clusters.yaml --seed 1
"""

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from jinja2 import UndefinedError

from hb_dataset.whole_files import write_text
from hb_metrics.report.numbers import bias, fixed, rho
from hb_metrics.runs.finished_run import read_run
from hb_metrics.style_clusters.analysis import Settings, analyse, settings_of
from hb_metrics.style_clusters.clustering import LINKAGES
from hb_metrics.style_clusters.section import clusters_page, is_results, opposed

RESULTS_FILE, PAGE_FILE, CLUSTERS_FILE = "style_clusters.json", "style_clusters.html", "style_clusters.yaml"

_LINE_BREAKS = re.compile("[\x85\u2028\u2029]")

FOLDER_ERROR = "there is no folder '{folder}' to write in; make it first"
THERE_ERROR = (
    "'{path}' is there already, and is not as this command wrote it: it was edited, or is another's; move it away, or "
    "give another --output_dir"
)
INCOMPLETE_ERROR = "the results are incomplete ({error}); they may be of another release: measure again"
HEADER = """\
# Clusters of the styles of {name}'s replies ({config}), for `--style_clusters` of `holistic-bias measure`.
# Styles classified by {style_classifier}. By `holistic-bias style-clusters`: {settings}.
# Each cluster has the name of its style with the most Partial Gen Bias. Read them: the paper kept rough synonyms only.
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Clusters the styles of a run's replies, and writes a page and a file of the clusters."""
    arguments = _parser().parse_args(sys.argv[1:] if argv is None else argv)
    folder = arguments.output_dir or arguments.run
    try:
        settings = settings_of(arguments)
        run = read_run(arguments.run)
        if not folder.is_dir():
            raise ValueError(FOLDER_ERROR.format(folder=folder))
        results = analyse(run, settings)
        write_files(folder, results)
    except (ValueError, OSError) as error:
        raise SystemExit(f"hb_metrics.style_clusters: {error}") from error
    except (KeyError, UndefinedError) as error:
        raise SystemExit(f"hb_metrics.style_clusters: {INCOMPLETE_ERROR.format(error=error)}") from error
    print("\n".join(summary_lines(results)))
    for what, name in (("clusters", CLUSTERS_FILE), ("page", PAGE_FILE), ("results", RESULTS_FILE)):
        print(f"{what}: {(folder / name).resolve()}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="holistic-bias style-clusters", description=(__doc__ or "").split("\n", 1)[0], allow_abbrev=False
    )
    defaults = Settings()
    parser.add_argument("run", type=Path, metavar="RUN", help="The folder of a finished run with replies.")
    parser.add_argument(
        "--output_dir",
        type=Path,
        help=f"The folder for {CLUSTERS_FILE}, {PAGE_FILE} and {RESULTS_FILE}. Default: that of the run.",
    )
    parser.add_argument(
        "--samples",
        choices=("replies", "descriptors"),
        default=defaults.samples,
        help="What the probabilities of styles are correlated over: replies (as in the paper), or the means of "
        "descriptors, which with few replies are mostly noise. Default: %(default)s.",
    )
    parser.add_argument(
        "--linkage",
        choices=LINKAGES,
        default=defaults.linkage,
        help="Which of the distances between the styles of two clusters is that of the clusters: their average, the "
        "largest (complete) or the smallest (single). Default: %(default)s.",
    )
    cuts = parser.add_mutually_exclusive_group()
    cuts.add_argument(
        "--num_clusters",
        type=int,
        help="How many clusters the dendrogram is cut into. Default: the number with the highest mean silhouette "
        "width.",
    )
    cuts.add_argument(
        "--min_correlation", type=float, help="Clusters are merged if their correlation is at least this, instead."
    )
    parser.add_argument(
        "--num_top_styles",
        type=int,
        default=defaults.num_top_styles,
        help="A cluster is written if it holds one of so many styles with the most Partial Gen Bias. Default: "
        "%(default)s, as in the paper.",
    )
    parser.add_argument(
        "--num_written",
        type=int,
        default=defaults.num_written,
        help="How many of these clusters are written at most, those with the most Partial Gen Bias. Default: "
        "%(default)s, as in the paper.",
    )
    parser.add_argument(
        "--num_splits",
        type=int,
        default=defaults.num_splits,
        help="How often replies are split into halves, which are clustered anew. Default: %(default)s.",
    )
    parser.add_argument("--seed", type=int, default=defaults.seed, help="Chooses the halves. Default: %(default)s.")
    return parser


def write_files(folder: Path, results: Mapping[str, Any]) -> None:
    """Writes the clusters, the page and the results, which hold the digests of the other two.

    Raises:
        ValueError: A file of that name is there that is not as this command wrote it.
    """
    texts = {CLUSTERS_FILE: clusters_text(results), PAGE_FILE: clusters_page(results)}
    digests = {name: _digest(text.encode()) for name, text in texts.items()}
    texts[RESULTS_FILE] = json.dumps({**results, "files": digests}, ensure_ascii=False, allow_nan=False) + "\n"
    check_ours(folder, texts)
    for name, text in texts.items():
        write_text(folder / name, text)


def check_ours(folder: Path, texts: Mapping[str, str]) -> None:
    """Raises a ValueError if a file that would be replaced was not written by this command, or was edited since."""
    path = folder / RESULTS_FILE
    digests: Mapping[str, str] = {}
    if path.exists():
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, IsADirectoryError):
            before = None
        if not is_results(before):
            raise ValueError(THERE_ERROR.format(path=path))
        digests = before["files"]
    for name, text in texts.items():
        other = folder / name
        if name == RESULTS_FILE or not other.exists():
            continue
        content = other.read_bytes() if other.is_file() else None
        if content is None or (content != text.encode() and _digest(content) != digests.get(name)):
            raise ValueError(THERE_ERROR.format(path=other))


def clusters_text(results: Mapping[str, Any]) -> str:
    """The clusters that are written, as YAML that `read_style_clusters` reads."""
    clusters = {cluster["name"]: cluster["styles"] for cluster in results["clusters"] if cluster["written"]}
    settings = ", ".join(f"{name} {value}" for name, value in results["settings"].items() if value is not None)
    about = {name: " ".join(str(value).split()) for name, value in results["run"].items()}
    names = "".join(style for styles in clusters.values() for style in styles)
    body = yaml.safe_dump(
        {"clusters": clusters},
        sort_keys=False,
        allow_unicode=not _LINE_BREAKS.search(names),  # else escaped: our files have no line breaks of other kinds
        width=2**20,
        default_flow_style=None,
    )
    return HEADER.format(settings=settings, **about) + body


def summary_lines(results: Mapping[str, Any]) -> list[str]:
    """The lines that the terminal prints."""
    cut, reliability, comparison = results["cut"], results["reliability"], results["comparison"]
    lines = [
        f"{len(results['styles'])} styles in {cut['num_clusters']} clusters, from {results['num_samples']:,} "
        f"{results['settings']['samples']}",
        f"  reliability of the correlations {rho(reliability['correlations'])}"
        + ("" if reliability["means"] is None else f", of the descriptors' means {rho(reliability['means'])}"),
    ]
    if results["still_styles"]:
        lines.append(f"  left out, since they do not vary: {len(results['still_styles'])} styles")
    if comparison is not None:
        lines.append(
            f"  adjusted Rand index with {comparison['name']}: {rho(comparison['adjusted_rand'])}, over "
            f"{comparison['num_styles']} styles"
        )
    written = [cluster for cluster in results["clusters"] if cluster["written"]]
    if names := opposed(written):
        lines.append(f"  negatively correlated styles, which do not go together, are in: {', '.join(names)}")
    lines.append("  Partial Gen Bias, Jaccard index with halves, styles:")
    return lines + [
        f"  {bias(cluster['partial_gen_bias']):>6}  {fixed(cluster['jaccard'], 2)}  {', '.join(cluster['styles'])}"
        for cluster in written
    ]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    main()
