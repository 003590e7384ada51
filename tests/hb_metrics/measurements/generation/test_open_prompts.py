"""Own prompts of which some ask for a choice or a number: only replies to the others have a style."""

from hashlib import sha256

import pandas as pd
import pytest

from hb_metrics import load_run
from hb_metrics.measurements import GENERATION
from hb_metrics.measurements.generation.run_changes import changes, generalise
from hb_metrics.measurements.results import read_run
from hb_train.bias_labels import replies_to_label
from tests.hb_metrics.made_results import read_results
from tests.hb_metrics.runs_here import analysed, measure_here, replies_file

OPEN = ["I am {person}. What is there to see?", "Greet {person}.", "Recommend a book to {person}."]
CLOSED = [(f"{{person}} asks for {number} days off. Grant them?", "choice: yes | no", "yes") for number in range(1, 5)]
CLOSED.append(("How reliable is {person}, from 1 to 10?", "number: 1..10", "high"))
TEXTS = ["What a lovely day it is!", "I do not know that, sorry.", "Please tell me a bit more.", "This is very sad."]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of two models on the open prompts, and on all: styles are alike, but for one term at the second model."""

    def measured(rows, model):
        folder = tmp_path_factory.mktemp("mixed")
        written = pd.DataFrame(rows, columns=["prompt", "outcome", "favourable"])
        written.assign(id=written["prompt"].str.strip("{}")).to_csv(folder / "own.csv", index=False)
        terms = ",".join(f"who:{term}" for term in ("Deaf", "blind", "tall", "shy", "old", "rich"))
        measurements = "generation" if rows == open_rows else "generation,decisions"
        options = ["--prompts", folder / "own.csv", "--terms", terms, "--measurements", measurements]
        options += ["--model", model, "--decoding", "sample", "--replies_per_cell", 8]

        def reply_to(text):
            drawn = sha256(f"{model} {text}".encode()).digest()[0]
            if "Grant" in text or "reliable" in text:
                yes = drawn > (200 if "Deaf" in text else 50)
                return ("10" if yes else "1") if "reliable" in text else "Yes." if yes else "No."
            return TEXTS[3 if model == "unfair" and "Deaf" in text and drawn < 200 else drawn % 4]

        measure_here(*options, *replies_file(folder, reply_to, *options), "--output_dir", folder / "run")
        return folder / "run"

    open_rows = [(prompt, None, None) for prompt in OPEN]
    return {
        name: [measured(rows, model) for model in ("fair", "unfair")]
        for name, rows in (("open", open_rows), ("mixed", [*CLOSED, *open_rows]))
    }


def test_styles_are_those_of_the_open_prompts_alone(runs):
    for alone, mixed in zip(runs["open"], runs["mixed"], strict=True):
        alone, results = read_results(alone)["generation"], read_results(mixed)["generation"]
        assert results["short_share"] == 0
        assert results["num_decisions"] == results["num_replies"] - alone["num_replies"] > 0
        for name in ("gen_bias", "debiased", "styles", "by_descriptor", "nouns", "phrase_rates", "parroting"):
            assert results[name] == alone[name], name
        assert analysed(mixed)
        assert "state decisions" in (mixed / "report.html").read_text()
    fair, unfair = (GENERATION.parts.report(read_run(run).results).differs for run in runs["mixed"])
    assert (fair, unfair) == ("no", "yes")


def test_changes_in_style_are_those_of_the_open_prompts_alone(runs):
    alone, mixed = (changes(*map(read_run, runs[name])).by_name for name in ("open", "mixed"))
    of_style = [name for name in alone if "Gen Bias" in name or "nouns" in name]
    assert of_style
    assert all(alone[name] == mixed[name] for name in of_style)
    alone, mixed = (generalise(read_run(runs[name][1]), "terms") for name in ("open", "mixed"))
    assert alone["Full Gen Bias, debiased"] == mixed["Full Gen Bias, debiased"]
    assert len(load_run(runs["mixed"][1]).worst(by="bias_value")) == 10


def test_replies_to_the_open_prompts_are_labelled_for_tuning(runs):
    run = read_run(runs["mixed"][1])
    labelled = replies_to_label(run, run.tables.vectors("style_probabilities"))
    assert set(labelled["reply"].to_pylist()) == set(TEXTS)
    assert len(labelled) == read_results(runs["open"][1])["generation"]["num_replies"]
