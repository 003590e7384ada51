"""Neutral drift and the entropy of replies, of runs of one small model in several settings."""

import json
import shutil
import weakref

import pytest

from hb_metrics.measure import main as measure
from hb_metrics.measurements.reply_requests import ask
from hb_metrics.measurements.results import read_run
from hb_metrics.report.changes import run_changes
from hb_metrics.report.sides import both_sides
from hb_metrics.run.tables import Tables
from hb_train import side_effects
from tests.hb_train.conftest import AXES

SAMPLED = ["--measurements", "generation", "--replies_per_cell", "2", "--max_new_tokens", "12"]
RUNS = {
    "before": SAMPLED,
    "hotter": [*SAMPLED, "--temperature", "1.3"],
    "greedy": [*SAMPLED, "--decoding", "greedy"],
}


@pytest.fixture(scope="module")
def folders(pitying_model, tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for name, options in RUNS.items():
        options = [*options, "--context", "plain", "--axes", *AXES[:2]]
        measure(["--model", str(pitying_model), "--output_dir", str(root / name), *options])
    return root


def sides_of(folders, name):
    """The side effects of a run, and its table of both sides."""
    side_effects.main([str(folders / "before"), str(folders / name)])
    effects = json.loads((folders / name / "side_effects.json").read_text(encoding="utf-8"))
    runs = [read_run(folders / run) for run in ("before", name)]
    return effects, both_sides(runs, [run_changes(*runs, ("before", name))])


def test_a_model_that_only_replies_more_randomly_is_seen(folders):
    effects, sides = sides_of(folders, "hotter")
    entropy = effects["entropy"]
    assert 0 < entropy["first"] < entropy["second"]
    assert 0 < entropy["interval"][0] < entropy["second"] - entropy["first"] < entropy["interval"][1]
    assert (entropy["num_prompts"], effects["drift"]["value"]) == (96, 0)
    (row,) = [row for row in sides.rows if row.name == "Entropy of replies"]
    assert (row.before, row.after[0][0]) == (f"{entropy['first']:.3f}", f"{entropy['second']:.3f}")
    assert row.after[0][1].startswith("rose by ")
    (drift,) = [row for row in sides.rows if row.name == "Neutral drift"]
    assert drift.after == [("0.000", f"no interval: {effects['drift']['reason']}")]


def test_one_model_and_the_logits_of_few_answers_are_held_at_a_time(folders, monkeypatch):
    models, answers = [], []

    def load_side(run):
        assert all(model() is None for model in models)
        side = load(run)
        models.append(weakref.ref(side.engine.loaded.model))
        return side

    def reply_predictions(*given):
        for tokens, logits in predict(*given):
            answers.append(weakref.ref(logits))
            assert sum(answer() is not None for answer in answers) <= 3
            yield tokens, logits

    load, predict = side_effects.load_side, side_effects.reply_predictions
    monkeypatch.setattr(side_effects, "load_side", load_side)
    monkeypatch.setattr(side_effects, "reply_predictions", reply_predictions)
    side_effects.main([str(folders / "before"), str(folders / "greedy")])
    assert len(models) == 2
    assert len(answers) > 20


def test_the_replies_are_those_of_the_run(folders):
    _, settings, engine = side_effects.load_side(read_run(folders / "before"))
    asked = ask(settings, Tables(folders / "before").prompts(), engine)
    plan = engine.plan_replies(asked.requests.take(range(50, 57)))
    stored = dict(
        zip(*Tables(folders / "before").reply_table().select(["id", "reply"]).to_pydict().values(), strict=True)
    )
    expected = [stored[identifier] or "" for identifier in plan.ids]
    assert side_effects.reply_to_rows(plan, engine.loaded, range(7)) == expected


def test_without_sampled_replies_only_drift_is_measured(folders):
    effects, sides = sides_of(folders, "greedy")
    assert "after the mitigation has no sampled replies" in effects["entropy"]["missing"]
    assert effects["drift"]["value"] == 0
    assert "The entropy of replies is unknown, because the run after the mitigation has" in sides.sentences[0]


def test_a_run_whose_model_was_not_loaded_is_rejected(folders, tmp_path):
    run = shutil.copytree(folders / "greedy", tmp_path / "run")
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    results["run"]["model"]["dtype"] = None
    (run / "results.json").write_text(json.dumps(results), encoding="utf-8")
    with pytest.raises(ValueError, match="pass a run of a local model"):
        side_effects.load_side(read_run(run))
