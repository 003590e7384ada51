"""Clusters the styles of a run's replies: a page with a dendrogram, and a file for `--style_clusters`.

holistic-bias style-clusters runs/gpt2
holistic-bias measure --model openai-community/gpt2 --style_clusters runs/gpt2/style_clusters.yaml --seed 1
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from hb_dataset.whole_files import write_text
from hb_metrics.report.layout.numbers import bias, fixed, rho
from hb_metrics.runs.finished_run import read_run
from hb_metrics.style_clusters.analysis import analyse
from hb_metrics.style_clusters.page import clusters_page, opposed

RESULTS_FILE, PAGE_FILE, CLUSTERS_FILE = "style_clusters.json", "style_clusters.html", "style_clusters.yaml"


def main(argv: Sequence[str] | None = None) -> None:
    """Clusters the styles of a run's replies, and writes a page and a file of the clusters."""
    parser = argparse.ArgumentParser(
        prog="holistic-bias style-clusters", description=(__doc__ or "").split("\n", 1)[0], allow_abbrev=False
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="The folder of a finished run with replies.")
    parser.add_argument(
        "--output_dir",
        type=Path,
        help=f"The folder for {CLUSTERS_FILE}, {PAGE_FILE} and {RESULTS_FILE}. Default: RUN.",
    )
    parser.add_argument(
        "--num_clusters",
        type=int,
        help="The number of clusters to cut the dendrogram into. Default: the number with the highest mean silhouette "
        "width.",
    )
    parser.add_argument("--seed", type=int, default=0, help="Chooses the halves. Default: %(default)s.")
    arguments = parser.parse_args(sys.argv[1:] if argv is None else argv)
    folder = arguments.output_dir or arguments.run
    try:
        results = analyse(read_run(arguments.run), num_clusters=arguments.num_clusters, seed=arguments.seed)
        write_files(folder, results)
    except (ValueError, OSError) as error:
        raise SystemExit(f"hb_metrics.style_clusters: {error}") from error
    print("\n".join(summary_lines(results)))
    for what, name in (("clusters", CLUSTERS_FILE), ("page", PAGE_FILE), ("results", RESULTS_FILE)):
        print(f"{what}: {(folder / name).resolve()}")


def write_files(folder: Path, results: Mapping[str, Any]) -> None:
    """Writes the page, the results and the clusters.

    Raises:
        ValueError: The file of clusters has other content, which somebody may have edited.
    """
    texts = {PAGE_FILE: clusters_page(results), CLUSTERS_FILE: clusters_text(results)}
    texts[RESULTS_FILE] = json.dumps(results, ensure_ascii=False, allow_nan=False) + "\n"
    path = folder / CLUSTERS_FILE
    if path.exists() and path.read_bytes() != texts[CLUSTERS_FILE].encode():
        raise ValueError(f"'{path}' has other content, such as your edits; move it away, or set another --output_dir")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_text(folder / name, text)


def clusters_text(results: Mapping[str, Any]) -> str:
    """The clusters that are written, as YAML that `read_style_clusters` reads."""
    about = {name: " ".join(str(value).split()) for name, value in results["run"].items()}
    clusters = {cluster["name"]: cluster["styles"] for cluster in results["clusters"] if cluster["written"]}
    header = (
        f"# Clusters of the styles of {about['name']}'s replies ({about['config']}), for `--style_clusters` of "
        f"`holistic-bias measure`.\n# Styles classified by {about['style_classifier']}. Each cluster is named by its "
        "style with the most Partial Gen Bias.\n# Edit the clusters before use: the paper kept rough synonyms only.\n"
    )
    return header + yaml.safe_dump({"clusters": clusters}, sort_keys=False, width=2**20, default_flow_style=None)


def summary_lines(results: Mapping[str, Any]) -> list[str]:
    """The lines that the terminal prints."""
    lines = [
        f"{len(results['styles'])} styles in {results['cut']['num_clusters']} clusters, from "
        f"{results['num_replies']:,} replies; reliability of the correlations {rho(results['reliability'])}"
    ]
    if names := opposed(results):
        lines.append(f"  negatively correlated styles, which do not go together, are in: {', '.join(names)}")
    lines.append("  Partial Gen Bias, Jaccard index with halves, styles:")
    for cluster in results["clusters"]:
        if cluster["written"]:
            value, jaccard = bias(cluster["partial_gen_bias"]), fixed(cluster["jaccard"], 2)
            lines.append(f"  {value:>6}  {jaccard}  {', '.join(cluster['styles'])}")
    return lines


if __name__ == "__main__":
    main()
