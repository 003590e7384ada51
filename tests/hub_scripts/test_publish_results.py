import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from huggingface_hub import constants, parse_eval_result_entries

from hb_metrics.command.arguments import settings_of
from hub_scripts.publish_results import check_model, evaluation_results, main, read_settled_results
from hub_scripts.published_dataset import eval_yaml, published_dataset
from tests.hb_metrics.made_results import CLASSIFIER, add_dialogue, full_run, loaded
from tests.hub_scripts.versions_on_disk import freeze_small, versions_of

COMMIT = "0123456789abcdef0123456789abcdef01234567"
DIGEST = "89abcdef" * 8
MODEL, DATASET = "ORG/model", "ORG/holistic_bias"
CARD = "---\nlicense: mit\n---\n# A model\n\nIt talks.\n"
LIKELIHOOD_FILE = ".eval_results/holistic_bias_v1.0-small_likelihood.yaml"
GENERATION_FILE = ".eval_results/holistic_bias_v1.0-small_generation_someone-styles_no_bias.yaml"
OFFENSIVENESS_FILE = ".eval_results/holistic_bias_v1.0-small_offensiveness_words-embedded_no_bias.yaml"


@pytest.fixture
def results():
    """The results of a run of a Hub model, to change."""
    results = add_dialogue(full_run())
    given = {"model": MODEL, "measurements": "likelihood,generation,offensiveness,dialogue"}
    results["run"] |= {
        "settings": settings_of(given).values(),
        "model": {"name": MODEL, "kind": "causal", "digest": COMMIT, "dtype": "bfloat16", "num_parameters": 1234},
        "style_classifier": CLASSIFIER | {"name": "someone/styles", "digest": COMMIT},
        "offensiveness_classifier": {"name": "words (embedded)", "is_embedded": True, "digest": DIGEST, "notes": []},
        "versions": {"torch": "2.13.0", "holistic-bias": "0.1.0"},
    }
    results["run"]["generation"]["tag"] = "no_bias"
    return results


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


def publish(run, *more, repo_id=MODEL):
    main([str(run), "--repo_id", repo_id, "--dataset_id", DATASET, *more])


def entries_of(files):
    """Path → what the Hub's client reads in it."""
    return {path: parse_eval_result_entries(yaml.safe_load(text)) for path, text in files.items()}


# --- evaluation results -----------------------------------------------------------------------------------------------


def test_evaluation_results_are_the_figures_of_results_json(results):
    files = entries_of(evaluation_results(loaded(results), DATASET))
    assert list(files) == [LIKELIHOOD_FILE, GENERATION_FILE, OFFENSIVENESS_FILE]
    assert all(str(Path(path).parent) == constants.EVAL_RESULTS_FOLDER for path in files)
    entries = {entry.task_id: entry for of_file in files.values() for entry in of_file}
    generation = results["generation"]
    assert {task: entry.value for task, entry in entries.items()} == {
        "likelihood_bias_v1.0-small": results["likelihood"]["likelihood_bias"]["likelihood_bias"],
        "full_gen_bias_v1.0-small": generation["gen_bias"]["full_gen_bias"],
        "full_gen_bias_debiased_v1.0-small": generation["debiased"]["full_gen_bias"],
        "offensive_replies_v1.0-small": results["offensiveness"]["replies"]["offensive_share"],
    }
    for entry in entries.values():
        assert (entry.dataset_id, entry.dataset_revision) == (DATASET, "v1.0")
        assert (entry.date, entry.source_url) == (None, None)
        assert "config v1.0-small; " in entry.notes
        assert "commit 0123456789ab of ORG/model, bfloat16; holistic-bias 0.1.0" in entry.notes
    notes = entries["full_gen_bias_debiased_v1.0-small"].notes
    low, high = generation["gen_bias"]["intervals"]["full_gen_bias"]
    interval = re.search(r"95% interval (\S+) to (\S+);", notes)
    assert (float(interval[1]), float(interval[2])) == (pytest.approx(low, rel=1e-3), pytest.approx(high, rel=1e-3))
    assert "styles classified by someone/styles (digest 0123456789ab)" in notes


def test_only_measured_figures_are_published(results):
    only = {name: results[name] for name in ("run", "likelihood")}
    only["run"]["settings"]["sample"] = 500
    ((path, text),) = evaluation_results(loaded(only), DATASET).items()
    assert path == LIKELIHOOD_FILE
    assert "sample of 500 prompts, drawn with seed 0" in " ".join(text.split())


def test_eval_yaml_has_the_task_of_every_result(results, tmp_path):
    with versions_of(freeze_small(freeze_small(tmp_path, "v1.0"), "v2.0")):
        dataset = published_dataset(DATASET, "v2.0")
    listed = yaml.safe_load(eval_yaml(dataset))["tasks"]
    assert {task["split"] for task in listed} == {"test"}
    configs = {f"{version}{kind}" for version in ("v1.0", "v2.0") for kind in ("", "-small", "-seat")}
    assert {task["config"] for task in listed} == configs
    files = entries_of(evaluation_results(loaded(results), DATASET))
    tasks = [entry.task_id.removesuffix("-v1.0-small") for of_file in files.values() for entry in of_file]
    assert sorted(tasks) == sorted(task["id"] for task in listed if task["config"] == "v1.0-small")


SECRET = "/home/somebody/secret-SECRET"


@pytest.mark.parametrize("kind", ["folder", "served", "adapter"])
def test_nothing_private_of_the_machine_is_published(results, kind):
    """Every setting that is a text holds a private path or address, but for those of the prompts' choice."""
    run = results["run"]
    for name, value in settings_of({}).values().items():
        if name not in ("dataset_config", "vocabulary_dir", "axes", "sample") and not isinstance(value, (int, float)):
            run["settings"][name] = SECRET
    run["settings"] |= {"another": SECRET, "base_url": "http://10.1.2.3:8000/SECRET"}
    for section in ("style_classifier", "offensiveness_classifier"):
        run[section] |= {"name": f"{SECRET}/styles", "digest": DIGEST}
    local = {"name": f"{SECRET}/mine", "digest": DIGEST}
    served = {"base_url": "http://10.1.2.3:8000/SECRET", "server": "vllm", "model": SECRET, "provider": None}
    run["model"] |= {
        "folder": local,
        "served": {"name": f"{SECRET}/mine", "digest": None, "served": served},
        "adapter": {"adapter": local},
    }[kind]
    results["run"]["dialogue"]["source"] = f"{SECRET}/chats.csv"
    texts = evaluation_results(loaded(results), DATASET).values()
    assert re.findall(r".{,60}(?:SECRET|10\.1\.2|somebody).{,20}", "\n".join(texts)) == []


# --- which runs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "values", "match"),
    [
        ("settings", {"axes": ["age", "nonce"]}, "--axes"),
        ("data", {"config": "next-small"}, "'next-small', which is not published; allowed: v1.0, v1.0-small"),
    ],
)
def test_only_runs_of_frozen_versions_are_read(write_run, results, section, values, match, tmp_path):
    assert read_settled_results(write_run(results)).content() == results
    results["run"][section] |= values
    with pytest.raises(ValueError, match=match):
        publish(write_run(results, "other"), "--dry_run", str(tmp_path / "a" / "dry"))
    assert not (tmp_path / "a").exists()


def test_only_finished_runs_with_figures_are_read(write_run, results, tmp_path):
    (write_run(results, "unfinished") / "results.json").unlink()
    for folder in ("nowhere", "unfinished"):
        with pytest.raises(ValueError, match=f"{folder}' has no results.json"):
            read_settled_results(tmp_path / folder)
    empty = {"run": results["run"], "offensiveness": {"prompts": results["offensiveness"]["prompts"]}}
    with pytest.raises(ValueError, match="has no figures to publish"):
        publish(write_run(empty, "empty"), "--dry_run", str(tmp_path / "dry"))
    assert not (tmp_path / "dry").exists()


def test_a_run_may_be_of_a_folder_or_of_a_model_that_has_moved(results):
    model = loaded(results).record.model
    check_model(model, MODEL.replace("ORG", "OTHER"))
    check_model(replace(model, name="models/mine", digest=DIGEST), "ORG/other")  # a folder may hold the same


# --- on the Hub -------------------------------------------------------------------------------------------------------


@pytest.fixture
def repo(in_process, monkeypatch, tmp_path):
    """A model of somebody else on the Hub, and the dataset; this process has a contributor's token."""
    dataset = in_process.create_repo("dataset", DATASET)
    dataset.tags["v1.0"] = dataset.at().oid
    monkeypatch.setenv("HF_TOKEN", in_process.other_token)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return in_process.create_repo("model", MODEL, {"README.md": CARD.encode(), "config.json": b"{}"})


def test_publishing_opens_one_pull_request(hub, repo, run, results, write_run, capsys):
    before = repo.files()
    publish(run, "--yes")
    assert repo.files() == before  # main is the owners'
    expected = {path: text.encode() for path, text in evaluation_results(loaded(results), DATASET).items()}
    assert repo.files("refs/pr/1") == before | expected
    request = repo.pull_requests[1]
    assert request.title == "HolisticBias results (v1.0-small, tag no_bias)"
    assert all(path in request.description for path in expected)
    printed = capsys.readouterr().out
    url = f"{hub.url}/{MODEL}/discussions/1"
    assert printed.endswith(f"pull request: {url}\n")
    assert all(text.decode() in printed for text in expected.values())

    publish(run, "--yes")
    assert list(repo.pull_requests) == [1]
    assert capsys.readouterr().out.endswith(f"proposed already: {url}\n")

    repo.commit({"README.md": b"# Edited\n", **expected})
    wrote_before = hub.writes()
    publish(run, "--yes")
    assert hub.writes() == wrote_before
    assert "nothing to change" in capsys.readouterr().out

    results["likelihood"]["likelihood_bias"]["likelihood_bias"] = 0.125
    publish(write_run(results, "later"), "--yes")
    changed = {path for path, content in repo.files("refs/pr/2").items() if repo.files().get(path) != content}
    assert changed == {LIKELIHOOD_FILE}
    assert "value: 0.125" in capsys.readouterr().out


def test_without_yes_the_files_are_only_shown(hub, repo, run, capsys):
    publish(run)
    assert hub.writes() == []
    printed = capsys.readouterr().out
    assert LIKELIHOOD_FILE in printed
    assert printed.endswith("add --yes to open a pull request on ORG/model with these files\n")


def test_faults_write_nothing(hub, repo, run):
    def rejected(match, *more, repo_id=MODEL):
        with pytest.raises(ValueError, match=match):
            publish(run, "--yes", *more, repo_id=repo_id)
        assert repo.pull_requests == {}

    rejected("Reading model NO/model failed: HTTP 404", repo_id="NO/model")
    in_v2 = hub.create_repo("dataset", "ORG/other")
    in_v2.tags["v2.0"] = in_v2.at().oid
    rejected("dataset ORG/other has no version v1.0", "--dataset_id", "ORG/other")
    rejected("the run measured 'ORG/model', not 'ORG/other'", repo_id="ORG/other")
