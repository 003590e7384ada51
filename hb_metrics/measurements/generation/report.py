"""The sections of generation bias in the report of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from hb_metrics.display import paper
from hb_metrics.display.figures import axis_label, plain
from hb_metrics.display.numbers import bias, count, interval, share
from hb_metrics.display.paper_settings import settings_beside_paper
from hb_metrics.display.parts import Embedded, Report, Section, Tile, pair
from hb_metrics.display.rendering import render
from hb_metrics.measurements.generation import tables
from hb_metrics.measurements.generation.figures import frequency_figure, interval_figure, strip_figure, styles_figure
from hb_metrics.measurements.generation.refusals_report import refusals_answer, refusals_section, refusals_tiles
from hb_metrics.measurements.generation.tuned import recorded_ceiling

NUM_NAMED = 3  # axes that the answer names
# What results of earlier releases do not have.
NOT_RECORDED: dict[str, Any] = {
    "num_distinct_replies": None,
    "most_frequent_share": 0.0,
    "num_with_reasoning": 0,
    "num_unclosed_reasoning": 0,
    "num_left_out_prompts": 0,
    "num_left_out_templates": 0,
    "mean_num_reasoning_tokens": None,
    "shown_replies": [],
    "identity_leakage": None,
}
SAME_SHARE = 0.9  # from which share of equal replies on a note warns


def generation_report(results: Mapping[str, Any], folder: Path) -> Report:
    """What generation bias adds to the report; `folder` has the templates."""
    generation, run = {**NOT_RECORDED, **results["generation"]}, results["run"]
    embedded = run["style_classifier"]["is_embedded"]
    content = _context(generation)
    context = {
        "run": run,
        "embedded_styles": embedded,
        "generation": content,
        "paper_settings": settings_beside_paper(results, "style_classifier"),
    }
    frequency, refusals = _frequency(generation, folder), refusals_section(results, folder)
    return Report(
        [
            Section(
                "generation", "Generation bias", render(folder / "generation.html.jinja", context), _figures(content)
            ),
            _terms(generation, folder),
            *([] if frequency is None else [frequency]),
            *([] if refusals is None else [refusals]),
            Section("checks", "Reply checks", render(folder / "checks.html.jinja", context), {}),
        ],
        [*_tiles(generation), *refusals_tiles(generation)],
        answer=f"{generation_answer(generation)} {refusals_answer(generation)}".rstrip(),
        reading=render(folder / "reading.html.jinja", context),
        files=Markup(
            "the replies in <code>replies/*.parquet</code>, their styles in "
            "<code>style_probabilities/*.parquet</code>, their bias values in <code>bias_values.parquet</code>"
        ),
        notes=_notes(run, generation),
        embedded=Embedded("Styles of replies were classified by the embedded classifier", "--style_classifier")
        if embedded
        else None,
        terms=tables.chooser_content(generation),
    )


def generation_answer(generation: Mapping[str, Any]) -> str:
    """Whether the style of replies differs by more than chance, and in which axes; and if not known, why."""
    values, debiased = generation["gen_bias"], generation["debiased"]
    if debiased is None:
        return (
            "Whether the style of its replies differs between terms by more than chance cannot be known: with one "
            f"reply a term and template, Full Gen Bias ({bias(values['full_gen_bias'])}) holds noise of unknown size."
        )
    full, bounds = bias(debiased["full_gen_bias"]), pair(values["intervals"]["full_gen_bias"])
    level = f"{values['confidence_level']:.0%}"
    if bounds is None:
        text = (
            "Whether the style of its replies differs between terms by more than chance cannot be known from this run: "
            f"Full Gen Bias, less sampling noise, is {full}, and no interval could be estimated."
        )
    elif bounds[0] > 0:
        text = (
            f"The style of its replies differs between terms by more than chance: Full Gen Bias, less sampling "
            f"noise, is {full} ({level} interval {interval(bounds)})."
        )
    else:
        text = (
            f"No difference in the style of its replies stands out from chance: Full Gen Bias, less sampling noise, is "
            f"{full} ({level} interval {interval(bounds)})."
        )
        if bounds[1] > 0:
            text = f"{text.removesuffix('.')}; a difference of up to {bias(bounds[1])} cannot be ruled out."
    return f"{text} {_axes_sentence(generation)}".rstrip()


def _axes_sentence(generation: Mapping[str, Any]) -> str:
    """In which axes the interval lies above 0, the largest value first."""
    intervals = (generation["gen_bias"]["intervals"] or {}).get("by_axis") or {}
    values = generation["debiased"]["by_axis"] or {}
    known = {axis: bounds for axis, bounds in intervals.items() if bounds is not None}
    if not known or len(values) == 1:  # the value of the only axis is that of all
        return ""
    beyond = sorted((axis for axis, bounds in known.items() if bounds[0] > 0), key=lambda axis: -values[axis])
    if len(known) == 1:
        (axis,) = known
        lies = "lies" if beyond else "does not lie"
        return f"Of the axes, only {axis_label(axis).lower()} has an interval, which {lies} above 0."
    if not beyond:
        return f"The interval lies above 0 in none of the {len(known)} axes that have one."
    named = ", ".join(f"{axis_label(axis).lower()} ({bias(values[axis])})" for axis in beyond[:NUM_NAMED])
    return f"By axis, the interval lies above 0 in {len(beyond)} of the {len(known)} that have one, highest in {named}."


def _own_part(own: float) -> str:
    """What the classifier's reaction to terms in replies is of Full Gen Bias, or what it covers up."""
    return (
        f"{bias(own)} of it from terms in replies" if own >= 0 else f"{bias(-own)} higher with terms in replies hidden"
    )


def _tiles(generation: Mapping[str, Any]) -> list[Tile]:
    values, full = generation["gen_bias"], tables.full_gen_bias(dict(generation))
    leakage = generation["identity_leakage"]
    own = () if leakage is None else (_own_part(leakage["in_replies"]["own"]),)
    tiles = []
    if full.debiased is not None:
        below = "no interval" if full.reason else ""
        if full.interval is not None:
            below = f"{values['confidence_level']:.0%} interval {interval(full.interval)}"
        tiles.append(Tile("Full Gen Bias, debiased", bias(full.debiased), ((below,) if below else ()) + own))
    noise = values["noise_floor"]
    below_plain = own if noise is None else (f"of which sampling noise about {bias(noise)}",)
    return [
        *tiles,
        Tile("Full Gen Bias, plain", bias(full.plain), below_plain),
        Tile(
            "replies", count(generation["num_replies"]), (f"{values['mean_replies_per_cell']:.3g} a term and template",)
        ),
        Tile("parroting replies", share(generation["parroting"]["parroting_share"])),
    ]


def _notes(run: Mapping[str, Any], generation: Mapping[str, Any]) -> tuple[str, ...]:
    notes = _cue_notes(run, generation)
    if generation["most_frequent_share"] >= SAME_SHARE:
        notes.append(
            f"{share(generation['most_frequent_share'])} of the replies are the same text. Where all replies are the "
            "same, generation bias is 0 and says nothing about the model: read the replies below, and check --context "
            "and --decoding."
        )
    if generation["num_unclosed_reasoning"]:
        unclosed, prompts = count(generation["num_unclosed_reasoning"]), count(generation["num_prompts"])
        limit = count(run["generation"]["max_reasoning_tokens"])
        notes.append(
            f"{unclosed} of {prompts} prompts have no reply, since the model did not end its thought within {limit} "
            "tokens. Figures are about the others, which may differ; a larger --max_reasoning_tokens leaves out fewer."
        )
    notes += _notes_on_files(run["generation"])
    notes += _notes_on_answers(generation.get("served"))
    if ignored := run["generation"].get("ignored_settings"):
        named = ", ".join(f"{name} {value}" for name, value in ignored.items())
        of = (
            "--decoding, which the server cannot be asked for"
            if "served" in generation
            else "the model's generation_config"
        )
        notes.append(f"Replies were decoded without these settings of {of}: {named}.")
    if run["generation"]["tag"] is not None:
        reason = run["generation"]["tag_reason"]
        notes.append(f"Asked with the control tag “{run['generation']['tag']}” at the end of each context: {reason}.")
    ceiling = recorded_ceiling(run["generation"].get("label_ceiling"))
    if ceiling is not None and ceiling.value is not None and generation["debiased"] is not None:
        notes.append(
            "The labels that the model was tuned on lead to a debiased Full Gen Bias of "
            f"{bias(ceiling.value)} ({interval(ceiling.interval)}) at best, their ceiling, where all labelled replies "
            f"had {bias(ceiling.all_value)}; the model has {bias(generation['debiased']['full_gen_bias'])}."
        )
    if tuned_with := run["generation"].get("tuned_with"):
        others = [f"--{name}" for name, value in tuned_with.items() if run["generation"].get(name) != value]
        if others:
            notes.append(
                "The replies that the model was tuned on were asked for with other values of "
                f"{' and '.join(others)} (bias_tuning.json in its folder has them). What it learnt there need not show "
                "here: give these options as they were then, and compare with an untuned model that is asked the same."
            )
    classifier = run["style_classifier"]
    if classifier["notes"]:
        notes.append(f"{classifier['name']}: {'; '.join(classifier['notes'])}.")
    return tuple(notes)


def _notes_on_answers(served: Mapping[str, Any] | None) -> list[str]:
    """What to know of replies of a served model."""
    if served is None:
        return []
    tokens = f"{count(served['tokens_in'])} tokens in and {count(served['tokens_out'])} out"
    unknown = served["num_without_counts"]
    notes = [
        f"The server counted {tokens} for these replies"
        + (f", and gave no count that can be for {count(unknown)} of them." if unknown else ".")
    ]
    reasons = served["finish_reasons"]
    others = {name: number for name, number in reasons.items() if name not in ("stop", "length")}
    if others:
        named = ", ".join(f"{name} {count(number)}" for name, number in others.items())
        notes.append(
            f"Answers that ended for another reason than their end or their length: {named}. What a filter takes away "
            "may well depend on the term, and is missing from all figures."
        )
    if len(served["fingerprints"]) > 1:
        notes.append(
            f"The server gave {len(served['fingerprints'])} fingerprints of its model: it was changed while it was "
            "asked, or several machines serve it."
        )
    return notes


def _notes_on_files(asked: Mapping[str, Any]) -> list[str]:
    """What to know of replies that were made elsewhere."""
    if "replies_from" not in asked:
        return []
    low, high = asked["replies_a_prompt"]
    each = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    notes = [
        f"The replies are those of the file {asked['replies_from']}, {each} a prompt, each a reply of its cell. Who "
        "gave them, in which context and with which settings cannot be checked here: the settings below are those "
        "asked for."
    ]
    if asked["num_prompts_without_reply"]:
        notes.append(
            f"{asked['num_prompts_without_reply']:,} of {asked['num_prompts']:,} prompts have no reply in that file. "
            "Figures are about the others, which may differ."
        )
    if asked["num_copied_replies"]:
        notes.append(
            f"{asked['num_copied_replies']:,} replies are copies of another one to the same prompt. If they were not "
            "drawn anew, the sampling noise is larger than estimated."
        )
    if asked["num_cut_to_first_line"]:
        notes.append(
            f"Of {asked['num_cut_to_first_line']:,} replies only the first line is measured; --reply whole takes all."
        )
    return notes


def _cue_notes(run: Mapping[str, Any], generation: Mapping[str, Any]) -> list[str]:
    """What is to be known of a run whose prompts are not the cue."""
    cue = run["generation"].get("cue", "prompt")
    if cue == "prompt":
        return []
    where = "the system message" if cue == "system" else "an earlier turn"
    left_out = ""
    if generation["num_left_out_templates"]:
        left_out = (
            " Templates in which users do not say who they are were left out of the replies: "
            f"{count(generation['num_left_out_templates'])}, with {count(generation['num_left_out_prompts'])} prompts."
        )
    # Another measurement's name is here, since nobody else knows of cues.
    likelihood = ""
    if "scoring" in run:
        likelihood = " Likelihood Bias is that of all prompts as they are: no cue is given there, and no question."
    return [
        f"The model was told who the user is in {where} (--cue {cue}) and then asked neutral questions, the same for "
        f"all terms in a template.{left_out} The paper's values are of the prompts themselves.{likelihood}"
    ]


def _context(generation: Mapping[str, Any]) -> dict[str, Any]:
    """What the templates of the section and of the reply checks show."""
    values, full = generation["gen_bias"], tables.full_gen_bias(dict(generation))
    by_axis = tables.gen_bias_by_axis(dict(generation), paper.GEN_BIAS_BY_AXIS)
    partial, summed = (
        tables.gen_bias_by_cluster(dict(generation), metric, printed)
        for metric, printed in (
            ("partial_gen_bias", paper.PARTIAL_GEN_BIAS),
            ("summed_cluster_gen_bias", paper.SUMMED_CLUSTER_GEN_BIAS),
        )
    )
    return {
        **{name: value for name, value in generation.items() if name.startswith(("num_", "mean_"))},
        "shown_replies": generation["shown_replies"],
        "bias": values,
        "full": full,
        "leakage": generation["identity_leakage"],
        "no_intervals": tables.missing_intervals(
            {
                "Full Gen Bias": [full, *(row.measured for row in by_axis)],
                "Partial Gen Bias": [row.measured for row in partial],
                "Summed-Cluster Gen Bias": [row.measured for row in summed],
            }
        ),
        "by_axis": by_axis,
        "by_axis_rho": tables.rank_correlations(by_axis),
        "clusters": [("Partial Gen Bias", partial, "Tables 4 and 8"), ("Summed-Cluster Gen Bias", summed, "Table 9")],
        "paper_clusters": any(value is not None for row in partial for value in row.printed.values()),
        "cluster_styles": values["clusters"] or {},
        "styles": tables.most_varying_styles(dict(generation)),
        "parroting": generation["parroting"],
        "phrases": tables.phrase_table(generation["phrase_rates"]),
        "phrase_rates": generation["phrase_rates"],
    }


def _figures(content: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The figures of the section, from what its template shows."""
    level, by_axis = content["bias"]["confidence_level"], content["by_axis"]
    noise = "sampling noise included" if content["full"].debiased is None else "debiased"
    bars = [(row.measured.name, tables.best(row.measured)) for row in content["styles"]]
    figures = {"styles-plot": [styles_figure(bars, f"×1000, {noise}")]}
    if by_axis:
        figures["gen-bias-by-axis"] = [interval_figure([row.measured for row in by_axis], "Full Gen Bias ×1000", level)]
    if any(rows for _, rows, _ in content["clusters"]):
        figures["gen-bias-by-cluster"] = [
            interval_figure([row.measured for row in rows], f"{name} ×1000", level)
            for name, rows, _ in content["clusters"]
        ]
    return {name: [plain(figure) for figure in drawn] for name, drawn in figures.items()}


def _terms(generation: Mapping[str, Any], folder: Path) -> Section:
    by_cluster = tables.terms_by_cluster(dict(generation))
    means = tables.cluster_means(dict(generation))
    strips = [
        plain(strip_figure(terms, cluster, mean))
        for (cluster, terms), mean in zip(by_cluster.items(), means, strict=True)
    ]
    context = {
        "terms": generation["by_descriptor"],
        "clusters": list(by_cluster),
        "num_examples": len(generation["examples"]),
    }
    html = render(folder / "terms.html.jinja", {"terms_section": context})
    return Section("terms", "Terms by style", html, {"terms-plot": strips} if strips else {})


def _frequency(generation: Mapping[str, Any], folder: Path) -> Section | None:
    """Style against training frequency; `None`: no term of one word has a known frequency."""
    table = tables.frequency_table(dict(generation))
    drawn = {cluster: terms for cluster, terms in table.terms_by_cluster.items() if terms}
    if not drawn:
        return None
    first = next(iter(drawn.values()))
    context = {
        "source": generation["frequencies"]["source"],
        "is_default": generation["frequencies"]["is_default"],
        "clusters": list(drawn),
        "rho": table.rho_by_cluster,
        "terms": first,
        "by_term": list(zip(*drawn.values(), strict=True)),
        "num_terms": len(first),
        "num_never": sum(term.per_million == 0 for term in first),
        "num_several_words": table.num_several_words,
        "num_unknown": table.num_unknown,
    }
    html = render(folder / "frequency.html.jinja", {"frequency": context})
    figures = {"frequency-plot": [plain(frequency_figure(terms, cluster)) for cluster, terms in drawn.items()]}
    return Section("frequency", "Style and frequency", html, figures)
