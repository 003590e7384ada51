"""The tasks of Inspect. Without inspect-ai (`pip install 'holistic-bias[inspect]'`) they are skipped."""

import asyncio
import math
import time
from collections import Counter

import pytest

from hb_metrics.harnesses.figures import all_reply_figures, decision_figures
from hb_metrics.harnesses.rows import decision_rows
from tests.hb_metrics.harnesses import expected
from tests.hb_metrics.harnesses.conftest import TEMPLATES

pytest.importorskip("inspect_ai")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("nothing_left_open")]

import anyio  # noqa: E402
from inspect_ai import eval as inspect_eval  # noqa: E402
from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: E402

import holistic_bias  # noqa: E402
from hb_metrics.harnesses.inspect_tasks import in_batches  # noqa: E402

CLOSE = {"rel": 1e-6, "abs": 1e-9}  # classifiers pad the texts of a batch, and batches are of what comes together


def answering(answer):
    """A model that answers by a function of the user's text."""

    def output(messages, *_):
        made = answer(messages[-1].text)
        made.usage = ModelUsage()  # else it counts tokens, for which it would download a tokenizer
        return made

    return get_model("mockllm/model", custom_outputs=output)


def written(text):
    return ModelOutput.from_content("mockllm/model", text)


@pytest.fixture
def run(tmp_path):
    def run(task, model, **options):
        (log,) = inspect_eval(task, model=model, log_dir=str(tmp_path), display="none", **options)
        assert log.status == "success", log.error
        return log

    return run


def figures_of(log):
    (scorer,) = log.results.scores
    return {name: metric.value for name, metric in scorer.metrics.items()}


def known(figures):
    return {name: value for name, value in figures.items() if value is not None}


@pytest.mark.embedded
def test_figures_of_replies_are_ours_and_the_log_has_what_they_are_made_of(run, asked, rows, replies):
    by_text = {row.text: replies[row.id] for row in rows}

    log = run(holistic_bias.gen_bias(**asked), answering(lambda text: written(by_text[text])))

    figures = known(all_reply_figures(rows, [replies[row.id] for row in rows]))
    empty = figures.pop("num_empty_replies")
    assert figures_of(log) == pytest.approx(figures, **CLOSE)
    (scorer,) = log.results.scores
    assert (scorer.unscored_samples, scorer.scored_samples) == (empty, len(rows) - empty)
    assert empty > 0
    sample = next(sample for sample in log.samples if not math.isnan(_offensiveness(sample)))
    (score,) = sample.scores.values()
    assert sum(score.metadata["style_probabilities"].values()) == pytest.approx(1, abs=1e-4)
    likeliest = max(score.metadata["style_probabilities"].items(), key=lambda each: each[1])[0]
    about = {name: sample.metadata[name] for name in ("axis", "descriptor")}
    shown = {"style": likeliest.split(" (")[0], "offensiveness": round(score.metadata["offensiveness"], 4)}
    assert score.value == {**about, **shown}
    assert sample.metadata["template"] in TEMPLATES
    assert sample.id in replies


def _offensiveness(sample):
    (score,) = sample.scores.values()
    return score.value if isinstance(score.value, float) else score.value["offensiveness"]


@pytest.mark.embedded
def test_epochs_are_replies_of_the_same_cell(run, asked, rows):
    turns = Counter()

    def reply(text):
        turns[text] += 1
        return written("Great!" if turns[text] == 1 else "I am so sorry to hear that.")

    log = run(holistic_bias.gen_bias(**{**asked, "axes": "age"}), answering(reply), epochs=2)

    age = [row for row in rows if row.axis == "age"]
    both = all_reply_figures(age * 2, ["Great!"] * len(age) + ["I am so sorry to hear that."] * len(age))
    del both["num_empty_replies"]
    assert figures_of(log)["num_replies"] == 2 * len(age)
    assert figures_of(log) == pytest.approx(known(both), **CLOSE)


@pytest.mark.embedded
def test_greedy_epochs_are_one_reply(run, asked, rows):
    """The copies' lack of spread would pass for a lack of sampling noise."""
    words = {row.text: f"Oh, {row.descriptor}! {'Great!' if len(row.text) % 2 else 'So sad.'}" for row in rows}
    options = {**asked, "axes": "age"}
    once = figures_of(run(holistic_bias.gen_bias(**options), answering(lambda text: written(words[text]))))
    twice = figures_of(run(holistic_bias.gen_bias(**options), answering(lambda text: written(words[text])), epochs=2))
    assert twice == once


def test_requests_that_wait_are_answered_together_and_an_error_is_that_of_all():
    calls = []

    def answer_all(requests):
        calls.append(requests)
        if 13 in requests:
            raise ValueError("thirteen")
        return [request * 10 for request in requests]

    async def ask(numbers):
        answer, got = in_batches(answer_all), {}

        async def one(number):
            try:
                got[number] = await answer(number)
            except ValueError as error:
                got[number] = str(error)

        async with anyio.create_task_group() as tasks:
            for number in numbers:
                tasks.start_soon(one, number)
        return got

    assert anyio.run(ask, range(5)) == {number: number * 10 for number in range(5)}
    assert calls == [[0, 1, 2, 3, 4]]
    assert anyio.run(ask, [1, 13, 14]) == dict.fromkeys((1, 13, 14), "thirteen")


def test_a_cancelled_request_leaves_the_others_their_answers():
    async def ask():
        answer = in_batches(lambda requests: time.sleep(0.2) or [request * 10 for request in requests])
        tasks = [asyncio.create_task(answer(number)) for number in range(3)]
        await asyncio.sleep(0.1)
        tasks[0].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    cancelled, *answers = asyncio.run(ask())
    assert isinstance(cancelled, asyncio.CancelledError)
    assert answers == [10, 20]


@pytest.mark.long
@pytest.mark.embedded
def test_the_embedded_model_has_the_figures_of_measure(run, asked, embedded_run):
    from hb_metrics.models.sources import embedded_model_folder

    model = get_model("hf/embedded", model_path=str(embedded_model_folder()), do_sample=False)
    replies, _ = expected.of_run(embedded_run)

    assert figures_of(run(holistic_bias.gen_bias(**asked), model, max_tokens=24)) == pytest.approx(replies, **CLOSE)


def test_decisions_are_read_from_replies(run, vocabulary):
    rows = decision_rows("v1.0", vocabulary)
    answers = ("Yes.", "{asked}? No.", "I can't say.")  # the second one repeats the question, with "yes or no"
    by_text = {row.text: answers[place % 3].format(asked=row.text.split("?")[0]) for place, row in enumerate(rows)}

    task = holistic_bias.decisions(dataset_config="v1.0", vocabulary_dir=vocabulary)
    log = run(task, answering(lambda text: written(by_text[text])))

    said = [("yes", "no", None)[place % 3] for place in range(len(rows))]
    values = [None if each is None else float(each == row.favourable) for each, row in zip(said, rows, strict=True)]
    expected = decision_figures(rows, values)
    assert figures_of(log) == pytest.approx(known(expected))
    assert expected["num_unanswered"] == len(rows) // 3
