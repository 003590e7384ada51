"""Two runs' generation bias in detail: values with their intervals, styles, terms, and reply checks."""

from pathlib import Path
from typing import Any

from markupsafe import Markup

from hb_metrics.display.change_figure import Change, change_figure
from hb_metrics.display.figures import plain
from hb_metrics.display.numbers import bias, interval, share
from hb_metrics.display.parts import Comparison, Section, Tile, written_interval
from hb_metrics.display.rendering import render
from hb_metrics.measurements.generation import changes
from hb_metrics.measurements.generation.refusals_report import refusal_changes
from hb_metrics.reply_checks.phrase_rates import DescriptorGroup, phrase_rates
from hb_metrics.reply_checks.style_change import style_change
from hb_metrics.runs.finished_run import Run, read_stored_replies, read_styles
from hb_metrics.runs.replies import Replies
from hb_metrics.statistics.bias_values import DescriptorKey

NUM_STYLES = 10  # styles shown whose variance fell most, and as many whose variance rose most


def generation_comparison(before: Run, after: Run, names: tuple[str, str], folder: Path) -> Comparison:
    """What generation bias adds to the comparison of two runs; `folder` has the templates."""
    context, terms = compared_generation(before, after)
    shared = {"generation": context}
    figures = comparison_figures(context, names)
    full, parroting = context["bias"]["Full Gen Bias"][0], context["parroting"][0]
    bounds = full.first_interval, full.second_interval
    below = () if None in bounds else (f"intervals {interval(bounds[0])} and {interval(bounds[1])}",)
    kind = "debiased" if context["debiased"] else "plain"
    return Comparison(
        [
            Section("generation", "Generation bias", render(folder / "comparison_values.html.jinja", shared), figures),
            Section("styles", "Styles", render(folder / "comparison_styles.html.jinja", shared), {}),
            Section("refusals", "Refusals", _refusals(before, after, folder), {}),
            Section("examples-of-both", "Replies side by side", render(folder / "comparison_terms.html.jinja", {}), {}),
            Section("checks", "Reply checks", render(folder / "comparison_checks.html.jinja", shared), {}),
        ],
        [
            Tile(f"Full Gen Bias, {kind}", f"{bias(full.first)} → {bias(full.second)}", below),
            Tile("parroting replies", f"{share(parroting.first)} → {share(parroting.second)}"),
        ],
        reading=render(folder / "comparison_reading.html.jinja", {}),
        terms={**terms, "names": names},
    )


def compared_generation(before: Run, after: Run) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the sections of the comparison show, and what the script needs to show a term in both runs."""
    first, second = before.results["generation"], after.results["generation"]
    debiased = first["debiased"] is not None and second["debiased"] is not None
    replies = read_stored_replies(after.folder)
    phrases, groups = _phrases(first["phrase_rates"], second["phrase_rates"], replies)
    styles, styles_problem = _style_change(before, after)
    context = {
        "bias": changes.gen_bias_changes(first, second, debiased),
        "kind": "debiased" if debiased else "plain, sampling noise included",
        "debiased": debiased,
        "level": first["gen_bias"]["confidence_level"],
        "replies_per_cell": [run["gen_bias"]["mean_replies_per_cell"] for run in (first, second)],
        "plain": [run["gen_bias"]["full_gen_bias"] for run in (first, second)],
        "noise": [run["gen_bias"]["noise_floor"] for run in (first, second)],
        "parroting": changes.parroting_changes(first["parroting"], second["parroting"]),
        "parroting_rho": changes.parroting_change_correlation(first, second),
        "phrases": phrases,
        "groups": groups,
        "styles": styles,
        "styles_problem": styles_problem,
    }
    by_prompt = None if replies is None else dict(zip(replies.prompts, replies.texts, strict=True))
    return context, changes.term_changes(first, second, by_prompt)


def _refusals(before: Run, after: Run, folder: Path) -> Markup:
    first, second = before.results["generation"], after.results["generation"]
    context = {
        "changes": refusal_changes(first, second),
        "level": f"{first['gen_bias']['confidence_level']:.0%}",
        "written_interval": lambda bounds: written_interval(bounds, "share"),
    }
    return render(folder / "comparison_refusals.html.jinja", {"refusals": context})


def comparison_figures(context: dict[str, Any], names: tuple[str, str]) -> dict[str, list[dict[str, Any]]]:
    """Plots of Full Gen Bias of both runs by axis, and of Gen Bias by style cluster."""
    figures = {}
    groups = context["bias"]
    if "Full Gen Bias by axis" in groups:
        figure = change_figure(groups["Full Gen Bias by axis"], f"×1000, {context['kind']}", names, None)
        figures["gen-bias-change"] = [plain(figure)]
    clusters = [rows for heading, rows in groups.items() if heading.endswith("by cluster")]
    if clusters:
        figures["cluster-change"] = [plain(change_figure(rows, "×1000", names, None)) for rows in clusters]
    return figures


def _phrases(
    first: dict[str, Any], second: dict[str, Any], replies: Replies | None
) -> tuple[list[tuple[str, str, Change]], dict[str, dict[str, Any]]]:
    """Phrase rates of all replies, and of the first run's groups of descriptors in both runs."""
    groups = first["groups"]
    if replies is None:
        return changes.phrase_changes(first["phrases"], second["phrases"]), {}
    rates = phrase_rates(
        replies.texts,
        replies.descriptors,
        replies.axes,
        groups=[
            DescriptorGroup(name, [DescriptorKey(row["axis"], row["descriptor"]) for row in group["descriptors"]])
            for name, group in groups.items()
        ],
        phrases={heading: list(phrases) for heading, phrases in first["phrases"].items()},
    )
    counted = {
        name: {
            "num_descriptors": group["num_descriptors"],
            "num_replies": [group["num_replies"], rates["groups"][name]["num_replies"]],
            "rows": changes.phrase_changes(group["phrases"], rates["groups"][name]["phrases"]),
        }
        for name, group in groups.items()
    }
    return changes.phrase_changes(first["phrases"], rates["phrases"]), counted


def _style_change(before: Run, after: Run) -> tuple[dict[str, Any] | None, str | None]:
    """What changed in the styles, or why that cannot be known."""
    styles = read_styles(before), read_styles(after)
    if styles[0] is None or styles[1] is None:
        return None, "a run's style_means.parquet is not there"
    try:
        change = style_change(styles[0], styles[1])
    except ValueError as error:
        return None, str(error)
    rows = change["styles"]
    falling = [row for row in rows if row["variance"]["change"] < 0][:NUM_STYLES]
    rising = [row for row in rows if row["variance"]["change"] > 0][-NUM_STYLES:]
    return {**change, "shown": {"decreases": falling, "increases": rising}}, None
