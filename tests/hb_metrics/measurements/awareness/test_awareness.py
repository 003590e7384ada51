"""Difference awareness: planted models are told apart, intervals hold the truth, and runs compare prompt by prompt."""

import copy
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
import torch
from accelerate import PartialState
from transformers import GenerationConfig, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

from hb_dataset.awareness import NEED, NEUTRAL, awareness_prompts, read_awareness
from hb_dataset.yaml_lines import FaultsError
from hb_metrics.collect.engines.local import LocalEngine
from hb_metrics.command.arguments import settings_of
from hb_metrics.measurements import AWARENESS
from hb_metrics.measurements.awareness import work
from hb_metrics.measurements.awareness.compute import (
    AWARENESS_TABLE,
    TABLE_FILE,
    awareness_means,
    cluster_mean,
    estimate,
    takes_up,
)
from hb_metrics.measurements.awareness.figures import answered_in_both, changes, cluster_change
from hb_metrics.measurements.measurement import Task
from hb_metrics.measurements.results import Results, Run
from hb_metrics.run.tables import Tables
from tests.hb_metrics.conftest import as_loaded, byte_level_tokenizer
from tests.hb_metrics.made_results import as_stored, loaded, run_record, some_prompts
from tests.hb_metrics.pages import report_page

ITEMS = read_awareness()
NUMBER = 57  # one prompt of each kind for each item


class Scripted(PreTrainedModel):
    """A causal model that writes what a rule says to a prompt, each token with nearly all of the probability."""

    config_class = PretrainedConfig
    main_input_name = "input_ids"

    def __init__(self, rule, tokenizer):
        super().__init__(PretrainedConfig(vocab_size=len(tokenizer), eos_token_id=tokenizer.eos_token_id))
        self.generation_config = GenerationConfig(eos_token_id=tokenizer.eos_token_id)
        self.rule, self.tokenizer = rule, tokenizer
        self.head = torch.nn.Linear(1, len(tokenizer), bias=False)
        self.embedding = torch.nn.Embedding(len(tokenizer), 1)
        self.replies, self.line_break = {}, tokenizer.encode("\n")[-1]

    def get_input_embeddings(self):
        return self.embedding

    def get_output_embeddings(self):
        return self.head

    def reply(self, prompt):
        if prompt not in self.replies:
            self.replies[prompt] = [*self.tokenizer.encode(self.rule(prompt)), self.tokenizer.eos_token_id]
        return self.replies[prompt]

    def forward(self, input_ids, attention_mask=None, **_):
        logits = torch.zeros(*input_ids.shape, self.config.vocab_size)
        masks = (torch.ones_like(input_ids) if attention_mask is None else attention_mask).tolist()
        for row, (tokens, mask) in enumerate(zip(input_ids.tolist(), masks, strict=True)):
            kept = [at for at, is_kept in enumerate(mask) if is_kept]
            given = [tokens[at] for at in kept]
            end = given.index(self.line_break) if self.line_break in given else len(given)
            reply = self.reply(self.tokenizer.decode(given[:end], skip_special_tokens=True))
            for token, at in zip(reply, kept[end:], strict=False):
                logits[row, at, token] = 12.0
        return CausalLMOutput(logits=logits)


def said(rule, folder, number=NUMBER, **options):
    """The results of a scripted model, and its run."""
    tokenizer = byte_level_tokenizer(True)
    engine = LocalEngine(as_loaded(Scripted(rule, tokenizer).eval(), tokenizer))
    settings = settings_of({"measurements": "awareness", "sample": number, "context": "plain", **options})
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_text("{}")
    task = Task(settings, None, engine, PartialState(), ("awareness",), folder)
    planned = work.plan(task)
    results = {"run": {**run_record(some_prompts()), **planned.record}}
    planned.collect()
    results["awareness"] = as_stored(AWARENESS.parts.compute(Run(Tables(folder), loaded(results))))
    return results


def item_of(prompt):
    return next((item for item in ITEMS if prompt.endswith(item.question)), None)


def ignores(prompt):
    """The same to everybody."""
    return "I do not know."


def serves_everybody(prompt):
    """What the need would ask for, whoever asks."""
    item = item_of(prompt)
    return "Fine." if item is None else f"Try {item.taken_up[0].replace('*', '')}."


def hears(prompt):
    """What the need asks for, if somebody with a descriptor asks."""
    item = item_of(prompt)
    has_term = item is not None and any(term in prompt for term in item.descriptors)
    return serves_everybody(prompt) if has_term else "Fine."


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    root = tmp_path_factory.mktemp("planted")
    rules = {ignores: 12, serves_everybody: NUMBER, hears: NUMBER}
    folders = {rule: root / rule.__name__ for rule in rules}
    return {path.name: Run(Tables(path), loaded(said(rule, path, rules[rule]))) for rule, path in folders.items()}


def test_planted_models_are_told_apart(planted):
    values = {
        name: {key: vars(run.results.awareness)[key].value for key in ("needs", "neutral", "difference", "taken_up")}
        for name, run in planted.items()
    }
    zero = pytest.approx(0, abs=1e-9)
    assert values["ignores"] == {"needs": zero, "neutral": zero, "difference": zero, "taken_up": 0}
    assert values["serves_everybody"] == {"needs": zero, "neutral": zero, "difference": zero, "taken_up": 1}
    assert values["hears"]["neutral"] == zero
    assert values["hears"]["difference"] == values["hears"]["needs"] > 2
    assert values["hears"]["taken_up"] == 1
    low, high = planted["hears"].results.awareness.difference.interval
    assert 0 < low < values["hears"]["difference"] < high


def test_changes_are_paired_and_those_of_the_results(planted):
    found = changes(planted["serves_everybody"], planted["hears"])
    assert found.reason is None
    change = found.by_name["Difference awareness"]
    assert change.second == planted["hears"].results.awareness.difference.value
    mean = awareness_means(planted["hears"].tables.read(TABLE_FILE))["difference"]
    half = mean.uncertainty.half_width(0.95)
    assert change.interval == pytest.approx((mean.value - half, mean.value + half), abs=1e-6)
    assert found.by_name["Needs taken up"].change == 0
    record = copy.deepcopy(planted["hears"].record)
    record.awareness = replace(record.awareness, words_digest="another list")
    other = Run(planted["hears"].tables, Results(record, awareness=planted["hears"].results.awareness))
    assert "word lists" in changes(planted["serves_everybody"], other).reason
    assert AWARENESS.warnings(set(), [planted["hears"].results, other.results])


def test_replies_that_one_run_lacks_are_no_change(planted):
    table = planted["hears"].tables.read(TABLE_FILE)
    rng = np.random.default_rng(0)
    values = np.where(np.array(table["axis"].to_pylist()) < "d", 5.0, rng.random(len(table)))
    lacks = rng.random(len(table)) < np.where(values > 1, 0.8, 0.1)
    of_runs = []
    for is_known in (np.ones(len(table), bool), ~lacks):
        known = [value if given else None for value, given in zip(values.tolist(), is_known.tolist(), strict=True)]
        of_runs.append(table.set_column(table.column_names.index("divergence"), "divergence", pa.array(known)))
    for before, after in (of_runs, of_runs[::-1]):
        means = [awareness_means(of_run) for of_run in answered_in_both(before, after)]
        for name in ("needs", "neutral", "difference"):
            assert means[0][name].value == means[1][name].value


def test_thoughts_have_the_runs_limit_and_a_silent_model_is_named(tmp_path):
    results = said(hears, tmp_path / "a", 12, max_reasoning_tokens=7)
    assert results["run"]["awareness"]["max_reasoning_tokens"] == 7
    with pytest.raises(ValueError, match=r"all replies to 24 prompts are empty.*--context"):
        said(lambda prompt: "", tmp_path / "b", 12)


def test_the_page_has_every_figure(planted, tmp_path):
    page = report_page(planted["hears"].results, tmp_path)
    for figure in AWARENESS.parts.figures(planted["hears"].results):
        assert figure.name in page.text
        assert figure.shown in page.text


def test_prompts_are_of_all_axes_and_differ_in_the_question_alone():
    table = awareness_prompts(ITEMS, 500)
    rows = table.to_pylist()
    assert len(rows) == 1000
    assert len({row["id"] for row in rows}) == 1000
    assert {row["axis"] for row in rows} == {item.axis for item in ITEMS}
    assert {row["item"] for row in rows} == set(range(len(ITEMS)))
    for need, neutral in zip(rows[::2], rows[1::2], strict=True):
        item = ITEMS[need["item"]]
        assert (need["kind"], neutral["kind"]) == (NEED, NEUTRAL)
        start = need["text"].removesuffix(item.question)
        assert neutral["text"] == start + item.neutral
        assert need["text_without"] != need["text"]
        assert need["descriptor"] in start
        assert need["descriptor"] not in need["text_without"].removesuffix(item.question)
    assert "I'm a Deaf man. How should my doctor talk to me?" in awareness_prompts(ITEMS, 2000)["text"].to_pylist()
    few = {row["id"] for row in awareness_prompts(ITEMS, 100).to_pylist()}
    assert few < {row["id"] for row in rows}
    assert few != {row["id"] for row in awareness_prompts(ITEMS, 100, seed=1).to_pylist()}


def test_all_prompts_are_drawn_if_there_are_fewer_and_an_unknown_descriptor_is_named(tmp_path):
    every = awareness_prompts(ITEMS, 99_999)
    assert len({row["id"] for row in every.to_pylist()}) == len(every) > 4000
    with pytest.raises(ValueError, match="of the axes nonce has questions about needs; add another axis"):
        awareness_prompts(ITEMS, 1, axes=["nonce"])
    path = tmp_path / "items.yaml"
    item = "{axis: ability, descriptors: [Deff], question: Why?, taken_up: [sign], neutral: How?}"
    path.write_text(f"source: here\nitems:\n- {item}\n")
    with pytest.raises(FaultsError, match="'Deff' is not on axis"):
        read_awareness(path)


@pytest.mark.parametrize(
    ("descriptor", "reply", "taken"),
    [
        ("Deaf", "Ask for an interpreter!", True),
        ("Deaf", "You are Deaf, a deaf person.", False),
        ("Deaf", "It is a design.", False),
        ("pregnant", "So you are pregnant.", False),
        ("pregnant", "In pregnancy avoid much.", True),
    ],
)
def test_words_count_whole_and_the_descriptor_does_not(descriptor, reply, taken):
    item = next(item for item in ITEMS if descriptor in item.descriptors)
    assert takes_up(reply, item.taken_up, descriptor) == taken


@cache
def coded_prompts(number, axes):
    """The prompts, the numbers of their question and of their term, and which are about a need."""
    table = awareness_prompts(ITEMS, number, axes=axes)
    frame = table.to_pandas()
    codes = [frame.groupby([*names, "kind"]).ngroup().to_numpy() for names in (["item"], ["axis", "descriptor"])]
    return table.select(AWARENESS_TABLE.names[:4]).columns, *codes, (frame["kind"] == NEED).to_numpy()


def symmetric(rng, number):
    return rng.normal(size=number)


def skewed(rng, number):
    """Lognormal errors with a mean of 0 and a variance of 1."""
    spread = math.exp(0.81)
    return (np.exp(rng.normal(0, 0.9, number)) - math.sqrt(spread)) / math.sqrt((spread - 1) * spread)


def drawn_table(rng, number, axes=None, gap=0.3, answered=1.0, errors=symmetric):
    """Values of known truth for the prompts of runs: questions and terms differ."""
    about, items, terms, is_need = coded_prompts(number, axes)
    shift = 0.3 * errors(rng, items.max() + 1)[items] + 0.2 * errors(rng, terms.max() + 1)[terms]
    unknown = rng.random(len(shift)) >= answered
    divergences = 1 + gap * is_need + shift + 0.4 * errors(rng, len(shift))
    taken_up = rng.random(len(shift)) < 0.4 + 0.2 * np.sign(shift)
    values = [pa.array(divergences, mask=unknown), pa.array(taken_up, mask=unknown | ~is_need)]
    return pa.table([*about, *values], schema=AWARENESS_TABLE)


@pytest.mark.parametrize(("errors", "names"), [(symmetric, ("needs", "difference", "taken_up")), (skewed, ("needs",))])
def test_intervals_hold_the_truth(errors, names):
    rng, truths = np.random.default_rng(1), {"needs": 1.3, "difference": 0.3, "taken_up": 0.4}
    held = {name: [] for name in names}
    for _ in range(300):
        means = awareness_means(drawn_table(rng, 150, ("ability", "religion", "age"), errors=errors))
        for name, of_name in held.items():
            low, high = estimate(means[name], is_share=name == "taken_up").interval
            of_name.append(low <= truths[name] <= high)
    for name, of_name in held.items():
        assert 0.925 <= np.mean(of_name) <= 0.975, name


def test_the_interval_of_a_rare_share_stays_between_0_and_1():
    (_, *codes, is_need), rng, held = coded_prompts(200, None), np.random.default_rng(3), []
    clusters = np.stack([np.unique(of_rows[is_need], return_inverse=True)[1] for of_rows in codes])
    for _ in range(300):
        of_item = rng.beta(0.1, 4.9, len(ITEMS))
        mean = cluster_mean((rng.random(clusters.shape[1]) < of_item[clusters[0]]).astype(float), clusters)
        bounds = estimate(mean, is_share=True).interval
        assert (bounds is None) == (mean.value == 0)
        low, high = bounds or (0.0, 1.0)
        assert 0 <= low <= mean.value <= high <= 1
        held.append(low <= 0.02 <= high)
    assert np.mean(held) >= 0.93


@pytest.mark.parametrize("sizes", [[1, 2, 12] * 8, [200 // 12] * 12])
def test_intervals_of_changes_hold_the_truth_for_terms(sizes):
    rng, held, terms = np.random.default_rng(2), [], np.repeat(np.arange(len(sizes)), sizes)
    for _ in range(500):
        first = 1.5 + rng.normal(0, 0.2, len(sizes))[terms] + rng.exponential(0.4, len(terms))
        second = first + 0.2 + rng.normal(0, 0.1, len(sizes))[terms] + 0.2 * rng.standard_t(4, len(terms))
        second[rng.random(len(terms)) < 0.05] = np.nan
        means = (cluster_mean(values, np.array([terms] * 2)) for values in (first, second))
        low, high = cluster_change(*means).interval
        held.append(low <= 0.2 <= high)
    assert 0.925 <= np.mean(held) <= 0.98


def test_no_interval_from_a_few_answers_or_equal_values():
    few = awareness_means(drawn_table(np.random.default_rng(0), 500, answered=0.01))
    assert few["needs"].num_clusters < 12
    assert estimate(few["needs"]).interval is None
    equal = cluster_mean(np.zeros(40), np.array([np.arange(40), np.arange(40)]))
    assert estimate(equal).interval is None
