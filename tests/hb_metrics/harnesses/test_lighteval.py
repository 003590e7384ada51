"""The tasks of lighteval. Without it (`pip install 'holistic-bias[lighteval]'`) they are skipped."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hb_metrics.harnesses.figures import all_reply_figures, likelihood_figures
from tests.hb_metrics.harnesses import expected

pytest.importorskip("lighteval")
pytestmark = pytest.mark.filterwarnings("ignore")  # of its packages

from lighteval.metrics import apply_metric  # noqa: E402
from lighteval.models.model_output import ModelResponse  # noqa: E402
from lighteval.tasks.lighteval_task import LightevalTask  # noqa: E402

ROOT = Path(__file__).parents[3]
NAMES = ("gen_bias", "gen_bias_plain", "likelihood_bias")


@pytest.fixture(scope="module")
def module(asked):
    """The module of custom tasks, as it is with options for the made-up vocabulary."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLISTIC_BIAS_OPTIONS", json.dumps(asked))
        from hb_metrics.harnesses import lighteval_tasks
    return lighteval_tasks


@pytest.fixture
def tasks(module, asked, tmp_path):
    configs = module.make_tasks({**asked, "start_token": "<s>"}, tmp_path)
    return {config.name.removeprefix("holistic_bias_"): LightevalTask(config) for config in configs}


def figures_of(task, respond):
    """The figures of a task whose model responds by a function of the document."""
    docs = task.get_docs()
    outputs = apply_metric([respond(doc) for doc in docs], docs, list(task.metrics))
    (metric,) = task.metrics
    return task.aggregation()[metric.metric_name]([output[metric.metric_name] for output in outputs])


def known(figures):
    return {name: value for name, value in figures.items() if value is not None}


def test_the_table_has_our_tasks(module):
    assert [config.name for config in module.TASKS_TABLE] == [f"holistic_bias_{name}" for name in NAMES]


@pytest.mark.embedded
@pytest.mark.parametrize(("name", "end"), [("gen_bias", ""), ("gen_bias_plain", "\n")])
def test_figures_of_replies_are_ours(tasks, rows, replies, name, end):
    by_text = {row["text"] + end: replies[row["id"]] for row in rows}
    more = "\nIt goes on." if end else ""

    figures = figures_of(tasks[name], lambda doc: ModelResponse(text=[by_text[doc.query] + more]))

    given = [replies[row["id"]] for row in rows]
    if end:
        given = [reply.strip() or "It goes on." for reply in given]
    assert figures == known(all_reply_figures(rows, given))


def respond(log_likelihoods, context):
    def response(doc):
        total, number = log_likelihoods[doc.specific["id"]]
        assert (doc.query, doc.choices) == ("<s>", [doc.specific["text"]])
        return ModelResponse(input_tokens=context, output_tokens=[[5] * number + [-1] * 3], logprobs=[total])

    return response


def test_figures_of_likelihoods_are_ours(tasks, rows, log_likelihoods):
    figures = figures_of(tasks["likelihood_bias"], respond(log_likelihoods, [0]))

    pairs = [log_likelihoods[row["id"]] for row in rows]
    assert figures == likelihood_figures(rows, *zip(*pairs, strict=True))


def test_sentences_in_a_chat_are_refused(tasks, log_likelihoods):
    with pytest.raises(ValueError, match=r"after 7 tokens, .* override_chat_template=False"):
        figures_of(tasks["likelihood_bias"], respond(log_likelihoods, [0] * 7))


def test_without_a_start_token_it_is_said_what_to_name(module, asked, tmp_path):
    config = module.make_tasks(asked, tmp_path)[-1]
    with pytest.raises(ValueError, match="which token do the model's texts start with"):
        LightevalTask(config).get_docs()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "give a JSON object"),
        ("{", "give a JSON object"),
        ('{"smaple": 3}', "has 'smaple', which is not known; did you mean 'sample'"),
        ('{"max_new_tokens": 0}', "max_new_tokens is 0"),
    ],
)
def test_options_that_are_not_valid_are_named(module, text, message):
    with pytest.raises(ValueError, match=message):
        module.read_options(text)


def test_a_classifier_that_is_missing_shows_before_the_model_replies(module, asked, tmp_path):
    config = module.make_tasks({**asked, "style_classifier": str(tmp_path / "none")}, tmp_path)[0]
    with pytest.raises((OSError, ValueError), match="none"):
        LightevalTask(config).get_docs()


def test_other_prompts_are_another_dataset(module, asked, tmp_path):
    folders = {
        config.hf_repo
        for seed in (0, 1)
        for config in module.make_tasks({**asked, "sample": 50, "seed": seed}, tmp_path)
    }
    assert len(folders) == 6


@pytest.mark.embedded
@pytest.mark.usefixtures("nothing_left_open")
def test_where_lighteval_runs_on_inspect_it_has_the_tasks_of_inspect(tasks, rows, replies):
    from inspect_ai import eval as inspect_eval
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from lighteval.main_inspect import get_inspect_ai_task

    by_text = {row["text"]: replies[row["id"]] for row in rows}

    def output(messages, *_):
        made = ModelOutput.from_content("mockllm/model", by_text[messages[-1].text])
        made.usage = ModelUsage()
        return made

    task = get_inspect_ai_task(tasks["gen_bias"].config)
    (log,) = inspect_eval(
        task,
        model=get_model("mockllm/model", custom_outputs=output),
        display="none",
        log_dir=str(tasks["gen_bias"].config.hf_repo),
    )

    assert log.status == "success", log.error
    figures = known(all_reply_figures(rows, [replies[row["id"]] for row in rows]))
    del figures["num_empty_replies"]
    assert {name: each.value for name, each in log.results.scores[0].metrics.items()} == pytest.approx(
        figures, rel=1e-6
    )


@pytest.mark.long
@pytest.mark.embedded
def test_the_embedded_model_has_the_figures_of_measure(asked, embedded_run, tmp_path):
    from hb_metrics.inference.models.gguf import embedded_model_folder

    # By a relative name: lighteval keeps answers in a folder of the model's name, which an absolute one would be.
    (tmp_path / "model").symlink_to(embedded_model_folder())
    model = "model_name=model,dtype=float32,batch_size=16"
    options = {**asked, "max_new_tokens": 24, "start_token": "<|im_start|>"}
    replies, likelihoods = expected.of_run(embedded_run)

    def run(task, arguments):
        command = [sys.executable, "-m", "lighteval", "accelerate", arguments, f"holistic_bias_{task}|0"]
        command += ["--custom-tasks", "hb_metrics.harnesses.lighteval_tasks", "--output-dir", str(tmp_path / task)]
        environment = {**os.environ, "HOLISTIC_BIAS_OPTIONS": json.dumps(options), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        (results,) = (tmp_path / task).rglob("results_*.json")
        return json.loads(results.read_text())["results"][f"holistic_bias_{task}|0"]

    assert run("gen_bias", model) == pytest.approx({**replies, "num_empty_replies": 0}, rel=1e-6)
    plain = f"{model},override_chat_template=False"
    assert run("likelihood_bias", plain) == pytest.approx(likelihoods, rel=1e-6)
