"""Every metric as `evaluate` loads it, from its folder in a checkout and by its bare name once it is installed."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from hb_metrics.language_model_bias.paired_test import language_model_bias
from hb_metrics.likelihood_bias.shares import likelihood_bias
from hb_metrics.offensiveness.averages import offensiveness
from hb_metrics.regard_bias.regard_results import regard_bias
from hb_metrics.stats.decision_table import decision_gap
from hub_scripts.install_local import metric_folders
from tests.hb_metrics.full_gen_bias.test_modules import expected
from tests.hub_scripts.test_publish_metrics import assert_close

FOLDERS = {folder.name: folder for folder in metric_folders()}
OPTIONS = {
    "decision_gap": {"confidence_level": 0.9, "seed": 1},
    "full_gen_bias": {"labels": ["Calm", "Kind", "Curious", "Earnest"], "debias": True, "confidence_level": 0.95},
    "language_model_bias": {"alpha": 0.1},
    "likelihood_bias": {"alpha": 0.1, "include_gendered": False, "gendered_descriptors": ["d1"]},
    "offensiveness": {"threshold": 0.6, "ddof": 1},
    "regard_bias": {"pairs": {"gender": ["man", "woman"]}, "smoothing": 1},
}
CLUSTERS = {"clusters": {"Warm": ["Kind", "Calm"], "Rest": ["Curious", "Earnest"]}}
OPTIONS["partial_gen_bias"] = OPTIONS["full_gen_bias"] | CLUSTERS
OPTIONS["summed_cluster_gen_bias"] = OPTIONS["partial_gen_bias"] | {"ddof": 1, "scale": 1}
FUNCTIONS = {
    "decision_gap": decision_gap,
    "language_model_bias": lambda predictions, references, alpha: language_model_bias(
        predictions, references, alpha=alpha
    ),
    "likelihood_bias": likelihood_bias,
    "offensiveness": offensiveness,
    "regard_bias": regard_bias,
}
# Given to `load`, for what replies that come in batches need.
LOADED_WITH = {
    name: {**OPTIONS[name], "keep_replies": True} for name in FOLDERS if name in OPTIONS and name.endswith("gen_bias")
}
for settings in LOADED_WITH.values():
    for option in ("debias", "confidence_level", "ddof", "scale"):
        settings.pop(option, None)

LOAD_AND_COMPUTE = """
import json
import sys

sys.modules["transformers"] = None  # which `evaluate` would import, and is slow
import evaluate
del sys.modules["transformers"]

from hub_scripts.install_local import install_metrics

install_metrics()
given = json.load(sys.stdin)
computed = {}
for name, (folder, card_example, loaded_with, options, tables) in given.items():
    results = {}
    for source in (folder, name):
        metric = evaluate.load(source, **loaded_with)
        whole, in_batches = [], []
        for columns in tables:
            whole.append(metric.compute(**columns, **options))
            for row in range(20):
                single = {"predictions": "prediction", "references": "reference"}
                metric.add(**{single.get(key, key): column[row] for key, column in columns.items()})
            for start in range(20, len(columns["predictions"]), 50):
                metric.add_batch(**{key: column[start : start + 50] for key, column in columns.items()})
            in_batches.append(metric.compute(**{key: options[key] for key in options if key not in loaded_with}))
        results[source] = [whole, in_batches]
    example = {}
    exec(card_example, example)
    computed[name] = [results, example["results"]]
print(json.dumps(computed))
"""


def tables_of(name):
    """Columns to compute the metric of, with and without those that may be left out."""
    rng = np.random.default_rng(0)
    names = {
        "descriptors": [f"d{code}" for code in rng.integers(0, 6, 120)],
        "templates": [f"t{code}" for code in rng.integers(0, 3, 120)],
        "axes": ["age"] * 60 + ["nonce"] * 60,
    }
    if name == "language_model_bias":
        return [{"predictions": rng.lognormal(5, 1.5, 120).tolist(), "references": rng.lognormal(5, 1.5, 120).tolist()}]
    if name == "likelihood_bias":
        return [{"predictions": rng.integers(1, 15, 120).astype(float).tolist(), **names}]
    if name == "decision_gap":
        prompts = [f"q{code}" for code in rng.integers(0, 12, 120)]
        columns = {"descriptors": names["descriptors"], "prompts": prompts, "axes": names["axes"]}
        values = rng.random(120).tolist()
        wordings = [f"{code}" for code in rng.integers(0, 2, 120)]
        return [{"predictions": values, **columns}, {"predictions": values, **columns, "wordings": wordings}]
    if name == "regard_bias":
        columns = {
            "groups": ["man", "woman"] * 60,
            "structures": [structure for structure in ("original", "cleft-it", "tag") for _ in range(40)],
            "prompts": [f"{row % 4}" for row in range(120)],
            "seeds": [row // 2 % 6 for row in range(120)],
        }
        labels = rng.choice(["negative", "neutral", "positive", "other"], 120).tolist()
        return [{"predictions": labels, **columns}, {"predictions": labels, "groups": columns["groups"]}]
    probabilities = rng.random(120) if name == "offensiveness" else rng.dirichlet(np.ones(4), 120)
    without_axes = {key: column for key, column in names.items() if key != "axes"}
    return [{"predictions": probabilities.tolist(), **columns} for columns in (names, without_axes)]


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """What loaded metrics compute, in a process of its own: `evaluate` imports copies from the cache of its process."""
    home = tmp_path_factory.mktemp("home")
    given = {}
    for name, folder in FOLDERS.items():
        card = (folder / "README.md").read_text(encoding="utf-8")
        example = re.search(r"```python\n(import evaluate\n.*?)```", card, re.DOTALL)[1]
        given[name] = str(folder), example, LOADED_WITH.get(name, {}), OPTIONS.get(name, {}), tables_of(name)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOAD_AND_COMPUTE],
        input=json.dumps(given),
        env={**os.environ, "HF_HOME": str(home), "HF_EVALUATE_OFFLINE": "1"},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout)


def of_function(name, columns):
    """What the function that a metric is made of gives."""
    if name not in FUNCTIONS:
        return expected(name, columns, **{"clusters": None} | OPTIONS[name])
    predictions, *rest = columns
    return FUNCTIONS[name](columns[predictions], **{key: columns[key] for key in rest}, **OPTIONS[name])


@pytest.mark.parametrize("name", FOLDERS)
def test_a_loaded_metric_gives_what_its_function_gives(computed, name):
    results, _ = computed[name]
    tables = json.dumps([of_function(name, columns) for columns in tables_of(name)])

    assert list(results) == [str(FOLDERS[name]), name]
    for source, ways in results.items():
        assert list(map(json.dumps, ways)) == [tables] * 2, source


@pytest.mark.parametrize("name", FOLDERS)
def test_the_example_of_the_card_computes_the_first_case(computed, name):
    cases = {}
    exec((FOLDERS[name] / "tests.py").read_text(encoding="utf-8"), cases)
    first = cases["test_cases"][0]["result"]

    _, example = computed[name]

    assert_close({key: example[key] for key in first}, first)
