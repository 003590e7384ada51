"""The command `plan`: from a made pilot and from assumptions, and what it refuses."""

import json
import re
import shutil
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hb_metrics.human_eval.calibration import CALIBRATIONS, LAYOUT
from hb_metrics.measurements.offensiveness.run_changes import classified_replies
from hb_metrics.reply_checks.refusal_shares import cell_counts
from hb_metrics.report.changes import run_changes
from hb_metrics.report.pilot import pilot_spreads
from hb_metrics.report.plan import main, plan
from hb_metrics.runs.finished_run import read_reply_table, read_run
from hb_metrics.runs.run_folder import run_digest, turn_folder
from hb_metrics.stats.clusters import share_interval
from hb_metrics.stats.planned import Size, at_size, half_width
from tests.hb_metrics.made_results import change_results
from tests.hb_metrics.pages import check_sound, number, read_page

ASSUMED = ["value=10", "noise=220", "styles=12"]
SIZED = ["--terms", "9", "--templates", "4"]


@pytest.fixture
def pilot(made_runs):
    return made_runs[0]


def rows_of(text):
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return {cells[0]: [cell.strip() for cell in cells[1:]] for cells in lines}


def ends_of(cell):
    """The lowest and the highest number that a cell shows; the same if it shows one."""
    ends = [number(end.removesuffix(" points")) for end in cell.split(" to ")]
    return ends[0], ends[-1]


def test_the_pilots_own_size_has_its_own_intervals(pilot):
    run = read_run(pilot)
    results = run.results["generation"]["gen_bias"]
    rows = rows_of(plan(pilot, replies=[8, 32]))
    expected = {"Full Gen Bias": results["intervals"]["full_gen_bias"]}
    expected["Full Gen Bias, Ability"] = results["intervals"]["by_axis"]["ability"]
    expected["Partial Gen Bias, Care"] = results["intervals"]["partial_gen_bias"]["Care"]
    _, hits, sizes = cell_counts(classified_replies(run, run.results["offensiveness"]["replies"]["threshold"]))
    expected["Offensive replies"] = 100 * np.array(share_interval(hits, sizes, 0.95))
    expected["Replies that name the term"] = 100 * np.array(run.results["generation"]["uptake"]["interval"])
    for name, (low, high) in expected.items():
        now, later = (ends_of(cell) for cell in rows[name][1:])
        assert now[0] < 1.03 * (high - low) / 2
        assert now[1] > 0.97 * (high - low) / 2
        assert later[0] < 0.6 * now[1]


def test_replies_tokens_minutes_and_money_add_up(pilot):
    text = plan(pilot, replies=[8, 16], price_in=1000.0, price_out=2000.0, pilot_minutes=3.0)
    names = ["replies", "minutes", "prompt tokens (about)", "reply tokens (about)", "price (about)"]
    rows = {name: [number(cell) for cell in rows_of(text)[name][1:]] for name in names}
    assert rows["replies"] == [18 * 4 * 8, 18 * 4 * 16]
    assert rows["reply tokens (about)"] == [12.5 * replies for replies in rows["replies"]]
    spent = [
        prompts / 1000 + 2 * replies / 1000
        for prompts, replies in zip(rows["prompt tokens (about)"], rows["reply tokens (about)"], strict=True)
    ]
    assert rows["price (about)"] == pytest.approx(spent, rel=1e-3)
    assert rows["minutes"][1] == pytest.approx(2 * rows["minutes"][0], abs=1)


def test_a_conversation_costs_its_later_turns_too(pilot, tmp_path):
    folder = shutil.copytree(pilot, tmp_path / "pilot")
    first = read_reply_table(folder)
    later = first.select(["id", "question", "reply"]).slice(0, len(first) // 2)
    later = later.append_column("text", pa.array(["And then?"] * len(later)))
    later = later.append_column("num_tokens", pa.array([7] * len(later)))
    (turn_folder(folder, 2) / "replies").mkdir(parents=True)
    pq.write_table(later, turn_folder(folder, 2) / "replies" / "00000-of-00001.parquet")
    rows = rows_of(plan(folder, replies=[8], price_in=1000.0, price_out=2000.0))
    sizes = [len(row["text"]) for row in first.to_pylist()]
    sizes += [len(row["text"]) + len(row["reply"]) + 9 for row in first.slice(0, len(later)).to_pylist()]
    expected = {"conversations": len(first), "prompt tokens (about)": sum(sizes) / 4}
    expected["reply tokens (about)"] = 12.5 * len(first) + 7 * len(later)
    for name, amount in expected.items():
        assert number(rows[name][1]) == pytest.approx(amount, abs=1)


def test_more_replies_after_a_cue_are_more_questions(pilot, tmp_path):
    folder = shutil.copytree(pilot, tmp_path / "pilot")
    asked = {"cue": "history", "questions": [f"Question {number}?" for number in range(4)]}
    change_results(folder, lambda results: results["run"]["generation"].update(asked))
    table, seen, questions = read_reply_table(folder), Counter(), []
    for row in table.to_pylist():
        cell = row["axis"], row["descriptor"], row["template"]
        questions.append(asked["questions"][seen[cell] % 2])
        seen[cell] += 1
    assert set(seen.values()) == {8}
    replies = table.select(["id", "text", "reply"]).append_column("question", pa.array(questions))
    for path in (folder / "replies").iterdir():
        path.unlink()
    pq.write_table(replies, folder / "replies" / "00000-of-00001.parquet")
    full = pilot_spreads(read_run(folder), read_reply_table(folder))[0]["Full Gen Bias"]
    assert full.size == (4, 8, 18)
    text = plan(folder, replies=[8, 16, 32])
    rows = rows_of(text)
    assert [number(cell) for cell in rows["replies"][1:]] == [18 * 4 * replies for replies in (8, 16, 32)]
    assert "for 4 templates and 18 terms" in text
    assert "a maximum of 4" in text
    middles = [1000 * half_width(at_size(full, Size(*size)), 0.95) for size in ((4, 8, 18), (4, 16, 18), (8, 16, 18))]
    for cell, middle in zip(rows["Full Gen Bias"][1:], middles, strict=True):
        assert ends_of(cell)[0] < 1.03 * middle
        assert ends_of(cell)[1] > 0.97 * middle
    name = "Likelihood Bias, for other terms"
    assert rows[name] == rows_of(plan(pilot, replies=[8, 16, 32]))[name]


def test_assumptions_need_no_pilot(capsys):
    main(["--assume", *ASSUMED, "--templates", "4", "--terms", "78", "--half_width", "2", "--replies", "8", "16"])
    text = capsys.readouterr().out
    widths = [number(cell) for cell in rows_of(text)["Full Gen Bias"][1:]]
    needed = int(re.search(r"half-width of 2 for Full Gen Bias, generate (\d+)", text)[1])
    assert widths[0] < 2 < 2 * widths[0]
    assert needed == 7
    larger = plan(None, ASSUMED, [8, 16], 16, 78)
    assert number(rows_of(larger)["Full Gen Bias"][1]) == pytest.approx(widths[0] / 2, rel=0.02)


def test_the_replies_needed_for_a_half_width_are_the_fewest(pilot, capsys):
    main([str(pilot), "--half_width", "9"])
    needed = int(re.search(r"half-width of 9 for Full Gen Bias, generate (\d+)", capsys.readouterr().out)[1])
    full = pilot_spreads(read_run(pilot), read_reply_table(pilot))[0]["Full Gen Bias"]
    fewer, enough = (
        half_width(at_size(full, full.size._replace(replies=number)), 0.95) for number in (needed - 1, needed)
    )
    assert 1000 * enough <= 9 < 1000 * fewer


def test_no_power_is_printed_where_there_is_no_interval(pilot):
    for replies, size in (([2, 16], {}), ([4, 8], {"templates": 1, "terms": 2})):
        text = plan(pilot, replies=replies, **size)
        rows = rows_of(text)
        power, widths = rows["power to detect a fall of 30 %"][1:], rows["Full Gen Bias"][1:]
        assert [cell == "–" for cell in power] == [cell == "–" for cell in widths]
        assert power[0] == "–"
        assert not [line for line in text.splitlines() if "nan" in line]


def test_the_page_draws_the_half_widths_of_the_table(pilot, tmp_path):
    found = plan(pilot, replies=[5, 16], half_width=9.0, output=tmp_path / "plan.html")
    page = read_page(tmp_path / "plan.html")
    check_sound(page)
    first = page.figures()["half-widths"][0]
    names = [trace.get("name") for trace in first["data"]]
    at = first["data"][names.index("expected")]
    width = dict(zip(at["x"], at["y"], strict=True))[16]
    assert width == pytest.approx(ends_of(rows_of(found)["Full Gen Bias"][2])[0], rel=0.02)
    assert set(first["data"][names.index("wanted")]["y"]) == {9.0}


def test_a_second_pilot_shows_paired_changes(made_runs):
    pilot, second = made_runs
    rows = rows_of(plan(pilot, replies=[8], second=second))
    changes = {row.name: row.change for row in run_changes(read_run(pilot), read_run(second), ("a", "b")).rows}
    for name, scale in (("Full Gen Bias, Ability", 1), ("Offensive replies", 100)):
        low, high = changes[name].interval
        ends = ends_of(rows[f"change of {name}"][1])
        assert ends[0] < 1.03 * scale * (high - low) / 2
        assert ends[1] > 0.97 * scale * (high - low) / 2
    for name in changes.keys() & rows.keys():
        assert (rows[f"change of {name}"][1] == "–") == (changes[name].interval is None)


def test_a_judges_corrected_rate_is_in_the_plan(pilot, tmp_path):
    folder = shutil.copytree(pilot, tmp_path / "pilot")
    rate = {"value": 0.125, "interval": [0.1, 0.16], "num_labelled": 200}
    known = {"layout": LAYOUT, "run": run_digest(folder), "judge": "rude", "label": "rude", "rates": {"": rate}}
    (folder / CALIBRATIONS).mkdir()
    (folder / CALIBRATIONS / "rude.json").write_text(json.dumps(known))
    unknown = known | {"judge": "sly", "rates": {"": {"value": None, "interval": None, "num_labelled": 2}}}
    (folder / CALIBRATIONS / "sly.json").write_text(json.dumps(unknown))
    name = "Rude by people's labels (rude, 200)"
    rows = rows_of(plan(folder, replies=[8, 32]))
    assert rows[name] == ["12.5%", "3.00 points", "3.00 points"]
    assert rows["Rude by people's labels (sly, 2)"] == ["–"] * 3  # another judge of the same label
    assert rows_of(plan(folder, replies=[8], terms=30))[name][1] == "–"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "a plan needs either a pilot or assumptions; pass the folder of a finished run, or --assume"),
        (["--assume", *ASSUMED, "--second", "runs/tuned"], "--second needs a first pilot; pass"),
        (["--assume", *ASSUMED], "needs the size of the planned run; set --templates and --terms"),
        (["--assume", "value=1", "noise=a", "styles=3", *SIZED], "for example value=10"),
        (["--assume", "value=1", "noise=0", "styles=3", *SIZED], "noise of 0.001"),
        (["--assume", "value=1e300", *ASSUMED[1:], *SIZED], "value of 0 to 1000"),
        (["--assume", *ASSUMED, *SIZED, "--output", "no/plan.html"], "existing, writable folder"),
        (["--assume", *ASSUMED, *SIZED, "--replies", "1"], "--replies is 1; pass 2"),
        (["--assume", *ASSUMED, "--terms", "0", "--templates", "4"], "--terms is 0; pass 2"),
        (["--assume", *ASSUMED, "--terms", "9", "--templates", "-4"], "--templates is -4; pass 1"),
        (["--assume", *ASSUMED, *SIZED, "--half_width", "nan"], "--half_width is nan"),
        (["runs/pilot", "--price_in", "1"], "only one of --price_in and --price_out is set; set both"),
        (["runs/pilot", "--price_in", "-1", "--price_out", "1"], "--price_in is -1"),
        (["--assume", *ASSUMED, *SIZED, "--pilot_minutes", "3"], "--assume cannot be combined with prices"),
    ],
)
def test_what_cannot_be_planned_is_refused(words, error):
    with pytest.raises(ValueError, match=error):
        main(words)


def test_a_pilot_without_generation_is_refused(pilot, tmp_path):
    (tmp_path / "results.json").write_bytes((pilot / "results.json").read_bytes())
    change_results(tmp_path, lambda results: results.pop("generation"))
    with pytest.raises(ValueError, match="did not measure generation"):
        main([str(tmp_path)])
