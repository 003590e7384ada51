"""The command `plan`: from a made pilot, and what it refuses."""

import html
import re
import shlex
import shutil
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import t

from hb_metrics.collect.replies.requests import select_prompts
from hb_metrics.command.analyse import write_run_report
from hb_metrics.command.arguments import parse_arguments
from hb_metrics.command.pilot import PlannedFigure, pilot_spreads
from hb_metrics.command.plan import _needed, main, plan
from hb_metrics.measurements.offensiveness.compute import classified_replies
from hb_metrics.measurements.results import read_run
from hb_metrics.run.replies import cell_counts
from hb_metrics.run.run_folder import turn_folder, write_json
from hb_metrics.run.tables import Tables
from hb_metrics.stats.gen_bias_intervals import Size, at_size, half_width
from hb_metrics.stats.reply_shares import share_interval
from tests.hb_metrics.made_results import change_results
from tests.hb_metrics.pages import number


@pytest.fixture
def pilot(made_runs):
    return made_runs[0]


def rows_of(text):
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return {cells[0]: [cell.strip() for cell in cells[1:]] for cells in lines}


def width_of(cell):
    return number(cell.removesuffix(" points"))


def test_the_pilots_own_size_has_its_own_intervals(pilot):
    run = read_run(pilot)
    results = run.results.generation.gen_bias
    rows = rows_of(plan(pilot, replies=[8, 30]))
    expected = {"Full Gen Bias": results.intervals.full_gen_bias}
    expected["Full Gen Bias, Ability"] = results.intervals.by_axis["ability"]
    expected["Partial Gen Bias, Care"] = results.intervals.partial_gen_bias["Care"]
    _, hits, sizes = cell_counts(classified_replies(run))
    expected["Offensive replies"] = 100 * np.array(share_interval(hits, sizes, 0.95))
    expected["Replies that name the term"] = 100 * np.array(run.results.generation.uptake.interval)
    for name, (low, high) in expected.items():
        now, later = (width_of(cell) for cell in rows[name][1:3])
        assert now == pytest.approx((high - low) / 2, rel=0.03)
        assert later < 0.6 * now
    freedom = pilot_spreads(run, Tables(pilot).reply_table())[0]["Full Gen Bias"].freedom
    assert rows["Full Gen Bias"][3] == f"{2.5 / freedom**0.5:.0%}"


def with_tokens(folder, turn, tokens_in, tokens_out):
    """Writes a turn whose first reply has no counts, as after a refusal of the server."""
    table = Tables(folder).reply_table().select(["id", "prompt_id", "text", "reply", "question"])
    table = table.slice(0, len(table) // turn)
    for name, tokens in (("tokens_in", tokens_in), ("tokens_out", tokens_out)):
        table = table.append_column(name, pa.array([None] + [tokens] * (len(table) - 1), pa.int64()))
    path = turn_folder(folder, turn) / "replies"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    pq.write_table(table, path / "00000-of-00001.parquet")


def test_replies_minutes_and_money_add_up(pilot, tmp_path):
    folder = shutil.copytree(pilot, tmp_path / "pilot")
    assert "minutes" not in rows_of(plan(folder))
    write_json(folder / "seconds.json", {"generation": 180.0, "offensiveness": 7.0})
    with_tokens(folder, 1, 50, 20)
    options = {"replies": [8, 16, 64], "price_in": 1000.0, "price_out": 2000.0}
    rows = rows_of(plan(folder, **options))
    numbers = [18 * 4 * 8, 18 * 4 * 16, 18 * 4 * 30]  # there are 30 prompts per term and template
    assert [number(cell) for cell in rows["replies"][1:4]] == numbers
    assert rows["minutes"][1:4] == ["3", "6", "11"]
    assert [number(cell) for cell in rows["price (about)"][1:4]] == pytest.approx(
        [0.05 * replies + 2 * 0.02 * replies for replies in numbers]
    )
    change_results(folder, lambda results: results["run"]["generation"].update(turns=2))
    with_tokens(folder, 2, 100, 10)  # half of the conversations
    rows = rows_of(plan(folder, **options))
    assert number(rows["price (about)"][1]) == pytest.approx(numbers[0] * (0.09 + 0.12 / 2))
    assert rows["conversations"][1] == "576"
    with_tokens(folder, 2, None, 10)
    with pytest.raises(ValueError, match="no numbers of tokens from a server"):
        plan(folder, **options)


def test_the_command_is_the_pilots_with_more_replies(pilot, tmp_path):
    folder = shutil.copytree(pilot, tmp_path / "a pilot")
    words = ["--quick", "--axes", "ability", "age", "--seed", "3", "--chat_template_kwargs", '{"a":1}']
    pilots = parse_arguments(words)

    def change(results):
        results["run"]["settings"] |= pilots.values() | {"output_dir": None}
        results["run"]["model"]["adapter"] = {"name": "an/adapter", "digest": "ab"}

    change_results(folder, change)
    command = shlex.split(plan(folder, replies=[12, 4]).splitlines()[-1])
    assert command[:2] == ["holistic-bias", "measure"]
    expected = {"replies_per_cell": 12, "output_dir": f"{folder}-12", "adapter": "an/adapter", "quick": False}
    assert parse_arguments(command[2:]).values() == pilots.values() | expected
    change_results(folder, lambda results: results["run"]["settings"].update(replies_file="replies.jsonl"))
    command = shlex.split(plan(folder, replies=[12]).splitlines()[-1])
    assert command[:3] == ["holistic-bias", "export-prompts", f"{folder}-12.jsonl"]
    assert "replies.jsonl" not in command


@pytest.mark.parametrize(("cue", "replies"), [("prompt", 5), ("history", 6)])
def test_the_pages_longer_run_asks_for_four_times_as_many_replies(pilot, tmp_path, cue, replies):
    folder, own = shutil.copytree(pilot, tmp_path / "pilot"), "Write -- it's a rule --briefly"
    settings = parse_arguments(["--cue", cue, "--replies_per_cell", str(replies), "--system_prompt", own]).values()

    def change(results):
        results["run"]["settings"] |= settings | {"output_dir": None}
        results["run"]["generation"]["cue"] = cue  # so each question has about half of the replies
        results["generation"]["gen_bias"]["mean_replies_per_cell"] = replies / (1 if cue == "prompt" else 2)

    change_results(folder, change)
    write_json(folder / "seconds.json", {"generation": 60.0, "judge": 180.0, "dialogue": 60.0})
    write_run_report(read_run(folder), folder / "report.html")
    page = html.unescape((folder / "report.html").read_text(encoding="utf-8"))
    command = shlex.split(re.search("<pre tabindex.*?><code>(.*?)</code>", page, re.DOTALL)[1].replace("\\\n", ""))
    assert command[:2] == ["holistic-bias", "measure"]
    again = parse_arguments(command[2:])
    assert again.values() == settings | {"replies_per_cell": 4 * replies}
    prompts = Tables(folder).prompts()
    before, after = (len(select_prompts(prompts, number, seed=0)) for number in (replies, 4 * replies))
    assert after == 4 * before
    assert "The run takes about 17 minutes on" in page  # a judge also labels four times as many replies
    change_results(folder, lambda results: results["run"]["model"].update(answered_in_files=True))
    write_run_report(read_run(folder), folder / "report.html")
    assert "The run takes about four times as long" in (folder / "report.html").read_text(encoding="utf-8")


def test_more_replies_after_a_cue_are_more_questions(pilot, tmp_path):
    folder = shutil.copytree(pilot, tmp_path / "pilot")
    asked = {"cue": "history", "questions": [f"Question {number}?" for number in range(4)]}
    change_results(folder, lambda results: results["run"]["generation"].update(asked))
    table, seen, questions = Tables(folder).reply_table(), Counter(), []
    for row in table.to_pylist():
        cell = row["axis"], row["descriptor"], row["template"]
        questions.append(asked["questions"][seen[cell] % 2])
        seen[cell] += 1
    assert set(seen.values()) == {8}
    replies = table.select(["id", "prompt_id", "text", "reply"]).append_column("question", pa.array(questions))
    for path in (folder / "replies").iterdir():
        path.unlink()
    pq.write_table(replies, folder / "replies" / "00000-of-00001.parquet")
    full = pilot_spreads(read_run(folder), Tables(folder).reply_table())[0]["Full Gen Bias"]
    assert full.size == (4, 8, 18)
    rows = rows_of(plan(folder, replies=[8, 16, 28]))
    assert [number(cell) for cell in rows["replies"][1:4]] == [18 * 4 * replies for replies in (8, 16, 28)]
    middles = [1000 * half_width(at_size(full, Size(*size)), 0.95) for size in ((4, 8, 18), (4, 16, 18), (7, 16, 18))]
    assert [width_of(cell) for cell in rows["Full Gen Bias"][1:4]] == pytest.approx(middles, rel=0.01)


def test_the_replies_needed_for_a_half_width_are_the_fewest(pilot, capsys):
    main([str(pilot), "--half_width", "9"])
    needed = int(re.search(r"half-width of 9 for Full Gen Bias, generate (\d+)", capsys.readouterr().out)[1])
    full = pilot_spreads(read_run(pilot), Tables(pilot).reply_table())[0]["Full Gen Bias"]
    sizes = (full.size._replace(replies=number) for number in (needed - 1, needed))
    fewer, enough = (half_width(at_size(full, size), 0.95) for size in sizes)
    assert 1000 * enough <= 9 < 1000 * fewer


def test_more_replies_are_promised_to_be_enough_only_if_they_are():
    def needed(most):
        return _needed(PlannedFigure(1.0, 1, lambda replies: {7: 1.9, 10: 1.8}.get(replies, 2.1), 0.1), 2.0, most)

    assert needed(8) == (7, "For a half-width of 2 for Full Gen Bias, generate 7 replies per term and template.")
    assert needed(7) == (
        7,
        "For a half-width of 2 for Full Gen Bias, generate 7 or more replies per term and template.",
    )


def test_a_half_width_that_the_prompts_do_not_allow_has_no_command(pilot):
    text = plan(pilot, replies=[2, 4], half_width=0.01)
    assert rows_of(text)["Full Gen Bias"][1] == "–"
    assert rows_of(text)["change of Full Gen Bias"][1] == "–"
    assert "Even 30 replies per term and template are not enough" in text
    assert "holistic-bias measure" not in text


def test_the_change_is_between_independent_runs(pilot):
    full = pilot_spreads(read_run(pilot), Tables(pilot).reply_table())[0]["Full Gen Bias"]
    value, width, _ = rows_of(plan(pilot, replies=[8]))["change of Full Gen Bias"]
    assert value == ""
    variance = 2 * (full.at_zero + full.slope * full.value)
    assert width_of(width) == pytest.approx(1000 * t.ppf(0.975, 2 * full.freedom) * variance**0.5, rel=0.01)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--replies", "1"], "--replies is 1; pass 2"),
        (["--half_width", "nan"], "--half_width is nan"),
        (["--price_in", "1"], "only one of --price_in and --price_out is set; set both"),
        (["--price_in", "-1", "--price_out", "1"], "--price_in is -1"),
        (["--price_in", "1", "--price_out", "1"], "no numbers of tokens from a server.*pass a pilot of a served model"),
    ],
)
def test_what_cannot_be_planned_is_refused(pilot, words, error):
    with pytest.raises(ValueError, match=error):
        main([str(pilot), *words])


def test_a_pilot_without_generation_is_refused(pilot, tmp_path):
    (tmp_path / "results.json").write_bytes((pilot / "results.json").read_bytes())
    change_results(tmp_path, lambda results: results.pop("generation"))
    with pytest.raises(ValueError, match="did not measure generation"):
        main([str(tmp_path)])
