"""Labels of people: the draw, the pages, the border, and a judge with planted errors from page to correction."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hb_dataset import load_table
from hb_metrics.collect.judges.rubric import Rubric
from hb_metrics.command import calibrate
from hb_metrics.human_eval import labels
from hb_metrics.human_eval.calibration_results import CALIBRATIONS, Calibration, figures
from hb_metrics.human_eval.labels import draw_labels, read_instrument, read_label_study
from hb_metrics.human_eval.study import allocate
from hb_metrics.measurements.results import read_run
from hb_metrics.run.run_folder import REFUSALS_FILE, write_table
from hb_metrics.run.typed_json import from_json
from tests.hb_metrics.human_eval.made_runs import write_run
from tests.hb_metrics.human_eval.made_study import write_lines
from tests.hb_metrics.made_results import add_dialogue, read_results, write_results, write_vectors
from tests.hb_metrics.pages import HOSTILE, Page, check_sound, read_page

AXES = ("age", "religion")
SEED = 4


def truth(row):
    """Whether a reply is truly offensive: of either axis 30 %."""
    return np.random.default_rng([int(row["id"], 16), 1]).random() < 0.3


def judged(row):
    """The judge's probability: right about religion; 30 % of harmless replies about age count as offensive."""
    chance = np.random.default_rng([int(row["id"], 16), 2]).random(2)
    wrong = row["axis"] == "age" and chance[0] < 0.3
    return 0.5 + chance[1] / 2 if truth(row) or wrong else chance[1] / 2.01


@pytest.fixture(scope="module")
def prompts():
    prompts = load_table("v1.0-small")
    return prompts.filter(pa.compute.is_in(prompts["axis"], pa.array(AXES)))


@pytest.fixture(scope="module")
def run(tmp_path_factory, prompts):
    """A run whose judge errs, with the study that `labels` wrote into `labels-offensiveness`."""
    place = tmp_path_factory.mktemp("labels") / "run"
    folder = write_run(place, prompts, lambda row: f"{HOSTILE} {row['id']}", offensiveness=judged)
    write_results(folder, add_dialogue({"run": read_results(folder)["run"]}))
    labels.main([str(folder), "--judge", "offensiveness", "--num", "200", "--raters", "3", "--seed", str(SEED)])
    return folder


@pytest.fixture
def copied(run, tmp_path):
    return shutil.copytree(run, tmp_path / "run")


@pytest.fixture(scope="module")
def study(run):
    return read_label_study(run / "labels-offensiveness" / "labels.json")


def answers(study, choose):
    """The lines that raters save, where `choose(rater, reply)` gives 1, 2 or `None` for no answer."""
    rows = []
    for rater, order in study.sheets.items():
        for row, task in zip(order, study.tasks(rater), strict=True):
            choice = choose(rater, study.replies[row])
            if choice is not None:
                rows.append({"study": study.id, "rater": rater, "task": task, "choice": choice})
    return rows


@pytest.fixture(scope="module")
def by_people(prompts):
    """Raters who see the truth, each wrong about one reply in twenty."""
    true = {row["id"]: truth(row) for row in prompts.to_pylist()}

    def choose(rater, reply):
        wrong = np.random.default_rng([int(reply["id"], 16), 3, int(rater[-1])]).random() < 0.05
        return 1 if true[reply["id"]] != wrong else 2

    return choose


def test_labels_divide_among_strata():
    sizes = np.array([900, 100, 0, 1, 400])
    drawn = allocate(sizes, 130, np.sqrt(sizes), least=2)
    assert drawn.sum() == 130
    assert drawn[2:4].tolist() == [0, 1]
    assert drawn[0] / drawn[4] == pytest.approx(1.5, abs=0.1)
    assert drawn[0] / drawn[1] == pytest.approx(3, abs=0.2)
    assert allocate(sizes, 7, np.sqrt(sizes), least=2).tolist() == [2, 2, 0, 1, 2]
    assert allocate(sizes, 1401, np.sqrt(sizes), least=2).tolist() == sizes.tolist()


def test_each_reply_of_a_stratum_is_as_likely(run):
    instrument = read_instrument(read_run(run), "offensiveness")
    counts = dict.fromkeys(instrument.replies.ids, 0)
    for seed in range(40):
        drawn = draw_labels(instrument, axes=["age"], number=60, num_raters=1, seed=seed, run="")
        for reply in drawn.replies:
            counts[reply["id"]] += 1
    for verdict in (False, True):
        rows = (np.array(instrument.replies.axes) == "age") & (instrument.verdicts == verdict)
        shares = np.array([counts[identifier] for identifier in np.array(instrument.replies.ids)[rows]]) / 40
        expected = shares.mean()
        assert shares.std() == pytest.approx(np.sqrt(expected * (1 - expected) / 40), rel=0.5)


def test_the_page_says_nothing_of_the_judge(study):
    html = labels.label_page(study, "rater-01")
    page = Page(html)
    data = json.loads(page.scripts[0])
    assert page.open == []
    assert HOSTILE not in html
    assert data.keys() == {"study", "rater", "questions", "screens"}
    assert {key for screen in data["screens"] for key in screen} == {"prompt", "replies", "tasks"}
    shown = sorted(screen["replies"][0] for screen in data["screens"])
    assert shown == sorted(reply["reply"] for reply in study.replies)
    orders = [study.sheets[rater] for rater in study.sheets]
    assert orders[0] != orders[1]
    assert len({task for rater in study.sheets for task in study.tasks(rater)}) == 600


def corrected(folder, study, rows, *options):
    """Calibrates a run, and returns the results and the report."""
    saved, path = write_lines(folder.parent / "saved.jsonl", rows), folder / f"labels-{study.judge}" / "labels.json"
    calibrate.main([str(folder), str(saved), "--study", str(path), *options])
    results = json.loads((folder / CALIBRATIONS / f"{study.judge}.json").read_text(encoding="utf-8"))
    return results, read_page(folder / "report.html")


def test_planted_errors_are_corrected(copied, study, by_people, capsys):
    results, page = corrected(copied, study, answers(study, by_people), "--gap", "age", "religion")
    age, religion, gap = results["rates"]["age"], results["rates"]["religion"], results["gaps"][0]
    of_some_axes = from_json(Calibration, results | {"other_axes": ["ability"]}, "results")
    assert [figure.label for figure in figures(of_some_axes)[1:]] == ["Age", "Religion"]
    # Of truly offensive replies 95 % are labelled so, and 5 % of the others: 32 % of either axis.
    for rate in (results["rates"][""], age, religion):
        assert rate["interval"][0] < 0.32 < rate["interval"][1]
    assert age["judged"] > 0.45
    assert age["excess_interval"][0] > 0.01  # six terms leave it wide
    assert religion["excess_interval"][0] < 0 < religion["excess_interval"][1] + 0.05
    assert gap["judged"] > 0.15
    assert gap["interval"][0] < 0 < gap["interval"][1]
    assert results["num_labelled"] == 200
    assert 0.6 < results["people"]["alpha"] < 0.95
    assert results["judge_with_people"]["alpha"] < results["people"]["alpha"]
    printed = capsys.readouterr().out
    sentence = next(line for line in printed.splitlines() if line.startswith("Labels of 3 people on 200 replies"))
    assert "overstates “offensive” by" in sentence
    check_sound(page)
    assert sentence in page.text
    shown = f"{100 * results['rates']['']['value']:.1f}%"
    own = f"{100 * results['rates']['']['judged']:.1f}%"
    assert page.text.index(shown) < page.text.index(own)


def test_two_groups_of_terms_are_compared(copied, study, by_people):
    terms = sorted(set(read_instrument(read_run(copied), "offensiveness").replies.descriptors))
    groups, rows = (", ".join(terms[:6]), ", ".join(terms[6:])), answers(study, by_people)
    results, _ = corrected(copied, study, rows, "--gap", *groups)
    assert results["gaps"][0]["first"] == groups[0]
    assert results["gaps"][0]["value"] is not None
    wrong = {
        "agge": "'agge' .* did you mean 'age'",
        "engaged": "'engaged' .* run; pass",
        "age": "share terms, or contain terms from axes other",
    }
    for gap, expected in ((("age", name), message) for name, message in wrong.items()):
        with pytest.raises(ValueError, match=expected):
            corrected(copied, study, rows, "--gap", *gap)


def test_labels_on_one_axis_are_said_to_be(copied, by_people, tmp_path, capsys):
    """Few labels: the page says of each rate and gap how many it lacks."""
    for name, axes in (("age", ["age", "age"]), ("both", AXES)):
        out = tmp_path / name
        labels.main([str(copied), "--judge", "offensiveness", "--num", "24", "--output_dir", str(out), "--axes", *axes])
        rows = answers(read_label_study(out / "labels.json"), by_people)
        path = write_lines(out / "saved.jsonl", rows)
        calibrate.main([str(copied), str(path)])
        page = read_page(copied / "report.html").text
        assert ("Labels of 3 people on 24 replies (Age): " in capsys.readouterr().out) == (name == "age")
        assert "Offensive by people's labels" not in page  # labels without an interval do not head the page
    assert page.count("Age minus Religion") == 1
    assert "No interval: Age: " in page  # below the table of this gap, the labels that both axes lack
    assert page.count("labels are needed, and there are 12") == 3  # both axes once, and their gap twice


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--judge", "offensive"], "allowed: offensiveness"),
        (["--judge", "offensiveness", "--num", "3"], "set --num to a number from 8"),
        (["--judge", "offensiveness", "--axes", "agee"], "did you mean 'age'"),
    ],
)
def test_what_cannot_be_drawn(run, tmp_path, options, expected):
    with pytest.raises(ValueError, match=expected):
        labels.main([str(run), *options, "--output_dir", str(tmp_path)])
    assert list(tmp_path.iterdir()) == []


def test_the_labels_of_a_rubric_are_read(copied, prompts):
    """Of several labels one is the figure; replies without an answer, or with a tie, are left out."""
    rows = prompts.to_pylist()
    kinds = ("good", "odd", "bad")
    rubric = Rubric("kinds", "Which?", kinds, ("a", "b", "c"), (("x", "y"),) * 3, "odd")
    results = read_results(copied)
    judge = {"name": "a judge", "is_embedded": False, "digest": "12", "notes": [], "reads": "5 answers"}
    results["run"]["judge"] = {"kinds": judge | rubric.description()}
    write_results(copied, results)
    (copied / "run.json").write_text(json.dumps(results["run"]), encoding="utf-8")
    answered = [[0.2, 0.5, 0.3, 0], [0.5, 0.25, 0.25, 0], [0.1, 0.3, 0.6, 0], [0, 0, 0, 1], [0.2, 0.4, 0.4, 0]]
    vectors = np.array([answered[row % 5] for row in range(len(rows))], np.float32)
    write_vectors(copied / "judge" / "kinds", prompts["id"], vectors)
    found = read_instrument(read_run(copied), "kinds")
    assert found.scores[:3].tolist() == [0.5, 0.25, pytest.approx(0.3)]
    assert found.labels[1] == ("odd", "b")
    assert found.figure == 1
    assert found.replies.ids == [row["id"] for number, row in enumerate(rows) if number % 5 < 3]
    assert found.judged[:3].tolist() == [1, 0, 2]
    assert found.verdicts[:3].tolist() == [True, False, False]
    labels.main([str(copied), "--judge", "kinds", "--num", "40", "--raters", "1"])
    assert len(read_label_study(copied / "labels-kinds" / "labels.json").labels) == 3


def test_a_judge_in_place_of_the_classifier_guesses_nothing(copied):
    """Its second column is 1 where it gave no label, or several."""
    (path,) = (copied / "offensiveness" / "replies").glob("*.parquet")
    ids = pq.read_table(path)["id"]
    rows = [[[0.9, 0.0], [0.0, 1.0], [0.1, 0.0]][row % 3] for row in range(len(ids))]
    pq.write_table(pa.table({"id": ids, "probabilities": pa.array(rows, pa.list_(pa.float64(), 2))}), path)
    found = read_instrument(read_run(copied), "offensiveness")
    assert found.replies.ids == [identifier for row, identifier in enumerate(ids.to_pylist()) if row % 3 != 1]
    assert found.verdicts[:2].tolist() == [True, False]


def write_refusals(folder, prompts, refused):
    table = {"id": prompts["id"], "refusal": refused, "disclaimer": [False] * len(prompts)}
    write_table(folder / REFUSALS_FILE, pa.table(table))


def test_refusals_are_corrected(copied, prompts):
    """The rules of refusals as the instrument: they miss half of the refusals about age, and none about religion."""
    rows = prompts.to_pylist()
    write_refusals(copied, prompts, [truth(row) and (row["axis"] != "age" or judged(row) < 0.75) for row in rows])
    labels.main([str(copied), "--judge", "refusals", "--num", "200", "--raters", "1"])
    study, true = read_label_study(copied / "labels-refusals" / "labels.json"), {row["id"]: truth(row) for row in rows}
    results, _ = corrected(copied, study, answers(study, lambda rater, reply: 1 if true[reply["id"]] else 2))
    age, religion = results["rates"]["age"], results["rates"]["religion"]
    assert results["label"] == "refusal"
    assert age["judged"] < 0.2 < 0.25 < religion["judged"]
    assert age["interval"][0] < 0.3 < age["interval"][1]
    assert age["excess_interval"][1] < 0
    assert religion["value"] == pytest.approx(religion["judged"])  # the rules are right there


def test_labels_are_not_used_after_the_judges_labels_have_changed(copied, prompts):
    """A release whose rules match fewer replies: of those that no longer match, people labelled a larger share."""
    found = [truth(row) and judged(row) < 0.6 for row in prompts.to_pylist()]
    write_refusals(copied, prompts, found)
    labels.main([str(copied), "--judge", "refusals", "--num", "200", "--raters", "1"])
    study = read_label_study(copied / "labels-refusals" / "labels.json")
    rows = answers(study, lambda rater, reply: 2)
    write_refusals(copied, prompts, [is_found and number % 2 == 1 for number, is_found in enumerate(found)])
    with pytest.raises(ValueError, match="not drawn from this run's replies with their present labels by refusals"):
        corrected(copied, study, rows)
    write_refusals(copied, prompts, found)
    assert corrected(copied, study, rows)[0]["num_labelled"] == 200


def test_refusals_of_other_replies_are_rejected(copied, prompts):
    write_refusals(copied, prompts.slice(1), [False] * (len(prompts) - 1))
    with pytest.raises(ValueError, match=r"refusals\.parquet' lacks replies of the run; run `holistic-bias analyse`"):
        read_instrument(read_run(copied), "refusals")


def test_labels_of_another_run_are_rejected(copied, study, tmp_path):
    """Two runs without a record, or with the same record and other replies."""
    for path in sorted((copied / "replies").iterdir()):
        table = pq.read_table(path)
        place = table.column_names.index("reply")
        pq.write_table(table.set_column(place, "reply", pa.array(["Another reply."] * len(table))), path)
    with pytest.raises(ValueError, match="not drawn from this run's replies"):
        corrected(copied, study, answers(study, lambda rater, reply: 1))
    (copied / "run.json").unlink()
    with pytest.raises(ValueError, match=r"lacks run\.json"):
        labels.main([str(copied), "--judge", "offensiveness", "--output_dir", str(tmp_path / "labels")])
