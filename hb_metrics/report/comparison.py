"""Two runs side by side, such as before and after tuning, or two models. Laid out by `comparison.html.jinja`."""

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
from hb_metrics.report.rendering import write_page

MEASURED = ("generation", "offensiveness", "likelihood_bias")
NUM_STYLES = 10  # shown of those whose variance fell most, and of those where it rose most

NOTHING_IN_COMMON_ERROR = (
    "'{first}' measured {before} and '{second}' {after}; give two runs that have a measurement in common"
)


def write_comparison(first: Path, second: Path, path: Path) -> None:
    """Writes a page with two runs side by side.

    Args:
        first: The folder of a run, such as before tuning.
        second: The folder of the other.
        path: The HTML file to write.

    Raises:
        ValueError: A folder is not that of a finished run, or the runs have no measurement in common.
    """
    before, after = read_run(first), read_run(second)
    common = [name for name in MEASURED if name in before.results and name in after.results]
    if not common:
        had = [", ".join(name for name in MEASURED if name in run.results) or "nothing" for run in (before, after)]
        raise ValueError(NOTHING_IN_COMMON_ERROR.format(first=first, before=had[0], second=second, after=had[1]))
    names = _names(before, after)
    differences = tables_comparison.differing_settings(before.results["run"], after.results["run"])
    context: dict[str, Any] = {
        "names": names,
        "runs": [before.results["run"], after.results["run"]],
        "differences": differences,
        "warnings": tables_comparison.warnings(differences),
        "only_one": [name for name in MEASURED if (name in before.results) != (name in after.results)],
        "generation": None,
        "offensiveness": None,
        "likelihood": None,
        "paper": paper,
    }
    figures: dict[str, Any] = {}
    terms = None
    if "generation" in common:
        context["generation"], terms = _generation(before, after)
        groups = context["generation"]["bias"]
        if "Full Gen Bias by axis" in groups:
            rows = groups["Full Gen Bias by axis"]
            figures["gen-bias-change"] = [_figure(rows, f"×1000, {context['generation']['kind']}", names)]
        clusters = [(name, groups[name]) for name in groups if name.endswith("by cluster")]
        if clusters:
            figures["cluster-change"] = [_figure(rows, "×1000", names) for name, rows in clusters]
    if "offensiveness" in common:
        context["offensiveness"] = tables_comparison.offensiveness_changes(
            before.results["offensiveness"], after.results["offensiveness"]
        )
        for heading, rows in context["offensiveness"].items():
            if heading.endswith("by axis"):
                figures.setdefault("offensiveness-change", []).append(_figure(rows, heading, names, ".1~%"))
    if "likelihood_bias" in common:
        context["likelihood"] = tables_comparison.likelihood_changes(
            before.results["likelihood_bias"], after.results["likelihood_bias"]
        )
        figures["likelihood-change"] = [_figure(context["likelihood"], "Likelihood Bias", names, ".0%")]
    write_page("comparison.html.jinja", path, context, figures, terms)


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


def _names(before: Run, after: Run) -> tuple[str, str]:
    """What the runs are called: by their models where these differ, else by their folders."""
    models = before.results["run"]["model"]["name"], after.results["run"]["model"]["name"]
    if models[0] != models[1]:
        return models
    return before.folder.resolve().name, after.folder.resolve().name


def _figure(rows: list[Change], title: str, names: tuple[str, str], tickformat: str | None = None) -> dict[str, Any]:
    return plain(change_figure(rows, title, names, tickformat))
