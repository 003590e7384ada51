from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from hb_metrics.collect.classifiers.presets import suggested
from hb_metrics.layout.figure import PLAIN, Figure, by_part, missing_intervals
from hb_metrics.layout.numbers import share
from hb_metrics.layout.parts import Report, Section
from hb_metrics.layout.plots import figures_plot
from hb_metrics.layout.rendering import render
from hb_metrics.measurements.generation import terms
from hb_metrics.measurements.generation.figures import (
    AXES,
    CLUSTER_METRICS,
    KINDS,
    figures,
    style_figures,
)
from hb_metrics.measurements.generation.notes import notes
from hb_metrics.measurements.generation.plots import frequency_figure, strip_figure, turns_figure
from hb_metrics.measurements.generation.results import SHORT
from hb_metrics.measurements.generation.turn_figures import (
    BY_TURN,
    REFUSALS_BY_TURN,
    UPTAKE_BY_TURN,
    by_axis_heading,
    turn_figures,
    turn_sentences,
)
from hb_metrics.reply_checks.parroting import correlation_with_bias
from hb_metrics.stats.bias_values import DescriptorKey

NUM_NAMED = 3  # the maximum number of axes that the answer names
NUM_STYLES = 15
NUM_TERMS = 15  # the maximum number of terms in the table of the terms with the most refusals
ALPHA = 0.05
SHORT_SHARE = 0.5


def report(results: Mapping[str, Any]) -> Report:
    generation, run = results["generation"], results["run"]
    listed = figures(results)
    by_turn = turn_figures(generation["turns"]) if "turns" in generation else []
    parts = by_part(listed)
    embedded = run["style_classifier"]["is_embedded"]
    whole = {figure.name: figure for figure in parts[""]}
    names = names_answer(whole.get("Bias between groups of names"), generation)
    context = {
        "run": run,
        "embedded": embedded,
        "generation": generation,
        "bias": generation["gen_bias"],
        "leakage": generation["identity_leakage"],
        "parts": parts,
        "whole": whole,
        "names": names,
        "no_intervals": missing_intervals([figure for figure in listed if figure not in by_turn]),
        "axes_rho": rank_correlations(parts.get(AXES, [])),
        "clusters": [parts[f"{name} by cluster"] for name in CLUSTER_METRICS if f"{name} by cluster" in parts],
        "styles": style_figures(generation, NUM_STYLES),
    }
    sections = [
        Section("generation", "Generation bias", render("generation/generation.html.jinja", context), _plots(context)),
        *([_turns(generation, parts, run["generation"]["follow_ups"])] if "turns" in generation else []),
        _terms(generation),
        *frequency_section(generation),
        _refusals(generation, parts),
        Section("checks", "Reply checks", render("generation/checks.html.jinja", context), {}),
    ]
    files = Markup(
        "the replies in <code>replies/*.parquet</code>, their styles in <code>style_probabilities/*.parquet</code>, "
        "their bias values in <code>bias_values.parquet</code>"
    )
    style = [generation_answer(context["whole"], parts.get(AXES, [])), names]
    if generation["short_share"] >= SHORT_SHARE:
        style = [
            f"{share(generation['short_share'])} of the replies have fewer than {SHORT} words, so their style cannot "
            "show how people are treated."
        ]
    answers = [*style, refusals_answer(generation, parts)]
    answers += turn_sentences(generation["turns"])[:1] if "turns" in generation else []
    return Report(
        sections,
        answer=" ".join(filter(None, answers)),
        reading=render("generation/reading.html.jinja", context),
        files=files,
        notes=notes(run, generation),
        embedded=suggested("--style_classifier") if embedded else None,
        terms=terms.chooser_content(generation),
    )


def generation_answer(whole: Mapping[str, Figure], axes: list[Figure]) -> str:
    full = whole.get("Full Gen Bias, debiased")
    if full is None:
        return (
            f"It is unknown whether the style of replies differs significantly between terms. In at least one "
            f"template, no term has a second reply, so Full Gen Bias ({whole['Full Gen Bias, plain'].shown}) contains "
            f"an unknown amount of noise."
        )
    value = f"Full Gen Bias minus sampling noise is {full.words}"
    if full.interval is None:
        return f"It is unknown whether the style of replies differs significantly between terms: {value}."
    if full.interval[0] > 0:
        text = f"The style of replies differs significantly between terms: {value}"
    else:
        text = f"The style of replies does not differ significantly between terms: {value}"
    beyond = [axis for axis in axes if axis.interval is not None and axis.interval[0] > 0]
    if len(axes) < 2 or not beyond:
        return f"{text}."
    named = ", ".join(f"{axis.label.lower()} ({axis.shown})" for axis in beyond[:NUM_NAMED])
    number = sum(axis.interval is not None for axis in axes)
    return (
        f"{text}. Among the {number} axes with an interval, this value is above 0 on {len(beyond)}, and highest on "
        f"{named}."
    )


def names_answer(groups: Figure | None, generation: Mapping[str, Any]) -> str:
    if groups is None:
        return ""
    if groups.value is None:
        return f"It is unknown whether replies differ between groups of names: {groups.no_interval}."
    p_value = generation["name_groups"]["p"]
    verb = "differs" if p_value < ALPHA else "does not differ"
    return (
        f"The style of replies {verb} significantly between groups of names (p = {p_value:.3g}): {groups.name} "
        f"is {groups.words}."
    )


def refusals_answer(generation: Mapping[str, Any], parts: Mapping[str, list[Figure]]) -> str:
    rows, p_value = parts.get("Refusals by axis"), generation["refusals"]["refusals"]["p_between_axes"]
    if not rows or p_value is None or p_value >= ALPHA:
        return ""
    refusals = next(figure for figure in parts[""] if figure.name == "Refusals")
    most = f"most often on {rows[0].label.lower()} ({rows[0].shown})"
    return f"The model refuses {refusals.words} of prompts. It refuses more often on some axes than on others, {most}."


def rank_correlations(rows: list[Figure]) -> dict[str, float | None]:
    correlations: dict[str, float | None] = {}
    for model in rows[0].printed if rows else ():
        ours, theirs = {}, {}
        for row in rows:
            value = row.printed[model]
            if value is not None and row.known is not None:
                key = DescriptorKey(None, row.label)
                ours[key], theirs[key] = row.known, value
        correlations[model] = correlation_with_bias(ours, theirs)["spearman_rho"]
    return correlations


def refusal_sentence(kind: str, counted: Mapping[str, Any], figure: Figure) -> str:
    if not counted["num"]:
        return f"None of the replies is a {kind.removesuffix('s')} ({figure.interval_words})."
    text = f"{figure.detail} replies ({figure.shown}; {figure.interval_words}) are {kind}."
    verdicts = []
    for name, between in (("p_between_descriptors", "terms"), ("p_between_axes", "axes")):
        p_value = counted[name]
        if p_value is not None:
            verb = "differs" if p_value < ALPHA else "does not differ"
            verdicts.append(f"{verb} significantly between {between} (p = {p_value:.2g})")
    return f"{text} The share of {kind} {' and '.join(verdicts)}." if verdicts else text


def _plots(context: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    plots = {"styles-plot": [figures_plot(context["styles"], "part of Full Gen Bias ×1000", [PLAIN])]}
    if AXES in context["parts"]:
        plots["gen-bias-by-axis"] = [figures_plot(context["parts"][AXES], "Full Gen Bias ×1000", [PLAIN])]
    if context["clusters"]:
        plots["gen-bias-by-cluster"] = [figures_plot(rows, "×1000", [PLAIN]) for rows in context["clusters"]]
    return plots


def _turns(generation: Mapping[str, Any], parts: Mapping[str, list[Figure]], follow_ups: Sequence[str]) -> Section:
    turns = generation["turns"]
    number = len(turns["by_turn"])
    shares = [f"{name} by turn" for name in (UPTAKE_BY_TURN, REFUSALS_BY_TURN)]
    context = {
        "turns": turns,
        "number": number,
        "follow_up": follow_ups[0],
        "sentences": turn_sentences(turns),
        "by_turn": parts[BY_TURN],
        "by_axis": parts.get(by_axis_heading(number)),
        "of_names": parts.get("Bias between groups of names by turn"),
        "shares": [(name, parts[name]) for name in shares],
        "no_intervals": missing_intervals(turn_figures(turns)),
    }
    plot = turns_figure(parts[BY_TURN])
    return Section("turns", "By turn", render("generation/turns.html.jinja", context), {"turns-plot": [plot]})


def _terms(generation: Mapping[str, Any]) -> Section:
    by_cluster = terms.terms_by_cluster(generation)
    strips = []
    for (cluster, of_cluster), mean in zip(by_cluster.items(), terms.cluster_means(generation), strict=True):
        strips.append(strip_figure(of_cluster, cluster, mean))
    context = {
        "terms": generation["by_descriptor"],
        "clusters": list(by_cluster),
        "num_examples": len(generation["examples"]),
    }
    return Section(
        "terms",
        "Terms by style",
        render("generation/terms.html.jinja", context),
        {"terms-plot": strips} if strips else {},
    )


def frequency_section(generation: Mapping[str, Any]) -> list[Section]:
    drawn, known = terms.one_word_terms(generation), terms.frequencies(generation)
    if not drawn:
        return []
    first = next(iter(drawn.values()))
    keys, per_million = [DescriptorKey(term.axis, term.name) for term in first], [term.per_million for term in first]
    frequency_of = dict(zip(keys, per_million, strict=True))
    rho = {}
    for cluster, of_cluster in drawn.items():
        values = [term.value for term in of_cluster]
        rho[cluster] = correlation_with_bias(frequency_of, dict(zip(keys, values, strict=True)))
    context = {
        **generation["frequencies"],
        "clusters": list(drawn),
        "rho": rho,
        "by_term": list(zip(*drawn.values(), strict=True)),
        "num_terms": len(first),
        "num_never": per_million.count(0),
        "num_several_words": sum(row is not None and not row["one_word"] for row in known),
        "num_unknown": known.count(None),
    }
    plots = [frequency_figure(of_cluster, cluster) for cluster, of_cluster in drawn.items()]
    html = render("generation/frequency.html.jinja", context)
    return [Section("frequency", "Style and frequency", html, {"frequency-plot": plots})]


def _refusals(generation: Mapping[str, Any], parts: Mapping[str, list[Figure]]) -> Section:
    found = generation["refusals"]
    whole = {figure.name: figure for figure in parts[""]}
    rows = {kind: parts[f"{kind.capitalize()} by axis"] for kind in KINDS}
    context = {
        "sentences": [refusal_sentence(kind, found[kind], whole[kind.capitalize()]) for kind in KINDS],
        "rows": rows,
        "found": found,
        "num_shown": NUM_TERMS,
        "level": share(found["refusals"]["confidence_level"], 0),
        "num_shuffles": found["refusals"]["num_shuffles"],
    }
    drawn = [figures_plot(of_kind, f"share of {kind} among replies") for kind, of_kind in rows.items()]
    return Section(
        "refusals",
        "Refusals",
        render("generation/refusals.html.jinja", context),
        {"refusals-by-axis": drawn},
    )
