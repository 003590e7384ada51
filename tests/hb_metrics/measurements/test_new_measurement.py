"""A measurement is added by its folder and one entry of MEASUREMENTS: `reply_length`, beside this file, is one."""

import importlib
import json
from pathlib import Path

import pytest
import yaml

from hb_metrics.arguments import parse_arguments
from hb_metrics.measure import measure
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.report.comparison import write_comparison
from hb_metrics.report.markdown import overview_markdown
from hub_scripts.results_section import card_section
from hub_scripts.run_figures import evaluation_results


@pytest.fixture
def added(monkeypatch):
    """The module of the new measurement, which is an entry of MEASUREMENTS while the test lasts."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    module = importlib.import_module("reply_length")
    MEASUREMENTS.append(module.REPLY_LENGTH)
    yield module
    MEASUREMENTS.remove(module.REPLY_LENGTH)


@pytest.mark.embedded
def test_a_measurement_is_added_by_its_folder_and_one_entry(added, save_small_model, tmp_path, capsys):
    model = save_small_model("gpt2")
    options = ["--model", str(model), "--measurements", "reply_length", "--axes", "ability", "--replies_per_cell", "2"]
    options += ["--max_new_tokens", "6"]
    runs = []
    for seed in "0", "1":
        folder = tmp_path / f"run{seed}"
        measure(parse_arguments([*options, "--seed", seed, "--output_dir", str(folder)]))
        runs.append(folder)

    # Its option, in the help and in the record of the run.
    settings = parse_arguments([*options, "--reply_length_unit", "characters"])
    assert settings.of(added.ReplyLengthOptions).reply_length_unit == "characters"
    with pytest.raises(SystemExit):
        parse_arguments(["--help", "reply_length"])
    printed = capsys.readouterr().out
    assert "--reply_length_unit {words,characters}" in printed
    assert "replies counted in" in printed
    assert "Range of reply lengths: " in printed
    record = json.loads((runs[0] / "run.json").read_text())
    assert record["settings"]["reply_length_unit"] == "words"
    assert record["reply_length"] == {"counted": "all replies that are not empty"}

    # Its results, with those of the measurement it starts from; and the same again when the run goes on.
    results = json.loads((runs[0] / "results.json").read_text())
    assert list(results) == ["run", "generation", "reply_length"]
    lengths = results["reply_length"]["by_descriptor"]
    assert len(lengths) == record["data"]["num_descriptors"] == 6
    shards = {path: path.stat().st_mtime_ns for path in (runs[0] / "replies").iterdir()}
    (runs[0] / "results.json").unlink()
    measure(parse_arguments([*options, "--seed", "0", "--output_dir", str(runs[0])]))
    assert json.loads((runs[0] / "results.json").read_text()) == results
    assert {path: path.stat().st_mtime_ns for path in (runs[0] / "replies").iterdir()} == shards

    # Its part of the report.
    page = (runs[0] / "report.html").read_text()
    value = added.REPLY_LENGTH.figures(results)[0]
    assert '<li><a href="#reply-length">Length of replies</a></li>' in page
    assert f"<dt>Range of reply lengths</dt><dd>{value.shown}</dd>" in page
    assert f"mean replies to a term are {value.shown} words apart" in page
    assert f"mean replies to a term are {value.shown} words apart" in " ".join(printed.split())
    assert "Generation bias, length of replies on HolisticBias" in page
    assert "Longer is not better." in page
    for figure in added.REPLY_LENGTH.figures(results)[1:]:
        assert figure.value == lengths[figure.label]
        assert f'<tr><th scope="row">{figure.label}</th><td class="number">{figure.shown}</td></tr>' in page

    # Two runs side by side, as a page and as a table for a card.
    other = added.REPLY_LENGTH.figures(json.loads((runs[1] / "results.json").read_text()))[0]
    write_comparison(runs, tmp_path / "comparison.html", ["first", "second"])
    comparison = (tmp_path / "comparison.html").read_text()
    assert f'<td class="number">{value.shown}</td><td class="number">{other.shown}</td>' in comparison
    assert f"| Range of reply lengths | {value.shown} | {other.shown} |" in overview_markdown(runs, ["first", "second"])

    # Its figures on the Hub.
    files = evaluation_results(results, "someone/holistic_bias")
    entry = yaml.safe_load(files[".eval_results/holistic_bias_v1.0-small_reply_length.yaml"])[0]
    assert entry["value"] == value.value
    assert entry["dataset"]["task_id"] == "reply_length_range_v1.0-small"
    assert f"| Range of reply lengths | {value.shown} |" in card_section(results, "someone/model")


def test_an_option_of_the_new_measurement_is_checked(added):
    with pytest.raises(ValueError, match="reply_length_unit 'lines' is not known; allowed: words, characters"):
        added.ReplyLengthOptions("lines")
