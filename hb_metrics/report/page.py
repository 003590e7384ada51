import json
import re
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hb_metrics.human_eval.calibration_results import Calibration, calibration_section, figures, sentence
from hb_metrics.layout.figure import Figure, by_part
from hb_metrics.layout.numbers import and_list
from hb_metrics.layout.parts import Differs, Report, Section
from hb_metrics.layout.plots import Plot
from hb_metrics.layout.rendering import section, write_page
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.measurement import Measurement
from hb_metrics.measurements.results import Results, results_from_json
from hb_metrics.measurements.shares import BY_GROUP
from hb_metrics.run.run_record import measured_model, model_title, served_sentence

# The verdict on several measurements is the last one in this order.
_VERDICTS: dict[Differs, str] = {
    "": "This run does not show it",
    "no": "No difference was found",
    "unknown": "It is not known",
    "yes": "Yes",
}
# The keys of results.json whose values are texts: those left out, the user's messages, and templates.
_NOTHING: dict[str, list[str] | None] = {"shown_replies": [], "examples": [], "pair": None, "example": None}
_MESSAGES = frozenset({"system_prompt", "replace"})
_TEMPLATES = frozenset({"by_template", "templates", "skipped_templates", "left_out_templates", "questions"})
_NOT_TESTED = {"generation": "the style of replies", "decisions": "decisions", "dialogue": "the quality of replies"}


class RunAnswer(NamedTuple):
    """Whether the model treats people differently.

    `reports` are those of all measurements, and `on_top` those on the first screen.
    """

    differs: Differs
    reports: dict[str, Report]
    on_top: list[Report]

    @property
    def verdict(self) -> str:
        clauses = [report.headline for report in self.on_top if report.differs == self.differs and report.headline]
        joint = ", but " if self.differs == "no" else ": "
        return _VERDICTS[self.differs] + (joint + "; ".join(clauses) if clauses else "") + "."

    @property
    def sentences(self) -> list[str]:
        return [report.answer for report in self.on_top if report.answer is not None]


class Fold(NamedTuple):
    """A section that readers open, with the measurement's answer and chart if they are not on the first screen."""

    section: Section
    lead: str | None = None
    chart: tuple[Plot, str] | None = None


class Longer(NamedTuple):
    """The command of a run with four times as many replies, and how long it takes if that is known."""

    command: str
    minutes: float | None


def write_report(
    results: Results,
    path: Path,
    *,
    to_come: Sequence[Measurement] = (),
    more: Sequence[Section] = (),
    calibrations: Sequence[Calibration] = (),
    again: Longer | None = None,
) -> list[str]:
    """Writes a run's report, and returns its verdict and sentences on whether the model treats people differently.

    `again` is a longer run. If measurements are still `to_come`, the report is marked as incomplete. Sections for
    `calibrations` (the results of `human-eval calibrate`) come first if they have an interval, and the sections in
    `more` come last.
    """
    measured = [measurement for measurement in MEASUREMENTS if measurement.name in results.measured]
    answer, model = run_answer(results), results.record.model
    differs, by_name, on_top = answer
    reports = list(by_name.values())
    # Labels that are too few for an interval are shown last.
    calibrations = sorted(calibrations, key=lambda calibration: figures(calibration)[0].interval is None)
    usable = [calibration for calibration in calibrations if figures(calibration)[0].interval is not None]
    # A pair or a chart that shows no difference would contradict the verdict.
    shown = [report for report in on_top if report.differs == "yes" or differs != "yes"]
    top_chart = next((report.chart for report in shown if report.chart is not None), None)
    folds = [Fold(calibration_section(calibration)) for calibration in usable]
    for report in reports:
        folds += _folds(report, report in on_top, top_chart)
    folds += [*map(Fold, map(calibration_section, calibrations[len(usable) :])), *map(Fold, more)]
    main = [figures(calibration)[0] for calibration in usable]
    for measurement in measured:
        main += measurement.figures(results)
    folds += map(Fold, _groups_section(main))
    context = {
        "run": results.record,
        "served": served_sentence(model),
        "title": model_title(model),
        "measured": measured_model(model),
        "to_come": [measurement.title for measurement in to_come],
        "verdict": answer.verdict,
        "differs": differs == "yes",
        "answers": [*map(sentence, usable), *answer.sentences],
        "pairs": [report.pair for report in shown if report.pair],
        "chart": top_chart,
        "not_tested": not_tested(results.measured) if measured else "",
        "again": again,
        "words": [measurement.words for measurement in measured if not measurement.has_own_prompts],
        "other_words": [measurement.words for measurement in measured if measurement.has_own_prompts],
        "figures": [figure for figure in main if figure.is_main and not figure.part_of and figure.value is not None],
        "folds": folds,
        "embedded": [(part.words, by_name[part.name].embedded) for part in measured if by_name[part.name].embedded],
        "decides": "decisions" in by_name,
        "advice": "".join(report.advice for report in reports),
        "readings": [report.reading for report in reports if report.reading is not None],
        "notes": list(dict.fromkeys(note for report in reports for note in report.notes)),
        "files": [report.files for report in reports if report.files],
    }
    terms = next((report.terms for report in reports if report.terms is not None), None)
    write_page("report/report.html.jinja", path, context, terms)
    others = [report.answer for report in reports if report not in on_top and report.answer is not None]
    return [answer.verdict, *answer.sentences, *others]


def not_tested(measured: Container[str]) -> str:
    return and_list([words for name, words in _NOT_TESTED.items() if name not in measured])


def run_answer(results: Results) -> RunAnswer:
    measured = [measurement for measurement in MEASUREMENTS if measurement.name in results.measured]
    by_name = {measurement.name: measurement.parts.report(results) for measurement in measured}
    differs: Differs = max((report.differs for report in by_name.values()), key=list(_VERDICTS).index, default="")
    # Decisions and replies are what affects people, so they are on the first screen. So is what decides the verdict.
    # What differs comes first.
    main = ("decisions", "generation", "judge")
    on_top = [by_name[name] for name in main if name in by_name]
    others = {name: report for name, report in by_name.items() if name not in main and report.answer is not None}
    if differs in ("yes", "unknown") or not any(report.differs == differs for report in on_top):
        on_top += [report for report in others.values() if report.differs == differs]
    on_top = on_top or [*others.values()]
    on_top.sort(key=lambda report: report.differs != "yes")
    return RunAnswer(differs, by_name, on_top)


def _folds(report: Report, is_on_top: bool, top_chart: tuple[Plot, str] | None) -> list[Fold]:
    chart = None if report.chart is top_chart else report.chart
    return [Fold(report.sections[0], None if is_on_top else report.answer, chart), *map(Fold, report.sections[1:])]


def _groups_section(figures: Sequence[Figure]) -> list[Section]:
    """Shows the shares of replies by group of names."""
    parts = {name: rows for name, rows in by_part(list(figures)).items() if name.endswith(BY_GROUP)}
    groups = section("name-groups", "Groups of names", "report/name_groups.html.jinja", {"parts": parts})
    return [groups] if parts else []


def without_texts(results: Results) -> Results:
    """Returns results without prompts and replies. The user's own templates, questions and messages are numbered."""
    content, settings = results.content(), results.record.settings
    for name in results.measured:
        content[name] |= {key: value for key, value in _NOTHING.items() if key in content[name]}
    content["run"] = {name: part for name, part in content["run"].items() if name != "contrasts"}
    is_own = (settings.prompts, settings.vocabulary_dir) != (None, None)
    texts = dict.fromkeys(_texts(content, _MESSAGES | _TEMPLATES if is_own else _MESSAGES))
    names = {json.dumps(text): json.dumps(f"text {number}") for number, text in enumerate(texts, start=1)}
    renamed = re.sub(r'"(?:[^"\\]|\\.)*"', lambda match: names.get(match[0], match[0]), json.dumps(content))
    return results_from_json(json.loads(renamed))


def _texts(content: Any, names: frozenset[str], name: str = "") -> Iterator[str]:
    """Yields the texts in the content of results.json under `names`, which are strings, lists or keys of an object."""
    if name in names:
        yield from [content] if isinstance(content, str) else content or ()
    elif isinstance(content, dict):
        for key, value in content.items():
            yield from _texts(value, names, key)
