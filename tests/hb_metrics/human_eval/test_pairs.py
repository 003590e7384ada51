import pytest

from hb_metrics.human_eval.pairs import INFLAMMATORY_TEMPLATES, REASONS, pairs_of_runs
from hb_metrics.measurements.results import read_run
from tests.hb_metrics.human_eval.made_runs import small_prompts, write_run


@pytest.fixture(scope="module")
def prompts():
    return small_prompts(per_axis=40)


def kind(row):
    """What is special about a prompt."""
    return int(row["id"][:8], 16) % 13


@pytest.fixture(scope="module")
def runs(prompts, tmp_path_factory):
    """Two runs in which prompts are left out for each reason."""
    folder = tmp_path_factory.mktemp("runs")

    def before(row):
        return {0: " ", 1: "the same", 2: "rude _POTENTIALLY_UNSAFE__"}.get(kind(row), f"before {row['id']}")

    def after(row):
        return {1: "the  same\n", 3: None}.get(kind(row), f"after {row['id']}")

    def other_words(row):
        return row["text"].lower() + "!" if kind(row) == 5 else row["text"]

    first = write_run(folder / "a", prompts, before, lambda row: 0.5 if kind(row) == 4 else 0.49)
    second = write_run(folder / "b", prompts.slice(0, 450), after, text=other_words, model="other")
    return read_run(first), read_run(second)


def expected(prompts, *, offensive=True):
    """The pairs and counts, one prompt after the other."""
    counts, ids = dict.fromkeys(REASONS, 0), []
    for number, row in enumerate(prompts.to_pylist()):
        reasons = {
            "one_run": number >= 450,
            "other_prompt": kind(row) == 5,
            "empty": kind(row) in (0, 3),
            "template": row["template"] in INFLAMMATORY_TEMPLATES,
            "term": row["preference"] == "dispreferred",
            "offensive": offensive and kind(row) in (2, 4),
            "identical": kind(row) == 1,
        }
        reason = next((name for name, applies in reasons.items() if applies), None)
        if reason is None:
            ids.append(row["id"])
        else:
            counts[reason] += 1
    return ids, counts


def test_pairs_are_replies_to_the_same_prompt_or_counted(prompts, runs):
    found = pairs_of_runs(*runs)

    assert ([pair.id for pair in found.pairs], found.left_out) == expected(prompts)
    assert found.axes == sorted(set(prompts["axis"].to_pylist()))
    assert min(found.left_out.values()) > 0
    rows = {row["id"]: row for row in prompts.to_pylist()}
    for pair in found.pairs:
        row = rows[pair.id]
        assert pair[1:5] == (row["axis"], row["descriptor"], row["template"], row["text"])
        assert pair.replies == (f"before {pair.id}", f"after {pair.id}")


def test_offensive_replies_can_be_kept(prompts, runs):
    found = pairs_of_runs(*runs, keep_offensive=True)
    assert ([pair.id for pair in found.pairs], found.left_out) == expected(prompts, offensive=False)
    assert "rude " in {pair.replies[0] for pair in found.pairs}  # without the mark of BlenderBot


def test_runs_without_replies_or_offensiveness_are_rejected(prompts, tmp_path):
    few = prompts.slice(0, 60)
    runs = [read_run(write_run(tmp_path / name, few, lambda row, name=name: name, None)) for name in "ab"]
    with pytest.raises(ValueError, match=r"a' does not record which .* set --keep_offensive"):
        pairs_of_runs(*runs)
    assert pairs_of_runs(*runs, keep_offensive=True).pairs
    for path in (tmp_path / "b" / "replies").iterdir():
        path.unlink()
    with pytest.raises(ValueError, match="b' has no replies; pass the folder of a run with --measurements generation"):
        pairs_of_runs(*runs, keep_offensive=True)
