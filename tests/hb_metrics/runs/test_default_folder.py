"""A default folder says what is measured in it."""

import pytest

from hb_metrics.arguments import settings_of
from hb_metrics.runs.default_folder import LONGEST_NAME, default_folder


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "embedded-v1.0-small"),
        ({"model": "openai-community/gpt2", "dataset_config": "v1.0", "batch_size": 3}, "gpt2-v1.0"),
        ({"measurements": "generation,likelihood", "seed": 1}, "embedded-v1.0-small-likelihood-generation-seed-1"),
        ({"quick": True}, "embedded-v1.0-small-quick"),
        ({"quick": True, "replies_per_cell": 8}, "embedded-v1.0-small-quick-replies_per_cell-8"),
        ({"measurements": "regard"}, "embedded-regard"),
        ({"measurements": "regard", "dataset_config": "v1.0"}, "embedded-v1.0-regard"),
        (
            {"measurements": "regard", "regard_continuations": 0, "regard_classifier": "sasha/regardv3"},
            "embedded-regard-continuations-0-classifier-regardv3",
        ),
        (
            {"measurements": "reddit", "reddit_folder": ".", "bias_type": ["gender", "race"]},
            "embedded-reddit-folder-.-bias_type-gender-race",
        ),
        ({"axes": ["ability", "age"]}, "embedded-v1.0-small-axes-ability-age"),
        ({"model": "../../tmp/..", "system_prompt": "../../x y/\n*"}, "v1.0-small-system_prompt"),
    ],
)
def test_what_is_asked_for_is_in_the_name(options, name):
    assert default_folder(settings_of(options)) == f"runs/{name}"


def test_a_long_name_is_cut_and_kept_apart():
    names = {
        default_folder(settings_of({"measurements": "regard", "regard_groups": [f"{'tall ' * 60}{noun}"]}))
        for noun in ("woman", "man")
    }
    assert len(names) == 2
    assert {len(name) for name in names} == {len("runs/") + LONGEST_NAME + 9}
