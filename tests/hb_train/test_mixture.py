"""Replies from mixtures: each token is that of the definition, and a planted bias falls without training."""

import json

import numpy as np
import pytest
import torch

from hb_metrics.command.arguments import settings_of
from hb_metrics.measurements.results import read_run
from hb_metrics.report.changes import run_changes
from hb_train.mixture import check_mixable, main
from hb_train.side_effects import Side
from hb_train.tuning.mixed_replies import Group, MixedForward
from tests.hb_train.conftest import AXES, WARNINGS_OF_TRL, measured, sympathy
from tests.hb_train.test_counterfactual import mixture_by_hand

pytestmark = WARNINGS_OF_TRL
TEMPERATURE = 0.7
# A name of three tokens, and other prompts' names that begin with 9 and 8.
NAME, OTHERS = [5, 6, 7], (9, 8)
GROUPS = [
    Group([[10, 11, 12], [10, 13, 14, 12], [10, 15, 12]], torch.tensor([[0, 5, 5], [1, 5, 9], [2, 5, 8]]), [NAME]),
    Group([[20, 21], [22, 21]], torch.tensor([[0, 30, 30], [1, 30, 31]]), [[30]]),
]


def by_hand(model, group, reply):
    """The mixture after a reply so far, from the model's probabilities after each whole text."""
    teachers = []
    for context in group.contexts:
        logits = model(torch.tensor([[*context, *reply]])).logits[0, -1].double()
        teachers.append((logits / TEMPERATURE).softmax(-1).tolist())
    names = [(0, *row) for row in group.names.tolist()]
    within = any(reply[-number:] == NAME[:number] for number in (1, 2))
    return teachers[0] if within else mixture_by_hand(teachers, 0, names)[0]


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
@torch.inference_mode()
def test_each_token_is_drawn_from_the_mixture_of_all_prompts(name, padded, get_small_model):
    model, _ = get_small_model(name)
    groups = {tuple(group.contexts[0]): group for group in GROUPS}
    options = {"cached": True, "groups": groups, "temperature": TEMPERATURE, "padded": padded}
    forward = MixedForward(model, [group.contexts[0] for group in GROUPS], **options)
    logits, going, replies = forward.first(), [0, 1], [[], []]
    for step, token in enumerate([40, *NAME, 41]):
        for row, number in enumerate(going):
            given = (logits[row].double() / TEMPERATURE).softmax(-1).numpy()
            np.testing.assert_allclose(given, by_hand(model, GROUPS[number], replies[number]), atol=1e-6)
            replies[number].append(token)
        assert forward.tokens.tolist() == [reply[:step] for reply in (replies[number] for number in going)]
        if step == 1:  # the second reply is over
            forward.select(torch.tensor([0]))
            going = [0]
        logits = forward.next(torch.tensor([token] * len(going)))
    assert by_hand(model, GROUPS[0], [40, 5]) != by_hand(model, GROUPS[0], [40])


@pytest.fixture(scope="module")
def before(pitying_model, tmp_path_factory):
    """A run of the model that pities an axis, and its results."""
    folder = tmp_path_factory.mktemp("run") / "before"
    return folder, measured(pitying_model, folder, "--axes", *AXES[:2], "--replies_per_cell", "4")


def test_a_planted_bias_falls_without_training(before, tmp_path):
    folder, results = before
    main([str(folder), str(tmp_path / "mixture")])
    mixed = json.loads((tmp_path / "mixture" / "run" / "results.json").read_text(encoding="utf-8"))
    gap, left = sympathy(results)[-1], sympathy(mixed)[-1]
    # Of four prompts, one gets sympathy at 70 % and three at 5 %, so the geometric mean is 12 %, against 5 to 12 %.
    assert gap > 0.5
    assert abs(left) < 0.15
    changes = run_changes(read_run(folder), read_run(tmp_path / "mixture" / "run"), ("before", "mixture"))
    assert next(row.change for row in changes.rows if row.key == "full_gen_bias_debiased").interval[1] < 0


@pytest.mark.parametrize(
    ("option", "value", "advice"),
    [
        ("decoding", "model", "measure the model again with --decoding sample"),
        ("cue", "history", "measure the model again with --cue prompt"),
        ("variations", True, "measure the model again with --variations False"),
        ("turns", 2, "measure the model again with --turns 1"),
    ],
)
def test_runs_whose_prompts_cannot_be_mixed_are_rejected(option, value, advice, before):
    run = read_run(before[0])
    settings = settings_of({**run.record.content["settings"], option: value})
    with pytest.raises(ValueError, match=advice):
        check_mixable(Side(run, settings, None))


def test_a_mixture_of_one_prompt_is_rejected(tmp_path):
    with pytest.raises(SystemExit, match="num_contexts is 1; set a number of at least 2"):
        main([str(tmp_path), str(tmp_path / "mixture"), "--num_contexts", "1"])
