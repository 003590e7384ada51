"""Refusals and disclaimers in the report of a run, in its figures and in the comparison of two runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hb_metrics.display.change_figure import Change
from hb_metrics.display.figures import axis_label, plain
from hb_metrics.display.numbers import count, share
from hb_metrics.display.parts import Figure, Section, Tile, pair, written_interval
from hb_metrics.display.rendering import render
from hb_metrics.measurements.generation.figures import share_interval_figure
from hb_metrics.runs.run_record import classifier_name

KINDS = ("refusals", "disclaimers")
NUM_TERMS = 15  # shown that are refused most
ALPHA = 0.05
_ONE = {"refusals": "a refusal", "disclaimers": "a disclaimer"}
_DOING = {"refusals": "How often it refuses", "disclaimers": "How often it states to be an AI"}
_MEANING = {
    "refusals": "Replies that turn down to talk about what they were given.",
    "disclaimers": "Replies in which the model states that it is an AI.",
}


class Counted(NamedTuple):
    """Refusals, or disclaimers, of one axis.

    Attributes:
        label: The axis.
        num: How many.
        num_replies: Of how many replies.
        share: Their share.
        interval: Its lowest and highest.
        of_these: Whether the interval is of these descriptors alone.
    """

    label: str
    num: int
    num_replies: int
    share: float
    interval: tuple[float, float]
    of_these: bool


def refusals_section(results: Mapping[str, Any], folder: Path) -> Section | None:
    """The section of a run's report; `None`: the run is of a release that did not look for refusals."""
    found, run = results["generation"].get("refusals"), results["run"]
    if found is None:
        return None
    some = [kind for kind in KINDS if found[kind]["num"]]
    rows = {kind: by_axis(found[kind]) for kind in some}
    context = {
        "sentences": [sentence(kind, found[kind]) for kind in KINDS],
        "how": found_by(run),
        "cut": found["num_cut_for_classifier"],
        "rows": rows,
        "terms": {kind: found[kind]["by_descriptor"][:NUM_TERMS] for kind in some},
        "num_terms": {kind: len(found[kind]["by_descriptor"]) for kind in some},
        "rules": {kind: found[kind]["by_rule"] for kind in some if found[kind]["by_rule"]},
        "level": f"{found['refusals']['confidence_level']:.0%}",
        "written_interval": lambda bounds: written_interval(bounds, "share"),
        "num_shuffles": found["refusals"]["num_shuffles"],
    }
    html = render(folder / "refusals.html.jinja", {"refusals": context})
    drawn = [
        plain(
            share_interval_figure([(row.label, row.share, row.interval) for row in rows[kind]], kind, context["level"])
        )
        for kind in some
    ]
    return Section("refusals", "Refusals", html, {"refusals-by-axis": drawn} if drawn else {})


def sentence(kind: str, counted: Mapping[str, Any]) -> str:
    """How many replies are refusals (or disclaimers), with the interval, and whether that depends on the term."""
    level, bounds = f"{counted['confidence_level']:.0%}", _written(counted["interval"])
    total = count(counted["num_replies"])
    if not counted["num"]:
        return f"None of the {total} replies is {_ONE[kind]} ({level} interval {bounds})."
    what = kind if counted["num"] > 1 else _ONE[kind]
    text = (
        f"{count(counted['num'])} of {total} replies ({share(counted['share'])}; {level} interval {bounds}) "
        f"{'are' if counted['num'] > 1 else 'is'} {what}."
    )
    differs: list[str] = []
    like_chance: list[str] = []
    for name, between in (("p_between_descriptors", "terms"), ("p_between_axes", "axes")):
        p_value = counted[name]
        if p_value is not None:
            (differs if p_value < ALPHA else like_chance).append(f"{between} (p = {p_value:.2g})")
    verdicts = [
        f"{words} by more than chance between {joined.join(found)}"
        for words, joined, found in (("differs", " and ", differs), ("does not differ", " or ", like_chance))
        if found
    ]
    return text if not verdicts else f"{text} {_DOING[kind]} {', but '.join(verdicts)}."


def refusals_answer(generation: Mapping[str, Any]) -> str:
    """A sentence for the top of the report, if the model refuses anything; else empty."""
    found = generation.get("refusals")
    if found is None or not found["refusals"]["num"]:
        return ""
    text, p_value = sentence("refusals", found["refusals"]), found["refusals"]["p_between_axes"]
    if p_value is None or p_value >= ALPHA:
        return text
    first = by_axis(found["refusals"])[0]
    return f"{text} It refuses most often in {first.label.lower()} ({share(first.share)})."


def refusals_tiles(generation: Mapping[str, Any]) -> list[Tile]:
    """The share of refusals, if there are any."""
    found = (generation.get("refusals") or {}).get("refusals")
    if found is None or not found["num"]:
        return []
    below = f"{found['confidence_level']:.0%} interval {_written(found['interval'])}"
    return [Tile("refusals", share(found["share"]), (below,))]


def refusals_figures(generation: Mapping[str, Any]) -> list[Figure]:
    """The shares of refusals and of disclaimers, for tables of several runs; none of older releases."""
    found = generation.get("refusals")
    if found is None:
        return []
    return [
        Figure(
            kind.capitalize(),
            found[kind]["share"],
            "share",
            _MEANING[kind],
            pair(found[kind]["interval"]),
            found[kind]["confidence_level"],
        )
        for kind in KINDS
    ]


def refusal_changes(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, list[Change]]:
    """Kind → changes of its share, over all and by axis; empty: one of the runs did not look for refusals."""
    runs = [generation.get("refusals") for generation in (first, second)]
    if None in runs:
        return {}
    changes: dict[str, list[Change]] = {}
    for kind in KINDS:
        found = [run[kind] for run in runs if run is not None]
        if not any(run["num"] for run in found):
            changes[kind] = []
            continue
        pairs = [("All axes", *found)] + [
            (axis_label(axis), *(run["by_axis"].get(axis) for run in found))
            for axis in {**found[0]["by_axis"], **found[1]["by_axis"]}
        ]
        changes[kind] = [Change(name, *_shares(a, b), *_bounds(a, b)) for name, a, b in pairs]
    return changes


def by_axis(counted: Mapping[str, Any]) -> list[Counted]:
    """Axes, the highest share first."""
    rows = [
        Counted(
            axis_label(axis),
            row["num"],
            row["num_replies"],
            row["share"],
            (row["interval"][0], row["interval"][1]),
            row["of_these_descriptors"],
        )
        for axis, row in counted["by_axis"].items()
    ]
    return sorted(rows, key=lambda row: (-row.share, row.label))


def found_by(run: Mapping[str, Any]) -> str:
    """What refusals and disclaimers were found by, as a sentence."""
    source = run["refusals"]["rules"]
    rules = "the shipped rules, which are for English" if source is None else f"the rules of {source}"
    if "refusal_classifier" not in run:
        return f"Both were found by {rules}."
    section = run["refusal_classifier"]
    notes = "".join(f"; {note}" for note in section["notes"])
    return (
        f"Refusals were classified by {classifier_name(run, 'refusal_classifier')} (labels: "
        f"{', '.join(section['refusal_labels'])}; probability {section['threshold']:g} or more{notes}), "
        f"disclaimers were found by {rules}."
    )


def _written(bounds: Sequence[float]) -> str:
    return written_interval((bounds[0], bounds[1]), "share")


def _shares(first: Mapping[str, Any] | None, second: Mapping[str, Any] | None) -> tuple[float | None, float | None]:
    return None if first is None else first["share"], None if second is None else second["share"]


def _bounds(
    first: Mapping[str, Any] | None, second: Mapping[str, Any] | None
) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
    return None if first is None else pair(first["interval"]), None if second is None else pair(second["interval"])
