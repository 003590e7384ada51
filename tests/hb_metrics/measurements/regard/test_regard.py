"""Regard in the main job, with a small model and a small classifier."""

from shutil import copytree

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hb_dataset.prompt_groups import find_groups
from hb_dataset.structures import structured_prompt_table
from hb_metrics.collect.classifiers.censoring import mask_groups
from hb_metrics.collect.classifiers.regard import REGARDS, load_regard_classifier
from hb_metrics.collect.judges.local import LocalJudge
from hb_metrics.command.arguments import settings_of, wanted_measurements
from hb_metrics.command.planning import read_files
from hb_metrics.measurements import REGARD
from hb_metrics.measurements.regard.compute import compute
from hb_metrics.measurements.regard.work import groups_and_pairs, whole_text
from hb_metrics.measurements.results import read_run
from hb_metrics.regard_bias.regard_results import regard_bias
from hb_metrics.report.page import write_report
from tests.hb_metrics.collect.judges.toy_judges import save_letters
from tests.hb_metrics.made_results import PAIRS, as_stored, read_results
from tests.hb_metrics.pages import check_sound, read_page
from tests.hb_metrics.runs_here import measure_here

OPTIONS = ["--measurements", "regard", "--regard_continuations", 1, "--regard_groups", "man", "woman"]


@pytest.fixture(autouse=True, scope="module")
def few_prompts():
    """Every tenth structure, few seeds, and more tokens, because those of the small model are short."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hb_metrics.measurements.regard.work.structured_prompt_table", some_structures)
        patch.setattr("hb_metrics.measurements.regard.continuations.MAX_TOKENS", 52)
        patch.setattr("hb_metrics.measurements.regard.continuations.NUM_SEEDS", 2)
        yield


def some_structures(groups):
    prompts = structured_prompt_table(groups)
    names = prompts["structure"].unique().to_pylist()
    assert names.index("original") % 10 == 0
    return prompts.filter(pc.is_in(prompts["structure"], pa.array(names[::10])))


@pytest.fixture(scope="module")
def classified_by(save_classifier):
    return ["--regard_classifier", save_classifier(*REGARDS, max_position_embeddings=128)]


@pytest.fixture(scope="module")
def finished(saved_llama, classified_by, tmp_path_factory):
    """The folder of a finished run."""
    out = tmp_path_factory.mktemp("runs") / "run"
    measure_here("--model", saved_llama, *OPTIONS, *classified_by, "--output_dir", out)
    return out


def test_a_judge_classifies_regard_and_guesses_no_tie(saved_llama, tmp_path, monkeypatch):
    """Replies with A as the likeliest letter have the label that their prompt gives it; the others are ties."""
    whole = LocalJudge.read

    def read(judge, prompts):
        found = whole(judge, prompts)
        found.probabilities[::3] = 0.25
        return found

    monkeypatch.setattr(LocalJudge, "read", read)
    judge = ["--regard_classifier", "judge:regard", "--judge_model", save_letters(tmp_path / "judge", [4, 3, 2, 1])]
    measure_here("--model", saved_llama, *OPTIONS, *judge, "--output_dir", tmp_path / "run")
    results = read_results(tmp_path / "run")
    rows = pq.read_table(tmp_path / "run" / "regard" / "regard_probabilities")["probabilities"].to_pylist()
    decided = [row for row in rows if max(row) == pytest.approx(0.4)]
    assert results["regard"]["num_unanswered"] == len(rows) - len(decided) > 10
    others = [row for row in decided if np.argmax(row) == REGARDS.index("other")]
    assert sum(results["regard"]["bias"]["num_other"].values()) == len(others) > 0
    assert results["run"]["regard"]["judge"]["rubric"]["name"] == "regard"


def test_a_text_reads_as_it_was_written():
    assert whole_text("The man worked as", "a nurse.") == "The man worked as a nurse."
    assert whole_text("The man was known for", ", as they say, jokes") == "The man was known for, as they say, jokes"
    assert whole_text("Was he?", "Yes.") == "Was he? Yes."


def test_what_is_measured_is_what_the_shards_hold(finished):
    results = read_results(finished)
    regard = results["regard"]
    assert set(results) == {"run", "regard"}
    prompts = {row["id"]: row for row in structured_prompt_table(find_groups(["man", "woman"])[0]).to_pylist()}
    rows = pq.read_table(finished / "regard" / "continuations").to_pylist()
    assert len(rows) == regard["num_continuations"] == 2 * (10 * 2 + 10)
    for row in [*rows, *pq.read_table(finished / "regard" / "regard_probabilities").to_pylist()]:
        prompt = prompts[row["prompt_id"]]
        assert (row["axis"], row["descriptor"], row["group"]) == (prompt["axis"], prompt["descriptor"], prompt["group"])
        assert (row["noun"], row["template"], row["turn"]) == (prompt["noun_phrase"], prompt["structure"], 1)
    nonempty = {row["id"]: row for row in rows if row["continuation"] is not None}
    assert regard["num_blank"] == len(rows) - len(nonempty)
    classified = pq.read_table(finished / "regard" / "regard_probabilities").to_pylist()
    assert {row["id"] for row in classified} == set(nonempty)
    labels = [REGARDS[int(np.argmax(row["probabilities"]))] for row in classified]
    about = [prompts[nonempty[row["id"]]["prompt_id"]] for row in classified]
    expected = regard_bias(
        labels,
        [row["group"] for row in about],
        structures=[row["structure"] for row in about],
        prompts=[row["verb_phrase"] for row in about],
        seeds=[nonempty[row["id"]]["seed_index"] for row in classified],
        pairs={"man − woman": ("man", "woman")},
    )
    assert regard["bias"] == as_stored(expected)
    assert regard["num_structures"] == len(regard["structures"]) == 11


def test_the_classifier_is_given_the_whole_text_without_the_group(finished, classified_by):
    classifier = load_regard_classifier(classified_by[1])
    rows = [row for row in pq.read_table(finished / "regard" / "continuations").to_pylist() if row["continuation"]]
    rows = [row for row in rows if row["prompt_id"].startswith("woman|")][:20]
    texts = [whole_text(row["text"], row["continuation"]) for row in rows]
    texts = mask_groups(texts, [("woman", "women")] * len(rows))
    assert all("XYZ" in text for text in texts)
    expected = dict(zip([row["id"] for row in rows], classifier.classify(texts)[0], strict=True))
    stored = pq.read_table(finished / "regard" / "regard_probabilities").to_pylist()
    probabilities = {row["id"]: row["probabilities"] for row in stored}
    for row, text in zip(rows, texts, strict=True):
        assert probabilities[row["id"]] == pytest.approx(expected[row["id"]], abs=1e-4), text


@pytest.mark.long
def test_two_processes_give_the_same_bytes(saved_llama, classified_by, forked_programs, tmp_path):
    """Programs have all prompts, unlike the runs in this process."""
    program = "tests.hb_metrics.stoppable_run"
    options = [str(word) for word in ("--model", saved_llama, *OPTIONS, *classified_by, "--output_dir")]
    forked_programs.run_two(program, [*options, tmp_path / "two"])
    alone, log = forked_programs.start(f"{program}:main", [[*options, str(tmp_path / "one")]])
    assert forked_programs.wait(alone) == [0], log.read_text()[-3000:]
    one, two = ((tmp_path / name / "results.json").read_bytes() for name in ("one", "two"))
    assert one == two


def asked(**options):
    return settings_of({"measurements": "regard", **options})


@pytest.mark.parametrize(
    ("given", "number", "expected"),
    [
        (None, 6, PAIRS),  # those of the paper
        (["tall man", "short man"], 2, {"tall man − short man": ("tall man", "short man")}),
        (["man", "woman", "tall man"], 3, {}),
    ],
)
def test_two_groups_are_a_pair_and_the_first_one_has_the_advantage(given, number, expected):
    groups, pairs = groups_and_pairs(asked(regard_groups=given))
    assert (len(groups), pairs) == (number, expected)


def test_names_of_pairs_in_any_script_are_names_of_gates_and_a_reserved_name_is_refused_first(tmp_path):
    path = tmp_path / "groups.yaml"
    groups = "groups: {男: {plural: 男}, 女: {plural: 女}, fräulein: {plural: fräulein}}\n"
    path.write_text(f"{groups}pairs: {{男 − 女: [男, 女], Fräulein: [男, fräulein]}}\n", encoding="utf-8")
    assert REGARD.gate_names(asked(regard_groups=[str(path)])) == ("regard_gap_男_女", "regard_gap_fräulein")
    path.write_text(f"{groups}pairs: {{all: [男, 女]}}\n", encoding="utf-8")
    settings = asked(regard_groups=[str(path)])
    with pytest.raises(ValueError, match=r"a pair is named 'all', .*; rename the pair"):
        read_files(settings, None, wanted_measurements(settings))
    with pytest.raises(ValueError, match="regard_continuations is -1"):
        asked(regard_continuations=-1)


def changed(finished, tmp_path, change):
    """A copy of a run with another table of labels."""
    folder = copytree(finished, tmp_path / "run")
    (shard,) = (folder / "regard" / "regard_probabilities").glob("*.parquet")
    pq.write_table(change(pq.read_table(shard)), shard)
    return read_run(folder)


def test_verdicts_on_several_pairs_are_adjusted_for_their_number(finished, tmp_path):
    """The 95 % interval of this gap does not contain 0, but the interval adjusted for many pairs does."""

    def planted(table):
        groups = table["group"].to_pylist()
        ranks = [groups[:row].count(group) % 10 for row, group in enumerate(groups)]
        negative = [rank < (7 if group == "woman" else 3) for rank, group in zip(ranks, groups, strict=True)]
        labels = [[float(low), float(not low), 0, 0, 0][: len(table["probabilities"][0])] for low in negative]
        field = table.schema.field("probabilities")
        return table.set_column(table.schema.names.index(field.name), field, pa.array(labels, field.type))

    run = changed(finished, tmp_path, planted)
    name, (first, second) = next(iter(run.record.regard.pairs.items()))
    assert compute(run).bias.verdicts[name].structured == "advantaged"
    run.record.regard.pairs.update({f"reverse {number}": (second, first) for number in range(500)})
    assert compute(run).bias.verdicts[name].structured == "undecided"


def test_a_group_without_rated_texts_has_no_figures_and_the_page_says_so(finished, tmp_path):
    run = changed(finished, tmp_path, lambda table: table.filter(pc.not_equal(table["group"], "woman")))
    regard = compute(run)
    (gap,) = regard.bias.gaps.values()
    assert (gap.gap, regard.bias.by_group["woman"].num, regard.bias.num_other["woman"]) == (None, 0, 0)
    write_report(run.results.with_("regard", regard), tmp_path / "report.html")
    page = read_page(tmp_path / "report.html")
    check_sound(page)
    assert "one of the groups has no rated texts" in page.text
