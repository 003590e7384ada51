"""What replies say about a model, on replies made for the purpose."""

import numpy as np
import pyarrow as pa
import pytest

from hb_dataset import load_table
from hb_metrics.collect.classifiers.styles import clusters_for, load_style_classifier
from hb_metrics.measurements.generation.results import reply_counts
from hb_metrics.measurements.generation.styles import style_results
from hb_metrics.run.replies import Replies, whole_prompts
from hb_metrics.stats.gen_bias import CellSums, gen_bias

LABELS = ["Sympathetic", "Curious", "Happy", "Envious"]
CLUSTERS = {"Sympathy": ["Sympathetic"], "Curiosity": ["Curious"]}
EVERYDAY = [
    "That's great, tell me more about your weekend.",
    "I had pasta for lunch and now I'm sleepy.",
    "What do you do for a living?",
    "Nice to meet you! I love gardening.",
    "I don't know much about that.",
    "It's been raining here all day long.",
    "My favorite team lost again, what a pity.",
    "Haha, you're funny!",
]


def test_a_planted_bias_is_found_in_its_axis_and_cluster():
    """A model that is sorry for everybody of one axis, and otherwise says this and that."""
    table, rng = load_table("v1.0-small"), np.random.default_rng(1)
    prompts = table.take(pa.array(table.to_pandas().groupby(["descriptor", "template"]).head(8).index))
    is_sorry = (np.array(prompts["axis"]) == "religion") & (rng.random(len(prompts)) < 0.9)
    texts = np.where(is_sorry, "I'm sorry to hear that", rng.choice(EVERYDAY, len(prompts))).tolist()
    classifier, distinct = load_style_classifier(), ["I'm sorry to hear that", *EVERYDAY]
    vectors = dict(zip(distinct, classifier.classify(distinct)[0].astype(np.float32), strict=True))
    replies, probabilities = whole_prompts(prompts)._replace(texts=texts), np.array([vectors[text] for text in texts])
    results, _ = style_results(replies, probabilities, classifier.labels, clusters=clusters_for(classifier.labels))

    low, _ = results.gen_bias.intervals.full_gen_bias
    assert low > 0
    partial = results.debiased.partial_gen_bias
    assert max(partial, key=partial.get) == "Sympathy"
    assert partial["Sympathy"] > 0.8 * sum(partial.values())
    assert results.gen_bias.intervals.summed_cluster_gen_bias["Sympathy"][0] > 0
    planted, others = (
        [row for row in results.by_descriptor if (row.axis == "religion") == is_planted] for is_planted in (True, False)
    )
    assert np.mean([row.clusters["Sympathy"] for row in planted]) > 0.8
    assert np.mean([row.clusters["Sympathy"] for row in others]) < 0.2
    assert min(row.mean_bias_value for row in planted) > max(row.mean_bias_value for row in others)
    assert results.phrase_rates.phrases["sympathy"]["i'm sorry to hear"] == pytest.approx(is_sorry.mean())


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("Yes.", "Nice to meet you!"),
        ("好的。", "很高兴认识你！"),
        ("はい。", "お会いできてうれしいです。"),
        ("ใช่", "ยินดีที่ได้รู้จัก"),
        ("안녕하세요!", "당신을 만나서 정말 반가워요."),
    ],
)
def test_replies_are_short_by_their_words_or_letters_in_every_script(short, long):
    replies = ["a", "b", "c"], [short, short, long]
    table = pa.table({"id": replies[0], "reply": replies[1], "truncated": [False] * 3, "invented_turn": [False] * 3})
    for name, value in (("reasoning", pa.nulls(3, pa.string())), ("num_reasoning_tokens", pa.array([0] * 3))):
        table = table.append_column(name, value)
    table = table.append_column("reasoning_unclosed", pa.array([False] * 3))
    columns = [["x"] * 3] * 4
    given = Replies(replies[0], *columns, replies[1])
    assert reply_counts(table, given, given).short_share == 2 / 3


def small_replies(num_cells=6, per_cell=3):
    rng = np.random.default_rng(3)
    rows = [(f"d{cell % 3}", f"t{cell // 3}") for cell in range(num_cells) for _ in range(per_cell)]
    ids, (descriptors, templates) = [f"{index:04x}" for index in range(len(rows))], map(list, zip(*rows, strict=True))
    replies = Replies(ids, ["ability"] * len(ids), descriptors, templates, ["Hi."] * len(ids), ["Hi!"] * len(ids))
    return replies, rng.dirichlet([1] * 4, len(rows)).astype(np.float32)


def test_the_numbers_are_those_of_the_metrics():
    replies, probabilities = small_replies()
    results, biases = style_results(replies, probabilities, LABELS, clusters=CLUSTERS)

    cells = CellSums(LABELS, CLUSTERS, keep_replies=True)
    cells.add(probabilities, replies.descriptors, replies.templates, replies.axes)
    expected = gen_bias(cells, confidence_level=0.95)
    assert results.gen_bias == expected
    assert results.debiased.full_gen_bias == pytest.approx(expected.full_gen_bias - expected.noise_floor)
    assert [row.descriptor for row in results.by_descriptor] == ["d0", "d1", "d2"]
    for index, row in enumerate(results.by_descriptor):
        mine = np.array([d == row.descriptor for d in replies.descriptors])
        assert row.clusters["Sympathy"] == pytest.approx(probabilities[mine, 0].mean(), abs=1e-6)
        assert row.mean_bias_value == pytest.approx(biases.values[mine].mean())
        assert row.num_replies == mine.sum()
        assert biases.mean_values[index] == row.mean_bias_value
    assert results.parroting.parroting_share == 1
    assert [style.style for style in results.styles] == LABELS
    for index, style in enumerate(results.styles):
        assert style.mean == pytest.approx(biases.descriptor_means[:, index].mean())
        assert style.variance == pytest.approx(1000 * biases.descriptor_means[:, index].var())


def test_examples_are_the_furthest_in_their_style_and_some_drawn_by_id():
    replies, probabilities = small_replies(per_cell=5)
    results, biases = style_results(replies, probabilities, LABELS)

    examples = [row for row in results.examples if row.descriptor == "d1"]
    rows = [row for row, descriptor in enumerate(replies.descriptors) if descriptor == "d1"]
    furthest = sorted(rows, key=lambda row: -biases.values[row])[:2]
    assert [row.id for row in examples if row.why == "characteristic"] == [replies.ids[row] for row in furthest]
    assert len({row.id for row in examples}) == len(examples) == 5
