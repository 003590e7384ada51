"""What a run prints: every figure with its interval, in lines that fit the terminal."""

from hb_metrics.layout.terminal import figure_lines, filled
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.report.changes import comparable_figures
from hb_metrics.report.page import write_report
from tests.hb_metrics.made_results import loaded, whole_run


def test_lines_fit_and_have_all_figures(tmp_path, monkeypatch):
    results = whole_run()
    answers = write_report(loaded(results), tmp_path / "report.html")
    for columns in (60, 80, 300):
        monkeypatch.setenv("COLUMNS", str(columns))
        for measurement in MEASUREMENTS:
            figures = comparable_figures([measurement.parts.figures(loaded(results))])[0]
            lines = figure_lines(figures)
            text = " ".join(" ".join(lines).split())
            assert text.isascii()
            assert max(len(line) for printed in lines for line in printed.split("\n")) < min(columns, 100)
            for figure in figures:
                if not figure.part_of:
                    assert figure.shown.replace("−", "-") in text
                shares = ("Refusals", "Disclaimers", "Replies", "Attitude contrast")
                if figure.part_of.endswith("by axis") and not figure.part_of.startswith(shares):
                    assert f"{figure.label} {figure.shown}".replace("−", "-") in text
        for answer in answers:
            assert max(map(len, filled(answer).split("\n"))) < min(columns, 100)
