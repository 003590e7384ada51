"""The tasks of lm-evaluation-harness. What needs it is skipped without it (`pip install 'holistic-bias[lm-eval]'`)."""

import numpy as np
import pytest
import yaml

from hb_dataset.prompts import config_vocabulary
from hb_metrics.harnesses import lm_eval_tasks
from hb_metrics.harnesses.figures import all_reply_figures, decision_figures, likelihood_figures
from hb_metrics.harnesses.lm_eval_path import figure_names, main, task_configs, write_tasks
from hb_metrics.harnesses.rows import decision_rows
from hb_metrics.models.sources import embedded_model_folder
from tests.hb_metrics.harnesses import expected


class Loader(yaml.SafeLoader):
    pass


Loader.add_constructor("!function", lambda loader, node: loader.construct_scalar(node))


@pytest.fixture
def evaluate(vocabulary, tmp_path, monkeypatch):
    """Runs a task of the made-up vocabulary; returns its figures."""
    pytest.importorskip("lm_eval")
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    monkeypatch.chdir(tmp_path)
    folder = write_tasks(vocabulary, tmp_path)

    def run(task, model, metadata, **options):
        manager = TaskManager(include_path=str(folder), include_defaults=False, metadata=metadata)
        results = simple_evaluate(model, tasks=[task], task_manager=manager, bootstrap_iters=0, **options)
        named = results["results"][task].items()
        figures = {name.partition(",")[0]: value for name, value in named if name.endswith(",none")}
        return {name: value for name, value in figures.items() if not name.endswith("_stderr")}

    return run


def answering(reply=None, log_likelihood=None):
    """A model that answers by functions of the text it is given."""
    from lm_eval.api.model import LM

    class Answering(LM):
        def generate_until(self, requests):
            return [reply(request.args[0]) for request in requests]

        def loglikelihood_rolling(self, requests):
            return [log_likelihood(request.args[0]) for request in requests]

        def loglikelihood(self, requests):
            return [(log_likelihood(*request.args), False) for request in requests]

    return Answering()


def test_each_version_has_its_tasks_with_a_figure_for_each_axis(tmp_path, capsys, monkeypatch):
    folder = write_tasks(cache_dir=tmp_path)
    tasks = {path.stem: yaml.load(path.read_text(), Loader) for path in folder.iterdir()}

    kinds = ("gen_bias", "gen_bias_plain", "likelihood_bias", "decisions")
    assert set(tasks) == {f"holistic_bias_{kind}_{config}" for kind in kinds for config in task_configs()}
    assert {"v1.0", "v1.0-small", "next", "next-small"} <= set(task_configs())
    axes = {term.axis for term in config_vocabulary("v1.0").descriptors}
    figures = [metric["metric"] for metric in tasks["holistic_bias_likelihood_bias_v1.0"]["metric_list"]]
    assert {name.partition("/")[2] for name in figures} - {""} == axes
    for name, task in tasks.items():
        assert (task["task"], "group" in task) == (name, False)
        functions = [task["custom_dataset"], task["process_results"], task["metric_list"][0]["aggregation"]]
        for function in functions:
            module, _, attribute = function.rpartition(".")
            assert module == lm_eval_tasks.__name__
            assert callable(getattr(lm_eval_tasks, attribute))
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path))
    main([])
    assert capsys.readouterr().out == f"{folder}\n"
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


@pytest.mark.embedded
@pytest.mark.parametrize(("task", "end"), [("gen_bias", ""), ("gen_bias_plain", "\n")])
def test_figures_of_replies_are_ours(evaluate, rows, replies, task, end):
    by_text = {row.text + end: replies[row.id] for row in rows}
    model = answering(lambda text: f"\n{by_text[text]}\nIt goes on." if end else by_text[text])

    figures = evaluate(f"holistic_bias_{task}_v1.0", model, {"replies_per_cell": 0})

    given = [replies[row.id] for row in rows]
    # The first line that has words: where a reply is blank, that is what goes on.
    assert figures == all_reply_figures(rows, [each.strip() or "It goes on." for each in given] if end else given)


@pytest.mark.embedded
def test_the_prompts_are_chosen_by_metadata(evaluate, rows):
    model = answering(lambda text: "Great!" if "old" in text else "I am sorry.")
    metadata = {"axes": "age", "sample": 60, "replies_per_cell": 0}

    figures = evaluate("holistic_bias_gen_bias_v1.0", model, metadata)

    assert figures["num_replies"] == 60
    assert "full_gen_bias/age" in figures
    assert "full_gen_bias/ability" not in figures


@pytest.mark.embedded
def test_figures_of_likelihoods_are_ours_per_token_of_the_tokenizer(evaluate, rows, save_small_model):
    from transformers import AutoTokenizer

    folder = str(embedded_model_folder())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    numbers = [len(tokenizer(row.text)["input_ids"]) for row in rows]
    totals = [-float(len(row.text) + sum(map(ord, row.text)) % 17) for row in rows]
    by_text = {row.text: total for row, total in zip(rows, totals, strict=True)}
    model = answering(log_likelihood=lambda text: by_text[text])

    figures = evaluate("holistic_bias_likelihood_bias_v1.0", model, {"pretrained": folder})

    assert figures == likelihood_figures(rows, totals, numbers)
    other = str(save_small_model("gpt2"))
    tokenizer = AutoTokenizer.from_pretrained(other)
    numbers = [len(tokenizer(row.text)["input_ids"]) for row in rows]
    figures = evaluate("holistic_bias_likelihood_bias_v1.0", model, {"pretrained": folder, "tokenizer": other})
    assert figures == likelihood_figures(rows, totals, numbers)


def test_without_a_tokenizer_it_is_said_what_to_name():
    with pytest.raises(ValueError, match="tokenizer is unknown"):
        lm_eval_tasks.count_tokens(["Hi."], {"base_url": "http://localhost"})


def test_a_tokenizer_that_adds_tokens_has_to_be_told_not_to(save_small_model):
    folder = str(save_small_model("roberta"))
    with pytest.raises(ValueError, match="adds special tokens"):
        lm_eval_tasks.count_tokens(["I'm old."], {"pretrained": folder})
    assert lm_eval_tasks.count_tokens(["I'm old."], {"pretrained": folder, "add_bos_token": False})[0] > 0


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"axis": "age"}, "--metadata contains the unknown name 'axis'; did you mean 'axes'"),
        ({"dataset_config": "v1.1"}, "'v1.1' in --metadata, but 'v1.0' in the task; remove dataset_config"),
        ({"vocabulary_dir": "/other"}, "vocabulary_dir is '/other' in --metadata"),
    ],
)
def test_metadata_that_would_choose_other_prompts_than_is_thought_is_an_error(vocabulary, metadata, text):
    shipped = {"dataset_config": "v1.0"}
    for of_task in (shipped, {**shipped, "vocabulary_dir": vocabulary}):
        for documents in (lm_eval_tasks.replied_prompts, lm_eval_tasks.scored_prompts):
            with pytest.raises(ValueError, match=text):
                documents(prompts=of_task, **metadata)


@pytest.mark.long
@pytest.mark.embedded
def test_the_embedded_model_has_the_figures_of_measure(evaluate, embedded_run):
    model = {"model_args": {"pretrained": str(embedded_model_folder())}, "device": "cpu", "batch_size": 16}
    metadata = {"pretrained": str(embedded_model_folder()), "replies_per_cell": 0}
    replies, likelihoods = expected.of_run(embedded_run)

    chats = {"apply_chat_template": True, "gen_kwargs": "max_gen_toks=24"}
    figures = evaluate("holistic_bias_gen_bias_v1.0", "hf", metadata, **model, **chats)
    assert figures == pytest.approx({**replies, "num_empty_replies": 0}, rel=1e-6)
    figures = evaluate("holistic_bias_likelihood_bias_v1.0", "hf", metadata, **model)
    assert figures == pytest.approx(likelihoods, rel=1e-6)


def test_decisions_are_probabilities_of_the_favourable_option(evaluate, vocabulary):
    chances = {"yes": 0.3, "Yes": 0.1, "no": 0.2, "No": 0.2}
    rows = decision_rows("v1.0", vocabulary)
    is_old = {row.text: row.descriptor == "old" for row in rows}

    def log_likelihood(text, form):
        return float(np.log(chances[form] / (2 if is_old[text] and form == "yes" else 1)))

    model = answering(log_likelihood=log_likelihood)

    figures = evaluate("holistic_bias_decisions_v1.0", model, {})

    yes = {False: 0.5, True: 0.25 / 0.65}  # with "old", "yes" has half of its probability
    values = [yes[row.descriptor == "old"] for row in rows]
    values = [value if row.favourable == "yes" else 1 - value for value, row in zip(values, rows, strict=True)]
    expected = decision_figures(rows, values)
    assert {name: value for name, value in figures.items() if value is not None} == pytest.approx(
        {name: expected[name] for name in figure_names("decisions", ["ability", "age"]) if expected[name] is not None}
    )
    assert expected["num_answers"] == 8 * 10
