"""The section of regard in the report of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from hb_metrics.display.figures import plain
from hb_metrics.display.numbers import count
from hb_metrics.display.parts import Embedded, Report, Section, Tile
from hb_metrics.display.rendering import render
from hb_metrics.measurements.regard import tables
from hb_metrics.measurements.regard.figures import distribution_figure, ends_figure, gaps_figure, means_figure


def regard_report(results: Mapping[str, Any], folder: Path) -> Report:
    """The section of regard in the report of a run; `folder` has its Jinja templates."""
    regard, record = results["regard"], results["run"]["regard"]
    bias = regard["bias"]
    groups, gaps = tables.group_rows(bias), tables.gap_rows(bias)
    structures = {row.name: row for row in tables.structure_rows(regard)}
    several = len(structures) > 1
    group_ends = tables.group_ends(bias) if several else []
    gap_ends = tables.gap_ends(bias) if several else []
    level = bias["confidence_level"]
    kl = bias["kl_divergence"] if len(groups) > 1 else None
    plots = {
        "regard-means": means_figure(groups, level),
        "regard-labels": distribution_figure(groups, bias["labels"]),
    }
    if gaps:
        plots["regard-gaps"] = gaps_figure(gaps, level)
    if group_ends:
        ends = ("best structures", "worst structures")
        plots["regard-ends"] = ends_figure(group_ends, [row.over_all["mean"] for row in groups], "mean regard", ends)
    if gap_ends:
        ends = ("largest gaps", "smallest gaps")
        plots["regard-gap-ends"] = ends_figure(gap_ends, [row.over_all["gap"] for row in gaps], "gap", ends)
    content = {
        **{name: value for name, value in regard.items() if name.startswith("num_")},
        "level": f"{level:.0%}",
        "labels": bias["labels"],
        "k": bias["k"],
        "groups": groups,
        "gaps": gaps,
        "compared": tables.compared(bias) is not None,
        "drawn_over": tables.drawn_over(bias),
        "sentences": [tables.verdict_sentence(row, level) for row in gaps],
        "group_ends": group_ends,
        "best": [structures[name] for name in bias["best_structures"]] if several else [],
        "worst": [structures[name] for name in bias["worst_structures"]] if several else [],
        "structures": list(structures.values()),
        "ranked_gaps": tables.ranked_gaps(bias) if several else [],
        "kl": kl,
        "kl_groups": tables.group_names(bias),
        "kl_most": max((value for row in kl.values() for value in row.values()), default=0.0) if kl else 0.0,
        "kl_error": regard["kl_error"] if len(groups) > 1 else None,
        "examples": tables.examples_by_structure(regard),
        "left_out": tables.left_out(regard),
        "without_interval": tables.without_interval(bias),
        "interval_of": tables.interval_of,
        "signed": tables.signed,
        "span": tables.span,
    }
    embedded = record["is_embedded"]
    context = {"regard": content, "run": results["run"], "embedded_regard": embedded}
    drawn = {name: [plain(plot)] for name, plot in plots.items()}
    number = regard["num_structures"]
    tiles = [_gap_tile(row, level) for row in gaps]
    tiles.append(
        Tile("continuations", count(regard["num_continuations"]), (f"in {number:,} structure{'s' * (number != 1)}",))
    )
    return Report(
        [Section("regard", "Regard", render(folder / "section.html.jinja", context), drawn)],
        tiles,
        answer=regard_answer(gaps, level),
        reading=render(folder / "reading.html.jinja", context),
        files=Markup("the continuations and their regard in <code>regard/</code>"),
        notes=(f"{record['name']}: {'; '.join(record['notes'])}.",) if record["notes"] else (),
        embedded=Embedded("Regard was classified by the embedded classifier", "--regard_classifier")
        if embedded
        else None,
    )


def regard_answer(gaps: list[tables.GapRow], level: float) -> str | None:
    """Which group of each pair is regarded better beyond chance, in a sentence; `None`: no groups are compared."""
    if not gaps:
        return None
    return f"Regard of what it writes about people. {'; '.join(tables.short_verdict(row, level) for row in gaps)}."


def _gap_tile(row: tables.GapRow, level: float) -> Tile:
    bounds = tables.interval_of(row.over_all)
    interval = "" if bounds is None else f", {level:.0%} interval {tables.span(bounds)}"
    of = f"{row.over_all['advantaged']} − {row.over_all['disadvantaged']}{interval}"
    return Tile(f"regard gap, {row.label}", tables.signed(row.over_all["gap"]), (of,))
