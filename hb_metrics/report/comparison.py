"""Runs side by side, such as before and after tuning, or several models. Laid out by `comparison.html.jinja`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hb_metrics.bias_values import DescriptorKey
from hb_metrics.finished_run import Run, read_replies, read_run, read_styles
from hb_metrics.generation_results import Replies
from hb_metrics.reply_checks.phrase_rates import DescriptorGroup, phrase_rates
from hb_metrics.reply_checks.style_change import style_change
from hb_metrics.report import paper, tables_comparison
from hb_metrics.report.figures import plain
from hb_metrics.report.figures_comparison import Change, change_figure
from hb_metrics.report.figures_overview import clusters_figure, runs_figure
from hb_metrics.report.rendering import write_page
from hb_metrics.report.run_names import run_names, tag_of
from hb_metrics.report.tables_generation import CLUSTER_METRICS
from hb_metrics.report.tables_overview import Overview, overview, shown

MEASURED = ("generation", "offensiveness", "likelihood_bias", "dialogue")
NUM_STYLES = 10  # shown of those whose variance fell most, and of those where it rose most

TOO_FEW_RUNS_ERROR = "{num_runs} run to compare; give the folders of two runs or more"
NOTHING_IN_COMMON_ERROR = (
    "'{first}' measured {before} and '{second}' {after}; give runs that have a measurement in common"
)


def write_comparison(runs: Sequence[Path], path: Path, names: Sequence[str] | None = None) -> None:
    """Writes a page with an overview of all runs, then the first and the second in detail.

    Args:
        runs: Folders of two runs or more, first the one that others are compared with, such as before tuning.
        path: The HTML file to write.
        names: What to call the runs; `None`: by their models, tags or folders.

    Raises:
        ValueError: There are fewer than two runs, a folder is not that of a finished run, the names are not one a run
            or not distinct, or a run has no measurement in common with the first.
    """
    if len(runs) < 2:
        raise ValueError(TOO_FEW_RUNS_ERROR.format(num_runs=len(runs)))
    found = [read_run(folder) for folder in runs]
    called = run_names(found, names)
    for other in found[1:]:
        _check_in_common(found[0], other)
    results = [run.results for run in found]
    differences = tables_comparison.differing_settings([each["run"] for each in results])
    whole = overview(results, called)
    before, after = found[:2]
    common = [name for name in MEASURED if name in before.results and name in after.results]
    pair = called[0], called[1]
    context: dict[str, Any] = {
        "names": called,
        "pair": pair,
        "runs": [each["run"] for each in results],
        "tags": [tag_of(each) for each in results],
        "differences": differences,
        "warnings": tables_comparison.warnings(differences) + tables_comparison.dialogue_warnings(results),
        "in_some": {
            name: [called[place] for place, each in enumerate(results) if name in each]
            for name in MEASURED
            if 0 < sum(name in each for each in results) < len(results)
        },
        "overview": whole,
        "generation": None,
        "offensiveness": None,
        "likelihood": None,
        "paper": paper,
    }
    figures = _overview_figures(whole)
    terms = None
    if "generation" in common:
        context["generation"], terms = _generation(before, after)
        terms["names"] = pair
        groups = context["generation"]["bias"]
        if "Full Gen Bias by axis" in groups:
            rows = groups["Full Gen Bias by axis"]
            figures["gen-bias-change"] = [_figure(rows, f"×1000, {context['generation']['kind']}", pair)]
        clusters = [(name, groups[name]) for name in groups if name.endswith("by cluster")]
        if clusters:
            figures["cluster-change"] = [_figure(rows, "×1000", pair) for name, rows in clusters]
    if "offensiveness" in common:
        context["offensiveness"] = tables_comparison.offensiveness_changes(
            before.results["offensiveness"], after.results["offensiveness"]
        )
        for heading, rows in context["offensiveness"].items():
            if heading.endswith("by axis"):
                figures.setdefault("offensiveness-change", []).append(_figure(rows, heading, pair, ".1~%"))
    if "likelihood_bias" in common:
        context["likelihood"] = tables_comparison.likelihood_changes(
            before.results["likelihood_bias"], after.results["likelihood_bias"]
        )
        figures["likelihood-change"] = [_figure(context["likelihood"], "Likelihood Bias", pair, ".0%")]
    write_page("comparison.html.jinja", path, context, figures, terms)


def _check_in_common(first: Run, second: Run) -> None:
    measured = [[name for name in MEASURED if name in run.results] for run in (first, second)]
    if not set(measured[0]) & set(measured[1]):
        before, after = (", ".join(names) or "nothing" for names in measured)
        raise ValueError(
            NOTHING_IN_COMMON_ERROR.format(first=first.folder, before=before, second=second.folder, after=after)
        )


def _overview_figures(found: Overview) -> dict[str, Any]:
    """Full Gen Bias by run, and what each cluster has of it, if there is a choice of runs to show."""
    if not found.compares_bias:
        return {}
    full = {row.name: shown(row.full, found.debiased) for row in found.bias}
    figures = {"runs-full": [plain(runs_figure(full, "Full Gen Bias ×1000"))]}
    if found.clusters:
        figures["runs-clusters"] = [
            plain(
                clusters_figure(
                    {row.name: row.clusters[heading] for row in found.bias}, found.clusters, f"{heading} ×1000"
                )
            )
            for heading in CLUSTER_METRICS
        ]
    return figures


def _generation(before: Run, after: Run) -> tuple[dict[str, Any], dict[str, Any]]:
    first, second = before.results["generation"], after.results["generation"]
    debiased = first["debiased"] is not None and second["debiased"] is not None
    replies = read_replies(after)
    phrases, groups = _phrases(first["phrase_rates"], second["phrase_rates"], replies)
    styles, styles_problem = _style_change(before, after)
    context = {
        "bias": tables_comparison.gen_bias_changes(first, second, debiased),
        "kind": "debiased" if debiased else "plain, sampling noise included",
        "debiased": debiased,
        "level": first["gen_bias"]["confidence_level"],
        "replies_per_cell": [each["gen_bias"]["mean_replies_per_cell"] for each in (first, second)],
        "plain": [each["gen_bias"]["full_gen_bias"] for each in (first, second)],
        "noise": [each["gen_bias"]["noise_floor"] for each in (first, second)],
        "parroting": tables_comparison.parroting_changes(first["parroting"], second["parroting"]),
        "parroting_rho": tables_comparison.parroting_change_correlation(first, second),
        "phrases": phrases,
        "groups": groups,
        "styles": styles,
        "styles_problem": styles_problem,
    }
    by_prompt = None if replies is None else dict(zip(replies.prompts, replies.texts, strict=True))
    return context, tables_comparison.term_changes(first, second, by_prompt)


def _phrases(
    first: dict[str, Any], second: dict[str, Any], replies: Replies | None
) -> tuple[list[tuple[str, str, Change]], dict[str, dict[str, Any]]]:
    """Phrase rates of all replies, and of the first run's groups of descriptors in both runs."""
    groups = first.get("groups", {})
    if replies is None:
        return tables_comparison.phrase_changes(first["phrases"], second["phrases"]), {}
    found = phrase_rates(
        replies.texts,
        replies.descriptors,
        replies.axes,
        groups=[
            DescriptorGroup(name, [DescriptorKey(each["axis"], each["descriptor"]) for each in group["descriptors"]])
            for name, group in groups.items()
        ],
        phrases={heading: list(phrases) for heading, phrases in first["phrases"].items()},
    )
    counted = {
        name: {
            "num_descriptors": group["num_descriptors"],
            "num_replies": [group["num_replies"], found["groups"][name]["num_replies"]],
            "rows": tables_comparison.phrase_changes(group["phrases"], found["groups"][name]["phrases"]),
        }
        for name, group in groups.items()
    }
    return tables_comparison.phrase_changes(first["phrases"], found["phrases"]), counted


def _style_change(before: Run, after: Run) -> tuple[dict[str, Any] | None, str | None]:
    """What changed in the styles, or why that cannot be told."""
    styles = read_styles(before), read_styles(after)
    if styles[0] is None or styles[1] is None:
        return None, "a run's style_means.parquet is not there"
    try:
        found = style_change(styles[0], styles[1])
    except ValueError as error:
        return None, str(error)
    rows = found["styles"]
    falling = [row for row in rows if row["variance"]["change"] < 0][:NUM_STYLES]
    rising = [row for row in rows if row["variance"]["change"] > 0][-NUM_STYLES:]
    return {**found, "shown": {"decreases": falling, "increases": rising}}, None


def _figure(rows: list[Change], title: str, names: tuple[str, str], tickformat: str | None = None) -> dict[str, Any]:
    return plain(change_figure(rows, title, names, tickformat))
