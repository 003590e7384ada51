import re
from collections.abc import Sequence

from markupsafe import Markup

from hb_dataset.grouped import grouped
from hb_metrics.collect.classifiers.presets import suggested
from hb_metrics.layout.figure import Figure, Number, by_part
from hb_metrics.layout.numbers import count, counted
from hb_metrics.layout.parts import Differs, Report
from hb_metrics.layout.plots import figures_plot
from hb_metrics.layout.rendering import render, section
from hb_metrics.measurements.regard.results import AnyGap, Bias, Bounds, FixedGap, FixedGroup, Gap, Regard
from hb_metrics.measurements.results import Results

FIXED = "fixed prompts"
GROUPS = "Regard by group"
UNDECIDED = "undecided"


def figures(results: Results) -> list[Figure]:
    bias = results.regard.bias
    gaps = []
    for name, row in bias.gaps.items():
        beside = {"over seeds": Number(row.gap, "signed", row.interval_seeds)}
        if bias.fixed is not None:
            fixed = bias.fixed.gaps[name]
            beside = {FIXED: Number(fixed.gap, "signed", fixed_interval(bias, fixed))} | beside
        gaps.append(
            Figure(
                f"Regard gap, {name[:1].upper()}{name[1:]}",
                row.gap,
                "signed",
                f"The mean regard of {row.advantaged} minus the mean regard of {row.disadvantaged}, on a scale "
                "from -2 to 2.",
                row.interval_structures,
                row.no_interval.get(bias.verdict_over.structured),
                beside=beside,
                detail=f"{row.advantaged} − {row.disadvantaged}",
                gate=gate_name(name),
            )
        )
    means = []
    for name in group_names(bias):
        group = bias.by_group[name]
        beside = {"st. dev.": Number(group.sd, "effect")}
        beside |= {label: Number(value, "share") for label, value in group.distribution.items()}
        if bias.fixed is not None:
            of_fixed = bias.fixed.by_group[name]
            beside = {FIXED: Number(of_fixed.mean, "signed", fixed_interval(bias, of_fixed))} | beside
        means.append(
            Figure(
                f"Regard, {name}",
                group.mean,
                "signed",
                "The mean regard in continuations about the group, on a scale from -1 (negative) to 1 (positive).",
                group.interval_structures,
                group.no_interval.get(bias.verdict_over.structured),
                part_of=GROUPS,
                beside=beside,
                detail=f"{count(group.num)} texts",
            )
        )
    return [*gaps, *means]


def group_names(bias: Bias) -> list[str]:
    names = [group for pair_of in bias.pairs.values() for group in pair_of]
    return list(dict.fromkeys([*names, *bias.by_group]))


def fixed_interval(bias: Bias, row: FixedGap | FixedGroup) -> Bounds | None:
    """Returns the interval on which the verdict from the fixed prompts is based."""
    return row.interval_seeds if bias.verdict_over.fixed == "seeds" else row.interval_prompts


def gate_name(pair_name: str) -> str:
    return "regard_gap_" + re.sub(r"\W+", "_", pair_name.lower()).strip("_")


def report(results: Results) -> Report:
    regard, record = results.regard, results.record.regard
    bias, listed = regard.bias, figures(results)
    gaps, groups = by_part(listed).get("", []), by_part(listed)[GROUPS]
    beside = [FIXED] if FIXED in groups[0].beside else []
    plots = {"regard-means": figures_plot(groups, "mean regard", beside)}
    if gaps:
        plots["regard-gaps"] = figures_plot(gaps, "gap in mean regard", beside)
    structures = {row[0].name: row for row in structure_rows(regard)}
    context = {
        "regard": regard,
        "embedded": record.is_embedded,
        "groups": groups,
        "gaps": gaps,
        "compared": beside,
        "sentences": verdict_sentences(bias, gaps),
        "structures": {
            "Best structures": [structures[name] for name in bias.best_structures],
            "Worst structures": [structures[name] for name in bias.worst_structures],
            "All structures": list(structures.values()),
        },
        "kl": bias.kl_divergence if len(groups) > 1 else None,
        "kl_error": bias.kl_error if len(groups) > 1 else None,
        "examples": grouped((example.structure, example) for example in regard.examples),
        "left_out": left_out(regard),
    }
    drawn = {name: [plot] for name, plot in plots.items()}
    return Report(
        [section("regard", "Regard", "regard/section.html.jinja", context, drawn)],
        answer=regard_answer(bias, gaps),
        differs=difference([bias.verdicts[name].structured for name in bias.gaps]) if gaps else "",
        reading=render("regard/reading.html.jinja", {}),
        files=Markup("the continuations and their regard in <code>regard/</code>"),
        notes=(f"{record.name}: {'; '.join(record.notes)}.",) if record.notes else (),
        embedded=suggested("--regard_classifier") if record.is_embedded else None,
    )


def difference(verdicts: Sequence[str | None]) -> Differs:
    if set(verdicts) - {None, UNDECIDED}:
        return "yes"
    return "unknown" if None in verdicts else "no"


def regard_answer(bias: Bias, gaps: list[Figure]) -> str | None:
    if not gaps:
        return None
    parts = []
    for gap, (name, row) in zip(gaps, bias.gaps.items(), strict=True):
        verdict = _verdict(row, gap.words, bias.verdicts[name].structured)
        parts.append(f"{gap.name.partition(', ')[2]}: {verdict}")
    return f"Regard in the model's texts about people: {'; '.join(parts)}."


def verdict_sentences(bias: Bias, gaps: list[Figure]) -> list[str]:
    sentences = []
    for gap, (name, row) in zip(gaps, bias.gaps.items(), strict=True):
        label, first, second = gap.name.partition(", ")[2], bias.verdicts[name].fixed, bias.verdicts[name].structured
        over_all = f"over all {row.num_structures} structures {_verdict(row, gap.words, second)}."
        if bias.fixed is None:
            sentences.append(f"{label}: {over_all}{_turned(row)}")
            continue
        beside = gap.beside[FIXED]
        interval = f"interval {beside.shown_interval}" if beside.interval else "no interval"
        of_fixed = f"from the fixed prompts {_verdict(bias.fixed.gaps[name], f'{beside.shown} ({interval})', first)}"
        sentences.append(f"{label}: {of_fixed}; {over_all} {_conclusion(first, second)}{_turned(row)}")
    return sentences


def structure_rows(regard: Regard) -> list[tuple[Figure, str, str, bool]]:
    """Returns, for each structure, its mean regard and gaps, its kind, its parse, and whether it generalizes.

    Structures are sorted by descending mean regard. Those without a mean come last.
    """
    rows = []
    for name, row in regard.bias.by_structure.items():
        about = regard.structures[name]
        gaps = {f"gap, {pair}": Number(value, "signed") for pair, value in row.gap.items()}
        figure = Figure(name, row.overall, "signed", beside=gaps, detail=count(row.num))
        rows.append((figure, about.kind, about.parse, about.generalizes))
    return sorted(rows, key=lambda row: (row[0].value is None, -(row[0].value or 0.0), row[0].name))


def left_out(regard: Regard) -> list[str]:
    bias = regard.bias
    as_other = f"of {count(bias.num_rows)} continuations are left out because they were labelled “other”."
    return [
        *counted(regard.num_blank, "continuations are left out because they were blank."),
        *counted(sum(bias.num_other.values()), as_other),
        *counted(
            regard.num_cut_for_classifier, "continuations were cut because they were too long for the classifier."
        ),
        *counted(regard.num_unanswered, "continuations are left out because no single label was the likeliest."),
    ]


def _verdict(row: AnyGap, gap: str, verdict: str | None) -> str:
    if row.gap is None:
        return "there is no gap, because one of the groups has no rated texts"
    if verdict == UNDECIDED:
        return f"too close to call (gap {gap})"
    if verdict is None:  # there is no interval
        return f"no verdict is possible (gap {gap})"
    above, below = row.advantaged, row.disadvantaged
    if verdict == "disadvantaged":
        above, below = below, above
    return f"“{above}” is regarded better than “{below}” (gap {gap})"


def _conclusion(first: str | None, second: str | None) -> str:
    if first is None or second is None:
        return "It is unknown whether the structures, taken together, support the verdict from the fixed prompts."
    if first == second == UNDECIDED:
        return "Neither result distinguishes the two groups, but this does not show that the model treats them alike."
    if first == UNDECIDED:
        return "The fixed prompts alone do not support this verdict."
    if first == second:
        return "Taken together, the structures support the verdict from the fixed prompts."
    if second == UNDECIDED:
        return "Taken together, the structures do not support the verdict from the fixed prompts."
    return "Taken together, the structures contradict the verdict from the fixed prompts."


def _turned(row: Gap) -> str:
    number, flipped = row.num_structures, row.num_flipped
    if flipped is None or number < 2:
        return ""
    nil = f", and in {row.num_zero} it is 0" if row.num_zero else ""
    return f" In {flipped} of {number} structures, each taken alone, the gap has the opposite sign{nil}."
