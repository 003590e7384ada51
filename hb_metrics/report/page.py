"""The report of one run: which sections it has, and what stands in them. Laid out by `report.html.jinja`."""

from pathlib import Path
from typing import Any, NamedTuple

from hb_metrics.report import (
    paper,
    tables_generation,
    tables_offensiveness,
    tables_reddit,
    tables_regard,
    tables_robustness,
)
from hb_metrics.report.figures import plain
from hb_metrics.report.figures_generation import frequency_figure, interval_figure, strip_figure, styles_figure
from hb_metrics.report.figures_likelihood import likelihood_bias_figure, perplexity_figure
from hb_metrics.report.figures_offensiveness import axis_offensiveness_figure, template_offensiveness_figure
from hb_metrics.report.figures_reddit import share_figure, t_figure
from hb_metrics.report.figures_regard import distribution_figure, ends_figure, gaps_figure, means_figure
from hb_metrics.report.figures_robustness import templates_figure
from hb_metrics.report.rendering import slot, write_page
from hb_metrics.report.run_names import tag_of
from hb_metrics.report.tables_likelihood import paper_comparisons, same_length_extremes

EMBEDDED_STYLES = "MiniLM style exemplars (embedded)"
EMBEDDED_OFFENSIVENESS = "alt-profanity-check (embedded)"
EMBEDDED_REGARD = "MiniLM regard exemplars (embedded)"
_MEASURED = {
    "generation": "generation bias",
    "offensiveness": "offensiveness",
    "likelihood_bias": "Likelihood Bias",
    "robustness": "how much the templates decide",
}
_MEASURED_ELSEWHERE = {
    "reddit": "Language Model Bias on RedditBias",
    "regard": "Regard of continuations of prompts in many syntactic structures",
}


class Coverage(NamedTuple):
    """How much of the vocabulary a run is about."""

    num_descriptors: int
    num_axes: int
    num_templates: int


class Section(NamedTuple):
    """A part of the page: its template's and figures' content.

    Attributes:
        context: Names in the template.
        figures: Id of an element → the figures to choose from.
    """

    context: dict[str, Any]
    figures: dict[str, list[dict[str, Any]]]


def write_report(results: dict[str, Any], path: Path) -> None:
    """Writes the report of a run.

    Args:
        results: The content of results.json, with any of its measurements.
        path: The HTML file to write.
    """
    frequencies = results.get("frequencies")
    generation = results.get("generation")
    sections = {
        "generation": None if generation is None else _generation(generation),
        "terms_section": None if generation is None else _terms(generation),
        "frequency": _frequency(generation, frequencies),
        "offensiveness": _offensiveness(results["offensiveness"]) if "offensiveness" in results else None,
        "likelihood": _likelihood(results) if "likelihood_bias" in results else None,
        "robustness": _robustness(results["robustness"]) if "robustness" in results else None,
        "reddit": _reddit(results["reddit"]) if "reddit" in results else None,
        "regard": _regard(results["regard"]) if "regard" in results else None,
    }
    figures: dict[str, Any] = {}
    for section in sections.values():
        figures |= section.figures if section is not None else {}
    run = results["run"]
    context = {
        "run": run,
        "measured": [words for name, words in _MEASURED.items() if name in results],
        "measured_elsewhere": [words for name, words in _MEASURED_ELSEWHERE.items() if name in results],
        "coverage": coverage(results),
        "measure": "pseudo-perplexity" if run["model"]["kind"] == "masked" else "perplexity",
        "embedded_styles": run.get("style_classifier", {}).get("name") == EMBEDDED_STYLES,
        "embedded_offensiveness": run.get("offensiveness_classifier", {}).get("name") == EMBEDDED_OFFENSIVENESS,
        "embedded_regard": run.get("regard", {}).get("classifier") == EMBEDDED_REGARD,
        "dialogue": results.get("dialogue"),
        "tag": tag_of(results),
        "paper": paper,
        **{name: None if section is None else section.context for name, section in sections.items()},
    }
    terms = None if generation is None else tables_generation.chooser_content(generation, frequencies)
    write_page("report.html.jinja", path, context, figures, terms)


def coverage(results: dict[str, Any]) -> Coverage | None:
    """Counts descriptors, axes and templates, from whatever was measured; `None`: nothing was."""
    if "perplexity" in results:
        rows = results["perplexity"]["by_descriptor"]
        return Coverage(len(rows), len({row["axis"] for row in rows}), len(results["perplexity"]["templates"]))
    if "offensiveness" in results:
        found = results["offensiveness"]["prompts"]
        return Coverage(found["num_descriptors"], found["num_axes"], found["num_templates"])
    if "generation" in results:
        rows = results["generation"]["by_descriptor"]
        return Coverage(
            len(rows), len({row["axis"] for row in rows}), results["generation"]["gen_bias"]["num_templates"]
        )
    return None


def _likelihood(results: dict[str, Any]) -> Section:
    likelihood, perplexity = results["likelihood_bias"], results["perplexity"]
    measure = "pseudo-perplexity" if results["run"]["model"]["kind"] == "masked" else "perplexity"
    templates = perplexity["templates"]
    chosen = paper.EXTREMES_TEMPLATE if paper.EXTREMES_TEMPLATE in templates else templates[0]
    return Section(
        {
            "bias": likelihood,
            "perplexity": perplexity,
            "extremes_template": chosen,
            "extremes": same_length_extremes(perplexity, chosen),
            "papers": paper_comparisons(likelihood),
        },
        {
            "likelihood-bias": [plain(likelihood_bias_figure(likelihood))],
            "perplexities-plot": [plain(perplexity_figure(perplexity, template, measure)) for template in templates],
        },
    )


def _generation(generation: dict[str, Any]) -> Section:
    bias = generation["gen_bias"]
    full = tables_generation.full_gen_bias(generation)
    by_axis = tables_generation.gen_bias_by_axis(generation, paper.GEN_BIAS_BY_AXIS)
    partial = tables_generation.gen_bias_by_cluster(generation, "partial_gen_bias", paper.PARTIAL_GEN_BIAS)
    summed = tables_generation.gen_bias_by_cluster(generation, "summed_cluster_gen_bias", paper.SUMMED_CLUSTER_GEN_BIAS)
    styles = tables_generation.most_varying_styles(generation)
    noise = "sampling noise included" if generation["debiased"] is None else "debiased"
    level = bias["confidence_level"]
    bars = [(row.measured.name, tables_generation.best(row.measured)) for row in styles]
    figures = {"styles-plot": [styles_figure(bars, f"×1000, {noise}")]}
    if by_axis:
        figures["gen-bias-by-axis"] = [interval_figure([row.measured for row in by_axis], "Full Gen Bias ×1000", level)]
    if partial:
        figures["gen-bias-by-cluster"] = [
            interval_figure([row.measured for row in rows], f"{name} ×1000", level)
            for rows, name in ((partial, "Partial Gen Bias"), (summed, "Summed-Cluster Gen Bias"))
        ]
    return Section(
        {
            **{name: value for name, value in generation.items() if name.startswith(("num_", "mean_"))},
            "bias": bias,
            "full": full,
            "no_intervals": tables_generation.missing_intervals(
                {
                    "Full Gen Bias": [full, *(row.measured for row in by_axis)],
                    "Partial Gen Bias": [row.measured for row in partial],
                    "Summed-Cluster Gen Bias": [row.measured for row in summed],
                }
            ),
            "by_axis": by_axis,
            "by_axis_rho": tables_generation.rank_correlations(by_axis),
            "clusters": [
                ("Partial Gen Bias", partial, "Tables 4 and 8"),
                ("Summed-Cluster Gen Bias", summed, "Table 9"),
            ],
            "paper_clusters": any(value is not None for row in partial for value in row.printed.values()),
            "cluster_styles": bias["clusters"] or {},
            "styles": styles,
            "parroting": generation["parroting"],
            "phrases": tables_generation.phrase_table(generation["phrase_rates"]),
            "phrase_rates": generation["phrase_rates"],
        },
        {name: [plain(figure) for figure in drawn] for name, drawn in figures.items()},
    )


def _terms(generation: dict[str, Any]) -> Section:
    found = tables_generation.terms_by_cluster(generation)
    means = tables_generation.cluster_means(generation)
    strips = [
        plain(strip_figure(terms, cluster, mean)) for (cluster, terms), mean in zip(found.items(), means, strict=True)
    ]
    return Section(
        {"terms": generation["by_descriptor"], "clusters": list(found), "num_examples": len(generation["examples"])},
        {"terms-plot": strips} if strips else {},
    )


def _frequency(generation: dict[str, Any] | None, frequencies: dict[str, Any] | None) -> Section | None:
    if generation is None or frequencies is None:
        return None
    table = tables_generation.frequency_table(generation, frequencies)
    drawn = {cluster: terms for cluster, terms in table.terms_by_cluster.items() if terms}
    if not drawn:
        return None
    first = next(iter(drawn.values()))
    return Section(
        {
            "source": frequencies["source"],
            "is_default": frequencies["is_default"],
            "clusters": list(drawn),
            "rho": table.rho_by_cluster,
            "terms": first,
            "by_term": list(zip(*drawn.values(), strict=True)),
            "num_terms": len(first),
            "num_never": sum(term.per_million == 0 for term in first),
            "num_several_words": table.num_several_words,
            "num_unknown": table.num_unknown,
        },
        {"frequency-plot": [plain(frequency_figure(terms, cluster)) for cluster, terms in drawn.items()]},
    )


def _offensiveness(offensiveness: dict[str, Any]) -> Section:
    prompts = offensiveness["prompts"]
    templates = tables_offensiveness.by_template(prompts)
    axes = tables_offensiveness.by_axis(offensiveness)
    drawn = [(slot(row.template), row.mean, row.std, row.paper_mean) for row in templates]
    return Section(
        {
            "prompts": prompts,
            "replies": offensiveness.get("replies"),
            "templates": templates,
            "axes": axes,
            "extremes": tables_offensiveness.extremes(prompts),
        },
        {
            "offensiveness-by-template": [plain(template_offensiveness_figure(drawn))],
            "offensiveness-by-axis": [
                plain(axis_offensiveness_figure([(row.label, row.prompts, row.replies) for row in axes]))
            ],
        },
    )


def _reddit(reddit: dict[str, Any]) -> Section:
    rows = tables_reddit.reddit_rows(reddit)
    return Section(
        {
            "rows": rows,
            "split": rows[0].found["split"],
            "filtered": rows[0].found["outliers"] == "pair",
            "lmp": reddit["lmp"],
            "lmp_num_texts": reddit["lmp_num_texts"],
            "lmp_source": reddit["lmp_source"],
            "lmp_left_out": sum(reddit["lmp_num_skipped"].values()),
        },
        {"reddit-t": [plain(t_figure(rows))], "reddit-share": [plain(share_figure(rows))]},
    )


def _robustness(robustness: dict[str, Any]) -> Section:
    rows = tables_robustness.robustness_rows(robustness)
    keys = {row.key for row in rows}
    return Section(
        {
            "rows": rows,
            "sentences": [tables_robustness.robustness_sentence(row) for row in rows],
            "extremes": [(row, tables_robustness.extremes(row)) for row in rows],
            "by_axis": [(row, tables_robustness.by_axis(row)) for row in rows],
            "num_halves": rows[0].found["num_halves"],
            "all_splits": rows[0].found["all_splits"],
            "odd": any(row.found["num_templates"] % 2 for row in rows),
            "has_gen_bias": "full_gen_bias" in keys,
            "has_debiased": "full_gen_bias_debiased" in keys,
        },
        {"robustness-templates": [plain(templates_figure(row)) for row in rows]},
    )


def _regard(regard: dict[str, Any]) -> Section:
    bias = regard["bias"]
    groups, gaps = tables_regard.group_rows(bias), tables_regard.gap_rows(bias)
    structures = {row.name: row for row in tables_regard.structure_rows(regard)}
    several = len(structures) > 1
    group_ends = tables_regard.group_ends(bias) if several else []
    gap_ends = tables_regard.gap_ends(bias) if several else []
    level = bias["confidence_level"]
    kl = bias["kl_divergence"] if len(groups) > 1 else None
    figures = {
        "regard-means": means_figure(groups, level),
        "regard-labels": distribution_figure(groups, bias["labels"]),
    }
    if gaps:
        figures["regard-gaps"] = gaps_figure(gaps, level)
    if group_ends:
        ends = ("best structures", "worst structures")
        figures["regard-ends"] = ends_figure(group_ends, [row.found["mean"] for row in groups], "mean regard", ends)
    if gap_ends:
        ends = ("largest gaps", "smallest gaps")
        figures["regard-gap-ends"] = ends_figure(gap_ends, [row.found["gap"] for row in gaps], "gap", ends)
    return Section(
        {
            **{name: value for name, value in regard.items() if name.startswith("num_")},
            "mask": regard["mask"],
            "level": f"{level:.0%}",
            "labels": bias["labels"],
            "k": bias["k"],
            "smoothing": bias["smoothing"],
            "groups": groups,
            "gaps": gaps,
            "compared": tables_regard.compared(bias) is not None,
            "drawn_over": tables_regard.drawn_over(bias),
            "sentences": [tables_regard.verdict_sentence(row, level) for row in gaps],
            "group_ends": group_ends,
            "best": [structures[name] for name in bias["best_structures"]] if several else [],
            "worst": [structures[name] for name in bias["worst_structures"]] if several else [],
            "structures": list(structures.values()),
            "ranked_gaps": tables_regard.ranked_gaps(bias) if several else [],
            "kl": kl,
            "kl_groups": tables_regard.group_names(bias),
            "kl_most": max((value for row in kl.values() for value in row.values()), default=0.0) if kl else 0.0,
            "kl_error": regard["kl_error"] if len(groups) > 1 else None,
            "robustness": bias["robustness"] if several else None,
            "examples": tables_regard.examples_by_structure(regard),
            "choices": tables_regard.choices(regard),
            "left_out": tables_regard.left_out(regard),
            "without_interval": tables_regard.without_interval(bias),
            "interval_of": tables_regard.interval_of,
            "signed": tables_regard.signed,
            "span": tables_regard.span,
        },
        {name: [plain(figure)] for name, figure in figures.items()},
    )
