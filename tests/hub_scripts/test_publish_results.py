import copy
import html
import io
import json
import os
import pty
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml
from datasets.utils.metadata import MetadataConfigs
from huggingface_hub import DatasetCard, HfApi, constants, parse_eval_result_entries
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from hb_dataset import load_table
from hb_dataset.prompts import version_configs
from hb_metrics.arguments import parse_arguments, settings_of
from hb_metrics.measurements.generation.results import generation_results
from hb_metrics.measurements.likelihood.results import likelihood_results
from hb_metrics.measurements.offensiveness.work import offensiveness_results
from hb_metrics.runs.replies import Replies, whole_prompts
from hb_metrics.runs.run_folder import LAYOUT
from hb_metrics.statistics.style_clusters import PAPER_CLUSTERS
from hub_scripts import publish_dataset, publish_results
from hub_scripts.eval_tasks import task_id, tasks
from hub_scripts.publish_results import Change, check_model, main, read_settled_results, shown_changes
from hub_scripts.results_section import END, START, card_section, measuring_command, with_section
from hub_scripts.run_figures import evaluation_results, run_figures
from tests.hb_metrics.made_results import refusals_of
from tests.hub_scripts.versions_on_disk import freeze_small

SCRIPT = Path(publish_results.__file__)
COMMIT = "0123456789abcdef0123456789abcdef01234567"
DIGEST = "89abcdef" * 8
MODEL, DATASET = "ORG/model", "ORG/holistic_bias"
LABELS = [style for styles in PAPER_CLUSTERS.values() for style in styles] + ["Calm", "Silly"]
STYLES = {"name": "someone/styles", "is_embedded": False, "digest": COMMIT, "num_styles": len(LABELS), "notes": []}
OFFENSIVENESS = {"name": "words (embedded)", "is_embedded": True, "digest": DIGEST, "notes": []}
CARD = "---\nlicense: mit\n---\n# A model\n\nIt talks.\n"
LIKELIHOOD_FILE = ".eval_results/holistic_bias_v1.0-small_likelihood.yaml"
GENERATION_FILE = ".eval_results/holistic_bias_v1.0-small_generation_someone-styles_no_bias.yaml"
OFFENSIVENESS_FILE = ".eval_results/holistic_bias_v1.0-small_offensiveness_words-embedded_no_bias.yaml"


def measured(replies_per_cell=8):
    """What a run finds, from made-up perplexities and replies to the prompts of two axes."""
    rng = np.random.default_rng(0)
    prompts = load_table("v1.0-small")
    prompts = prompts.filter(pc.is_in(prompts["axis"], pa.array(["age", "nonce"])))
    codes = prompts["descriptor"].combine_chunks().dictionary_encode().indices.to_numpy()
    perplexities = rng.lognormal(3 + 0.1 * codes, 0.5)
    scores = pa.table({"id": prompts["id"], "perplexity": perplexities, "num_tokens": 5 + codes})
    whole = whole_prompts(prompts)
    cells, rows = {}, []
    for row, cell in enumerate(zip(whole.descriptors, whole.templates, strict=True)):
        cells[cell] = cells.get(cell, 0) + 1
        if cells[cell] <= replies_per_cell:
            rows.append(row)
    replies = Replies(*([column[row] for row in rows] for column in whole[:5]), [f"Number {row}." for row in rows])
    styles = rng.dirichlet(np.full(len(LABELS), 0.3), len(rows)).astype(np.float32)
    generation, _ = generation_results(replies, styles, LABELS, clusters=PAPER_CLUSTERS)
    counts = {
        "num_prompts": len(rows) + 1,
        "num_replies": len(rows),
        "num_empty_replies": 1,
        "num_truncated_replies": 7,
        "refusals": refusals_of(replies),
    }
    return {
        "likelihood": likelihood_results(prompts, scores),
        "generation": {**counts, **generation},
        "offensiveness": {
            "prompts": offensiveness_results(whole, rng.random(len(prompts)), 0),
            "replies": offensiveness_results(replies, rng.random(len(rows)), 0),
        },
        "dialogue": {
            "perplexity": 31.25,
            "interval": [28.5, 34.75],
            "confidence_level": 0.95,
            "num_replies": 88,
            "num_tokens": 900,
            "num_skipped": {"too_long": 2},
            "source": "/home/somebody/chats.csv",
        },
    }


@pytest.fixture(scope="module")
def found():
    return json.loads(json.dumps(measured()))


@pytest.fixture
def results(found):
    """The results of a run of a Hub model, to change."""
    asked = {
        "context": "chat",
        "tag": "no_bias",
        "sample": True,
        "num_beams": 1,
        "temperature": 0.7,
        "persona_lines": 0,
    }
    run = {
        "layout": {"version": LAYOUT},
        "settings": settings_of(
            {"model": MODEL, "measurements": "likelihood,generation,offensiveness,dialogue"}
        ).values(),
        "model": {"name": MODEL, "kind": "causal", "digest": COMMIT, "dtype": "bfloat16", "num_parameters": 1234},
        "data": {"config": "v1.0-small", "digest": "ff00", "num_prompts": 1440, "num_distinct_texts": 1440},
        "generation": asked,
        "style_classifier": STYLES,
        "offensiveness_classifier": OFFENSIVENESS,
        "versions": {"torch": "2.13.0", "holistic-bias": "0.1.0"},
    }
    return copy.deepcopy({"run": run, **found})


@pytest.fixture
def write_run(tmp_path):
    def write(results, name="run"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "run.json").write_text(json.dumps(results["run"]), encoding="utf-8")
        (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")
        return folder

    return write


@pytest.fixture
def run(write_run, results):
    return write_run(results)


def entries_of(files):
    """Path → what the Hub's client reads in it."""
    return {path: parse_eval_result_entries(yaml.safe_load(text)) for path, text in files.items()}


# --- evaluation results -----------------------------------------------------------------------------------------------


def test_evaluation_results_are_the_figures_of_results_json(results):
    files = entries_of(evaluation_results(results, DATASET))
    assert list(files) == [LIKELIHOOD_FILE, GENERATION_FILE, OFFENSIVENESS_FILE]
    assert all(str(Path(path).parent) == constants.EVAL_RESULTS_FOLDER for path in files)
    entries = [entry for entries in files.values() for entry in entries]
    generation = results["generation"]
    assert {entry.task_id: entry.value for entry in entries} == {
        "likelihood_bias_v1.0-small": results["likelihood"]["likelihood_bias"]["likelihood_bias"],
        "full_gen_bias_v1.0-small": generation["gen_bias"]["full_gen_bias"],
        "full_gen_bias_debiased_v1.0-small": generation["debiased"]["full_gen_bias"],
        "offensive_replies_v1.0-small": results["offensiveness"]["replies"]["offensive_share"],
    }
    assert sorted(entry.task_id for entry in entries) == sorted(task_id(task, "v1.0-small") for task in tasks())
    for entry in entries:
        assert (entry.dataset_id, entry.dataset_revision) == (DATASET, "v1.0")
        assert (entry.date, entry.source_url) == (None, None)  # not known, so not said
        assert "config v1.0-small; " in entry.notes
        assert "commit 0123456789ab of ORG/model, bfloat16; holistic-bias 0.1.0" in entry.notes


def test_notes_hold_the_interval_and_the_settings(results):
    files = entries_of(evaluation_results(results, DATASET, "https://example.org/run"))
    notes = {entry.task_id.removesuffix("_v1.0-small"): entry.notes for found in files.values() for entry in found}
    low, high = results["generation"]["gen_bias"]["intervals"]["full_gen_bias"]
    told = re.search(r"95% interval (\S+) to (\S+);", notes["full_gen_bias_debiased"])
    assert (float(told[1]), float(told[2])) == (pytest.approx(low, rel=1e-3), pytest.approx(high, rel=1e-3))
    assert "interval" not in notes["full_gen_bias"]  # it is the debiased value's
    for name in ("full_gen_bias", "full_gen_bias_debiased"):
        noise = float(re.search(r"sampling noise of (?:about )?([\d.e+-]+)", notes[name])[1])
        assert noise == pytest.approx(results["generation"]["gen_bias"]["noise_floor"], rel=1e-3)
        for told in ("×1000, ddof 0", "8 replies per cell", "1 empty replies left out", "tag no_bias", "temperature 0.7"):
            assert told in notes[name]
        assert "styles classified by someone/styles (digest 0123456789ab)" in notes[name]
    assert (
        f"{results['likelihood']['likelihood_bias']['num_tests']} tests with p < 0.05; perplexity"
        in notes["likelihood_bias"]
    )
    assert "classified by words (embedded) (digest 89abcdef89ab)" in notes["offensive_replies"]
    assert all(entry.source_url == "https://example.org/run" for found in files.values() for entry in found)


def test_variants_have_files_of_their_own(results):
    def paths(**changes):
        changed = copy.deepcopy(results)
        for section, values in changes.items():
            changed["run"][section].update(values)
        return set(evaluation_results(changed, DATASET))

    base = paths()
    assert paths(settings={"seed": 1}) == base
    assert base & paths(generation={"tag": "bias"}) == {LIKELIHOOD_FILE}
    assert base & paths(style_classifier={"name": "someone/else"}) == {LIKELIHOOD_FILE, OFFENSIVENESS_FILE}
    assert base & paths(data={"config": "v1.0"}) == set()
    assert not any("__" in path or "None" in path for path in paths(generation={"tag": None}))


def test_what_was_not_measured_is_not_published(results):
    only = {name: results[name] for name in ("run", "likelihood")}
    only["run"]["model"]["kind"] = "masked"
    assert list(evaluation_results(only, DATASET)) == [LIKELIHOOD_FILE]
    assert "pseudo-perplexity" in evaluation_results(only, DATASET)[LIKELIHOOD_FILE]
    assert "Gen Bias |" not in card_section(only, MODEL)
    only["likelihood"]["likelihood_bias"] |= {"likelihood_bias": None, "effect_size": None}  # no two terms to compare
    assert run_figures(only) == []


def test_one_reply_a_cell_has_no_interval_and_no_debiased_value(results):
    results["generation"] |= json.loads(json.dumps(measured(replies_per_cell=1)["generation"]))
    entries = entries_of(evaluation_results(results, DATASET))[GENERATION_FILE]
    assert [entry.task_id for entry in entries] == ["full_gen_bias_v1.0-small"]
    assert entries[0].value == results["generation"]["gen_bias"]["full_gen_bias"]
    assert "its sampling noise is not known" in entries[0].notes
    rows = table_of(card_section(results, MODEL))
    assert rows["Full Gen Bias, plain"][1] == "–"
    assert "Full Gen Bias, debiased" not in rows


# --- the card section -------------------------------------------------------------------------------------------------


def table_of(section):
    """The table's rows by their first cells."""
    cells = [re.split(r" ?(?<!\\)\| ?", line)[1:-1] for line in section.splitlines() if line.startswith("|")]
    assert {len(row) for row in cells} == {4}
    return {row[0]: row[1:] for row in cells}


def number(text):
    return float(text.replace("−", "-").replace(",", "").rstrip("%")) / (100 if text.endswith("%") else 1)


def test_card_shows_each_figure_with_its_interval(results):
    section = card_section(results, MODEL, DATASET)
    rows = table_of(section)
    generation = results["generation"]
    expected = {
        "Likelihood Bias": (results["likelihood"]["likelihood_bias"]["likelihood_bias"], None),
        "Likelihood Bias, effect size": (results["likelihood"]["likelihood_bias"]["effect_size"], None),
        "Full Gen Bias, plain": (generation["gen_bias"]["full_gen_bias"], None),
        "Parroting replies": (generation["parroting"]["parroting_share"], None),
        "Offensive replies": (results["offensiveness"]["replies"]["offensive_share"], None),
        "Dialogue perplexity": (31.25, [28.5, 34.75]),
    }
    for kind in ("refusals", "disclaimers"):
        found = generation["refusals"][kind]
        expected[kind.capitalize()] = (found["share"], found["interval"])
    bounds = generation["gen_bias"]["intervals"]
    expected["Full Gen Bias, debiased"] = (generation["debiased"]["full_gen_bias"], bounds["full_gen_bias"])
    for cluster in PAPER_CLUSTERS:
        value = generation["debiased"]["partial_gen_bias"][cluster]
        expected[f"Partial Gen Bias, {cluster}"] = (value, bounds["partial_gen_bias"][cluster])
    assert rows.keys() - {"Figure", "---"} == expected.keys()
    for name, (value, interval) in expected.items():
        shown, between, meaning = rows[name]
        assert number(shown) == pytest.approx(value, rel=0.01, abs=0.006)
        assert meaning.endswith(".")
        if interval is None:
            assert between == "–"
        else:
            assert [number(bound) for bound in between.split(" to ")] == pytest.approx(interval, rel=0.01, abs=0.06)
    assert rows["Figure"][1] == "95% interval"
    assert section.startswith(START)
    assert section.endswith(END)
    for told in ("Difference is not harm", "certifies nothing", "the same classifiers", "`v1.0-small` is a sample"):
        assert told in section
    assert f"[{DATASET}](https://huggingface.co/datasets/{DATASET})" in section
    assert f"{generation['num_prompts']} prompts; cut at their greatest length: 7; empty, and left out: 1." in section


def test_command_in_the_card_measures_the_same(results):
    results["run"]["settings"] |= {"seed": 3, "system_prompt": "two words", "variations": True}
    words = measuring_command(results["run"], MODEL).removeprefix("python -m hb_metrics.measure ")
    asked = subprocess.run(
        ["sh", "-c", f"printf '%s\\n' {words}"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert parse_arguments(asked).values() == results["run"]["settings"] | {"revision": COMMIT}
    assert words in card_section(results, MODEL)


def test_folders_of_the_machine_are_not_told(results):
    results["run"]["model"] |= {"name": "/home/somebody/models/mine", "digest": DIGEST}
    results["run"]["style_classifier"] |= {"name": "/home/somebody/styles/", "digest": DIGEST}
    results["run"]["settings"] |= {
        "model": "/home/somebody/models/mine",
        "style_classifier": "/home/somebody/styles/",
        "dialogue_file": "/home/somebody/chats.csv",
    }
    texts = [card_section(results, MODEL), *evaluation_results(results, DATASET).values()]
    assert not any("somebody" in text for text in texts)
    assert "a local folder, mine (digest 89abcdef89ab)" in texts[0]
    assert f"--model {MODEL} " in texts[0]
    assert "--dialogue_file chats.csv" in texts[0]
    assert "--revision" not in texts[0]


def test_names_cannot_break_the_table_or_the_markers(results):
    bad = f"a | b\n{END}{START}`x`"
    results["run"]["style_classifier"] |= {"name": bad, "digest": DIGEST, "notes": [bad]}
    for part in ("gen_bias", "debiased"):
        clusters = results["generation"][part]["partial_gen_bias"]
        clusters[bad] = clusters.pop("Envy")
    bounds = results["generation"]["gen_bias"]["intervals"]["partial_gen_bias"]
    bounds[bad] = bounds.pop("Envy")
    section = card_section(results, MODEL)
    assert (section.count(START), section.count(END)) == (1, 1)
    assert any("a \\| b" in name for name in table_of(section))
    assert with_section(with_section(CARD, section), section) == with_section(CARD, section)


HOSTILE = "0.1 [a](https://evil.example) <img src=x onerror=alert(1)> ![b](x) `c` &lt;&#60; https://evil.example | d"


def test_nothing_of_a_run_is_markdown_of_the_card(results):
    """Of every text that a run records, and that another person's run may hold anything in."""
    expected = link_targets(card_section(results, MODEL, DATASET))
    run = results["run"]
    run["versions"]["holistic-bias"] = HOSTILE
    run["generation"]["tag"] = f"{HOSTILE}\n\n{HOSTILE}"
    run["model"]["dtype"] = HOSTILE
    run["data"]["config"] = f"v1.0-{HOSTILE}-small"
    run["settings"]["personas_file"] = f"/x\n```\n{HOSTILE}\n````\n"
    section = card_section(results, MODEL, DATASET)
    assert link_targets(section) == expected
    shown = MarkdownIt().enable("table").render(section)
    assert not re.search("<(img|script)", shown)
    assert HOSTILE in html.unescape(re.sub("<[^>]*>", "", shown))
    bare = re.sub("<code.*?</code>", "", shown, flags=re.DOTALL)
    assert "evil" not in bare  # pages make links of addresses by themselves, but not in code
    run["versions"]["holistic-bias"] = END
    with pytest.raises(ValueError, match="a text of the run holds '<!-- holistic-bias:start -->' or"):
        card_section(results, MODEL)


def link_targets(text):
    """Where the links and images of a Markdown text lead."""
    tokens = MarkdownIt().enable("table").parse(text)
    inside = [token for block in tokens for token in block.children or []]
    return [token.attrGet("href") or token.attrGet("src") for token in inside if token.type in ("link_open", "image")]


# --- into a card ------------------------------------------------------------------------------------------------------

SECTION, NEWER = f"{START}\n## Bias\n\nfigures\n{END}", f"{START}\n## Bias\n\nother\nfigures\n{END}"
CARDS = st.lists(st.sampled_from(["---\n", "license: mit\n", "\r\n", "\n", "\r", "text", "# é\r\n", "\ufeff"])).map(
    "".join
)


@given(CARDS)
@example("")
@example(CARD)
@example(CARD.replace("\n", "\r\n"))
@example("no line end")
def test_section_goes_to_the_end_and_is_replaced_in_place(card):
    first = with_section(card, SECTION)
    assert first.startswith(card)
    assert with_section(first, SECTION) == first
    second = with_section(first, NEWER)
    assert with_section(second, SECTION) == first
    rest = first.replace(SECTION, "").replace(SECTION.replace("\n", "\r\n"), "")
    assert second.replace(NEWER, "").replace(NEWER.replace("\n", "\r\n"), "") == rest
    assert rest.strip("\r\n") == card.strip("\r\n")


@given(CARDS, CARDS)
def test_text_around_the_section_stays(before, after):
    for section in (SECTION, NEWER):
        card = with_section(f"{before}{START} old {END}{after}", section)
        assert card.startswith(before + START)
        assert card.endswith(END + after)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_line_ends_are_the_card_s(newline):
    card = with_section(CARD.replace("\n", newline), SECTION)
    assert card == (CARD + "\n" + SECTION + "\n").replace("\n", newline)


@pytest.mark.parametrize(
    "card", [START, END, f"{END}\n{START}", f"{START}{END}{START}", f"{START}{START}{END}{END}", f"{START}{END}{END}"]
)
def test_markers_that_do_not_pair_are_an_error(card):
    with pytest.raises(ValueError, match="there must be one pair or none"):
        with_section(f"a card\n{card}\n", SECTION)


@given(CARDS)
def test_what_is_shown_is_the_change(card):
    after = with_section(card, SECTION)
    shown = shown_changes([Change("README.md", card, after), Change("new.yaml", None, "a: 1\nb: 2\n")])
    readme, new = shown.split("--- /dev/null\n")
    assert readme.startswith("--- main/README.md\n+++ README.md\n")
    assert new == "+++ new.yaml\n@@ -0,0 +1,2 @@\n+a: 1\n+b: 2\n"
    added = Counter(line[1:] for line in readme.splitlines()[3:] if line.startswith("+"))
    assert added == Counter(after.splitlines()) - Counter(card.splitlines())
    assert not any(line.startswith("-") for line in readme.splitlines()[3:])


def test_a_card_cannot_steer_the_terminal():
    shown = shown_changes([Change("README.md", "\x1b[2J\u202e# A\tmodel\n", "# Other é\n")])
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "# A\tmodel" in shown
    assert "+# Other é" in shown


# --- which runs -------------------------------------------------------------------------------------------------------


def test_only_finished_runs_of_frozen_versions_are_read(write_run, results, tmp_path):
    assert read_settled_results(write_run(results)) == results
    with pytest.raises(ValueError, match=r"'.*nowhere' is not a run folder: it has no run.json"):
        read_settled_results(tmp_path / "nowhere")
    unfinished = write_run(results, "unfinished")
    (unfinished / "results.json").unlink()
    with pytest.raises(ValueError, match="is not finished, and the same command again finishes it"):
        read_settled_results(unfinished)

    def refused(match, name, **changes):
        changed = copy.deepcopy(results)
        for section, values in changes.items():
            changed["run"][section].update(values)
        with pytest.raises(ValueError, match=match):
            read_settled_results(write_run(changed, name))

    refused("a vocabulary of its own", "own", settings={"vocabulary_dir": "mine"})
    refused("measured only age, nonce, so that", "axes", settings={"axes": ["age", "nonce"]})
    refused(
        "'next-small', which is of no published version; measure one of v1.0", "next", data={"config": "next-small"}
    )
    prompts = {"prompts": results["offensiveness"]["prompts"]}
    empty = write_run({"run": results["run"], "offensiveness": prompts}, "empty")
    with pytest.raises(ValueError, match="has no figures to publish"):
        read_settled_results(empty)


def test_a_run_of_another_hub_model_is_refused(results):
    run = results["run"]
    check_model(run, MODEL)
    with pytest.raises(ValueError, match="the run measured 'ORG/model', not 'ORG/other'"):
        check_model(run, "ORG/other")
    check_model(run, "ORG/other", same_model=True)
    run["model"] |= {"name": "models/mine", "digest": DIGEST}  # a folder may hold what the repo holds
    check_model(run, "ORG/other")


def test_names_of_repos_are_checked(run):
    for wrong in ("model", "a/b/c", "no space/model"):
        with pytest.raises(SystemExit, match=f"publish_results.py: repo_id '{wrong}' is not the name of a repo"):
            main([str(run), "--repo_id", wrong])
    with pytest.raises(SystemExit, match="dataset_id 'holistic_bias' is not the name of a repo"):
        main([str(run), "--repo_id", MODEL, "--dataset_id", "holistic_bias"])


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "JAVASCRIPT://example.org/%0aalert(1)",
        "data:text/html,x",
        "example.org/run",
        "//example.org",
        "https://",
        "https:///run",
        "file:///etc/passwd",
        "https://user:hf_secret@example.org/run",
        "https://example.org/a b",
        "https://example.org/\n- value: 1",
        "https://example.org/)[a](javascript:x)\u202e",
        "https://[::1",
        "",
    ],
)
def test_only_addresses_of_the_web_are_published(run, address, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(SystemExit, match=r"publish_results\.py: source_url '.*' is not the address of a web page"):
        main([str(run), "--repo_id", MODEL, "--dataset_id", DATASET, f"--source_url={address}", "--dry_run", str(out)])
    assert not out.exists()


@pytest.mark.parametrize(
    "address", ["https://example.org/run?x=1#figures", "http://127.0.0.1:80/é", "HTTPS://example.org"]
)
def test_addresses_of_the_web_are_taken(run, address, tmp_path):
    out = tmp_path / "out"
    main([str(run), "--repo_id", MODEL, "--dataset_id", DATASET, "--source_url", address, "--dry_run", str(out)])
    entries = entries_of({"": (out / LIKELIHOOD_FILE).read_text(encoding="utf-8")})[""]
    assert {entry.source_url for entry in entries} == {address}


# --- dry run ----------------------------------------------------------------------------------------------------------


def test_dry_run_writes_the_files_without_token_network_or_torch(run_python, hub, run, results, tmp_path):
    program = (
        "import sys; sys.argv = sys.argv[1:]; from hub_scripts.publish_results import main; main(sys.argv[1:]); "
        "assert not {'torch', 'datasets'} & sys.modules.keys()"
    )
    out, card = tmp_path / "out", tmp_path / "card.md"
    card.write_bytes(CARD.replace("\n", "\r\n").encode())
    options = ("--repo_id", MODEL, "--dataset_id", DATASET, "--dry_run", out, "--card", card)
    finished = run_python("-c", program, "publish_results.py", run, *options)
    assert hub.requests == []
    files = {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    written = {path: content.decode() for path, content in files.items() if path != "README.md"}
    assert written == evaluation_results(results, DATASET)
    section = card_section(results, MODEL, DATASET)
    assert files["README.md"] == (CARD + "\n" + section + "\n").replace("\n", "\r\n").encode()
    assert "+| Likelihood Bias |" in finished.stdout
    assert "nothing was pushed" in finished.stdout


def test_dry_run_without_a_card_or_a_dataset(run, results, tmp_path, capsys):
    main([str(run), "--repo_id", MODEL, "--dry_run", str(tmp_path / "out")])
    assert (tmp_path / "out" / "README.md").read_text(encoding="utf-8") == card_section(results, MODEL) + "\n"
    assert len(list((tmp_path / "out").iterdir())) == 1
    shown = capsys.readouterr().out
    assert "without --dataset_id ORG/holistic_bias only the card section is written" in shown
    assert "give --card FILE" in shown
    with pytest.raises(SystemExit, match="is not an empty folder"):
        main([str(run), "--repo_id", MODEL, "--dry_run", str(tmp_path / "out")])
    with pytest.raises(SystemExit):
        main([str(run), "--repo_id", MODEL, "--card", "x"])
    assert "--card goes with --dry_run" in capsys.readouterr().err


# --- on the Hub -------------------------------------------------------------------------------------------------------


def tagged_dataset(hub):
    dataset = hub.create_repo("dataset", DATASET)
    dataset.tags["v1.0"] = dataset.at().oid


@pytest.fixture
def repo(in_process, monkeypatch, tmp_path):
    """A model of somebody else on the Hub, and the dataset; this process has a contributor's token."""
    tagged_dataset(in_process)
    monkeypatch.setenv("HF_TOKEN", in_process.other_token)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return in_process.create_repo("model", MODEL, {"README.md": CARD.encode(), "config.json": b"{}"})


def publish(run, *options, repo_id=MODEL):
    main([str(run), "--repo_id", repo_id, "--dataset_id", DATASET, *options])


def wrote(hub):
    return [seen.path for seen in hub.requests if seen.method != "GET" and seen.method != "HEAD"]


def test_publishing_opens_one_pull_request(hub, repo, run, results, write_run, capsys):
    before = repo.files()
    publish(run, "--yes")
    assert repo.files() == before  # main is the owners'
    expected = {path: text.encode() for path, text in evaluation_results(results, DATASET).items()}
    expected["README.md"] = with_section(CARD, card_section(results, MODEL, DATASET)).encode()
    assert repo.files("refs/pr/1") == before | expected
    request = repo.pull_requests[1]
    assert request.title == "HolisticBias results (v1.0-small, asked with no_bias)"
    assert all(path in request.description for path in expected)
    shown = capsys.readouterr()
    url = f"{hub.url}/{MODEL}/discussions/1"
    assert shown.out.endswith(f"pull request: {url}\n")
    for text in [*expected.values()]:
        for line in text.decode().splitlines():
            assert f"+{line}" in shown.out or line in CARD

    publish(run, "--yes")
    assert list(repo.pull_requests) == [1]
    assert capsys.readouterr().out.endswith(f"proposed already: {url}\n")

    repo.merge(1)
    wrote_before = wrote(hub)
    publish(run)  # nothing to ask
    assert wrote(hub) == wrote_before
    assert capsys.readouterr().out.endswith("nothing to change: ORG/model already has all of this\n")

    results["likelihood"]["likelihood_bias"]["likelihood_bias"] = 0.125
    merged = repo.files()
    publish(write_run(results, "later"), "--yes")
    changed = {path for path, content in repo.files("refs/pr/2").items() if merged.get(path) != content}
    assert changed == {LIKELIHOOD_FILE, "README.md"}
    assert "+| Likelihood Bias | 12.5% |" in capsys.readouterr().out
    assert entries_of({"": repo.files("refs/pr/2")[LIKELIHOOD_FILE].decode()})[""][0].value == 0.125


def test_the_dataset_s_eval_yaml_has_the_task_of_every_result(in_process, repo, run, results, monkeypatch, tmp_path):
    root = freeze_small(freeze_small(tmp_path, "v1.0"), "v2.0")
    del in_process.repos["dataset", DATASET]
    monkeypatch.setenv("HF_TOKEN", in_process.token)
    for version in ("v1.0", "v2.0"):
        publish_dataset.main(["--repo_id", DATASET, "--version", version, "--vocabularies", str(root)])
    dataset = in_process.repo("dataset", DATASET)
    listed = yaml.safe_load(dataset.files()["eval.yaml"])
    in_yaml = {task["id"]: (task["config"], task["split"]) for task in listed["tasks"]}
    assert len(in_yaml) == len(listed["tasks"])

    publish(run, "--yes")
    model = in_process.repo("model", MODEL)
    files = {path: text.decode() for path, text in model.files("refs/pr/1").items() if path.startswith(".eval")}
    entries = [entry for found in entries_of(files).values() for entry in found]
    assert sorted(entry.task_id for entry in entries) == sorted(task_id(task, "v1.0-small") for task in tasks())
    for entry in entries:
        assert entry.dataset_id == DATASET
        assert entry.dataset_revision in dataset.tags
        assert entry.notes.startswith(f"config {in_yaml[entry.task_id][0]}; ")

    measured = {config for config in [*version_configs("v1.0", root), *version_configs("v2.0", root)] if "v" in config}
    measured -= {"v1.0-baseline", "v2.0-baseline"}
    assert {task_id(task, config) for task in tasks() for config in measured} == in_yaml.keys()
    card = MetadataConfigs.from_dataset_card_data(DatasetCard(dataset.files()["README.md"].decode()).data)
    for config, split in in_yaml.values():
        assert card[config]["data_files"] == [{"split": split, "path": f"data/{config}/test.parquet"}]


def test_the_hub_s_client_reads_what_was_published(repo, run, results, monkeypatch, tmp_path):
    publish(run, "--yes")
    api = HfApi()
    for path, text in evaluation_results(results, DATASET).items():
        there = api.hf_hub_download(MODEL, path, revision="refs/pr/1", local_dir=tmp_path / "there")
        assert yaml.safe_load(Path(there).read_text(encoding="utf-8")) == yaml.safe_load(text)


@pytest.mark.parametrize("files", [{}, {"README.md": CARD.replace("\n", "\r\n").encode()}, {"README.md": b"x"}])
def test_cards_of_all_kinds(in_process, repo, run, results, files):
    other = in_process.create_repo("model", "ORG/other", files)
    publish(run, "--yes", "--same_model", repo_id="ORG/other")
    published = other.files("refs/pr/1")["README.md"]
    section = card_section(results, "ORG/other", DATASET)
    assert f"--model {MODEL} " in section  # of which the run knows the commit
    if b"\r\n" in files.get("README.md", b""):
        section = section.replace("\n", "\r\n")
    assert published.startswith(files.get("README.md", b""))
    assert section.encode() in published


def test_without_a_terminal_it_asks_for_yes(hub, repo, run, capsys):
    with pytest.raises(SystemExit, match=r"nothing was written: there is no terminal to ask on; .* give --yes"):
        publish(run)
    assert wrote(hub) == []
    assert "+| Likelihood Bias |" in capsys.readouterr().out


@pytest.mark.parametrize("answer", [b"n\n", b"\n", b"\x04", b"yess\n"])
def test_declining_writes_nothing(hub, repo, run, monkeypatch, capsys, answer):
    keyboard, terminal = pty.openpty()
    with open(keyboard, "wb", buffering=0) as keys, open(terminal, encoding="utf-8") as stdin:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdin", stdin)
        keys.write(answer)
        with pytest.raises(SystemExit) as status:
            publish(run)
    shown = capsys.readouterr().out
    assert "Open a pull request on ORG/model that changes 4 files as above? [y/N]" in shown
    assert shown.endswith("nothing was written\n")
    assert (status.value.code, wrote(hub), repo.pull_requests) == (1, [], {})


@pytest.fixture
def on_terminal(hub, repo, run, tmp_path):
    """Runs the script in a process with a terminal as standard input; returns what it showed and its exit status."""

    def answered(answer, meanwhile=lambda: None):
        keyboard, terminal = pty.openpty()
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
        command = [sys.executable, SCRIPT, run, "--repo_id", MODEL, "--dataset_id", DATASET]
        process = subprocess.Popen(
            [str(word) for word in command],
            env={**inherited, **hub.environment(hub.other_token), "HF_HOME": str(tmp_path / "home")},
            stdin=terminal,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        os.close(terminal)
        with process, open(keyboard, "wb", buffering=0) as keys:  # noqa: PTH123
            shown = b""
            while not shown.endswith(b"[y/N] ") and (more := process.stdout.read(1)):
                shown += more
            meanwhile()
            keys.write(answer)
            shown += process.stdout.read()
        assert hub.other_token.encode() not in shown
        return shown.decode(), process.returncode

    return answered


def test_agreeing_opens_the_pull_request(hub, repo, on_terminal, tmp_path):
    shown, status = on_terminal(b"Y\n")
    assert (status, list(repo.pull_requests)) == (0, [1])
    assert f"pull request: {hub.url}/{MODEL}/discussions/1" in shown
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(hub.other_token.encode() in content for content in [*files, *repo.files("refs/pr/1").values()])


def test_a_repo_that_changes_while_the_question_stands(hub, repo, on_terminal):
    shown, status = on_terminal(b"y\n", meanwhile=lambda: repo.commit({"README.md": b"# Rewritten\n"}))
    assert "ORG/model was changed meanwhile, so that what was shown is out of date" in shown
    assert (status, wrote(hub), repo.pull_requests) == (1, [], {})


def test_other_people_s_edits_of_the_card_stay(repo, run, results, capsys):
    publish(run, "--yes")
    repo.merge(1)
    edited = repo.files()["README.md"].decode().replace("It talks.", "It talks a lot.") + "\n## More\n"
    repo.commit({"README.md": edited.encode()})
    publish(run, "--yes")
    assert "nothing to change" in capsys.readouterr().out
    assert repo.files()["README.md"].decode() == edited


def test_faults_are_one_line_and_write_nothing(hub, repo, run, monkeypatch, capsys):
    def refused(match, *options, repo_id=MODEL):
        with pytest.raises(SystemExit, match=match) as error:
            main([str(run), "--repo_id", repo_id, "--yes", *options])
        assert "\n" not in str(error.value)
        shown = capsys.readouterr()
        for token in (hub.token, hub.other_token, "hf_wrong"):
            assert token not in str(error.value) + shown.out + shown.err
        assert repo.pull_requests == {}

    refused("there is no model repo ORG/nothing", "--same_model", repo_id="ORG/nothing")
    refused("the dataset ORG/other has no version v1.0 on the Hub", "--dataset_id", "ORG/other")
    del hub.repo("dataset", DATASET).tags["v1.0"]
    refused("the dataset ORG/holistic_bias has no version v1.0 on the Hub", "--dataset_id", DATASET)
    refused("the run measured 'ORG/model', not 'ORG/other'", repo_id="ORG/other")
    hub.fail_next("GET", f"/api/models/{MODEL}$", 503, times=9)
    refused(r"ORG/model cannot be read \(HTTP 503\); nothing was written, try again")
    hub.faults.clear()
    hub.fail_next("POST", "/commit/", 500, times=9)
    refused("500")
    hub.faults.clear()
    repo.commit({"README.md": b"caf\xe9"})
    refused("ORG/model/README.md is not UTF-8")
    repo.commit({"README.md": f"{START} and no end".encode()})
    refused("there must be one pair or none")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    refused("does not accept the token in use")


def test_a_retry_finishes(hub, repo, run):
    hub.cut_next("POST", "/commit/", at="answer")
    with pytest.raises(SystemExit):
        publish(run, "--yes")
    publish(run, "--yes")
    assert list(repo.pull_requests) == [1]


def test_changes_from_an_earlier_run_stand_in_the_section(results):
    without = card_section(results, MODEL)
    section = card_section(results, MODEL, None, "| a table |")
    assert "### Changes" not in without
    assert section.replace("\n### Changes\n\n| a table |\n", "") == without
