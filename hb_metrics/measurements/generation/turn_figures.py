from hb_metrics.layout.figure import PLAIN, Figure, Number
from hb_metrics.layout.numbers import axis_label, bias, counted, p_words, share
from hb_metrics.measurements.generation.typed_results import NameGroups, Turns, TurnValue
from hb_metrics.measurements.turn_shares import TurnChange, change_figure, turn_share_figures

BY_TURN = "Full Gen Bias by turn"
UPTAKE_BY_TURN, REFUSALS_BY_TURN = "Replies that name the term", "Refusals"


def turn_figures(turns: Turns) -> list[Figure]:
    last, level = len(turns.by_turn), turns.confidence_level
    notes = counted(turns.num_ended, "conversations left out because a later turn has no reply")
    figures = [
        _value(f"{BY_TURN}, turn {turn}", of_turn, level)._replace(part_of=BY_TURN, notes=notes)
        for turn, of_turn in enumerate(turns.by_turn, start=1)
    ]
    if turns.change is not None:
        figures.append(change_figure(f"Full Gen Bias, change from turn 1 to turn {last}", turns.change, level))
        if last > 2 and turns.slope is not None:
            figures.append(change_figure("Full Gen Bias, slope per turn", turns.slope, level))
        figures += _axes(turns, last)
    for turn, of_turn in enumerate(turns.name_groups or [], start=1):
        figure = names_figure(of_turn)
        name = f"{figure.name} by turn"
        figures.append(figure._replace(name=f"{name}, turn {turn}", part_of=name, is_main=False))
    figures += turn_share_figures(UPTAKE_BY_TURN, turns.uptake)
    return figures + turn_share_figures(REFUSALS_BY_TURN, turns.refusals)


def names_figure(groups: NameGroups) -> Figure:
    names = ", ".join(f"{group} {number}" for group, number in groups.num_names.items())
    if groups.p is not None:
        names += f"; variance between names of the same group {bias(groups.within)}; {p_words(groups.p)}"
    if number := groups.num_left_out:
        names += f"; {number} of {number + groups.num_questions} questions left out, because a name lacks a reply"
    return Figure(
        "Bias between groups of names",
        groups.value,
        "bias",
        "Debiased Full Gen Bias with groups of names in place of terms. The variance between names of the same group "
        "is subtracted.",
        groups.interval,
        no_interval=groups.reason,
        confidence_level=groups.confidence_level,
        detail=names,
    )


def _axes(turns: Turns, last: int) -> list[Figure]:
    level, heading, rows = turns.confidence_level, by_axis_heading(last), []
    for axis, of_axis in turns.by_axis.items():
        first, change = of_axis.first, of_axis.change
        assert change is not None  # the change over all terms is known
        beside = {
            "at turn 1": Number(first.value, "bias", first.interval),
            "change": Number(change.change, "bias", change.interval),
        }
        row = _value(f"Full Gen Bias at turn {last}, {axis_label(axis)}", of_axis.last, level)
        rows.append(row._replace(part_of=heading, beside=beside))
    return sorted(rows, key=lambda row: -(row.value or 0.0))


def by_axis_heading(last: int) -> str:
    return f"Full Gen Bias at turn {last} by axis"


def turn_sentences(turns: Turns) -> list[str]:
    last, level = len(turns.by_turn), turns.confidence_level
    if turns.change is None:
        return [
            "In at least one template, no term has a second reply, so the sampling noise is unknown. It is therefore "
            f"unknown whether replies still depend on the user's identity at turn {last}."
        ]
    value = _value("", turns.by_turn[-1], level)
    change = change_figure("", turns.change, level)
    if value.interval is None:
        first = f"It is unknown whether replies still depend on the user's identity at turn {last}: {value.words}."
    elif value.interval[0] <= 0:
        first = (
            f"At turn {last}, no dependence of replies on the user's identity was found beyond chance: {value.words}."
        )
    else:
        first = f"At turn {last}, replies still depend on the user's identity: {value.words}{_ratio(turns.change)}."
    return [first, f"{_since(turns, change)}."]


def _since(turns: Turns, change: Figure) -> str:
    last = len(turns.by_turn)
    if change.interval is None:
        return f"The change from turn 1 to turn {last} is unknown: {change.no_interval}"
    low, high = change.interval
    if low <= 0 <= high:
        words = f"did not change beyond chance: {change.words}"
    elif high < 0:
        words = f"fell by {change._replace(value=-(change.value or 0.0), interval=(-high, -low)).words}"
    else:
        words = f"grew by {change.words}"
    if last > 2 and turns.slope is not None and turns.slope.interval is not None:
        slope = change_figure("", turns.slope, turns.confidence_level)
        words += f", with a slope of {slope.shown} per turn ({slope.shown_interval})"
    return f"From turn 1 to turn {last}, Full Gen Bias {words}"


def _ratio(change: TurnChange) -> str:
    if change.relative_interval is None:
        return ""
    low, high = (share(1 + bound, 0) for bound in change.relative_interval)
    return f", {share(change.second / change.first, 0)} ({low} to {high}) of the value at turn 1"


def _value(name: str, turn: TurnValue, confidence_level: float) -> Figure:
    return Figure(
        name,
        turn.value,
        "bias",
        interval=turn.interval,
        no_interval=turn.no_interval,
        confidence_level=confidence_level,
        is_main=False,
        beside={PLAIN: Number(turn.plain, "bias")},
    )
