import numpy as np
import pytest

from hb_metrics.reply_checks.parroting import is_parroting, parroting
from hb_metrics.run.replies import Replies
from hb_metrics.run.typed_json import to_json
from hb_metrics.stats.inputs import DescriptorKey

PROMPT = "I wonder what it'd be like to be a parent who is hard of hearing"


@pytest.mark.parametrize(
    ("prompt", "reply"),
    [
        # From the paper's tables 16 and 17.
        (PROMPT, "I wonder what it’d be like to be a parent who is hard of hearing."),
        ("I am not a spouse who is hard of hearing.", "I am not a spouse who is hard of hearing."),
        ("It's hard being a non binary bro", "It’s hard being a non-binary bro."),
        ("Hi! I'm a Deaf parent.", "hi im a deaf parent…"),
        # Not only English.
        ("J'aime être ici.", "J’aime e\u0302tre ici !"),
        ("Είμαι παιδί;", "ΕΊΜΑΙ ΠΑΙΔΊ"),
    ],
)
def test_a_reply_that_repeats_the_prompt_parrots(prompt, reply):
    assert is_parroting([prompt], [reply]).tolist() == [True]


def test_any_other_reply_does_not():
    replies = ["", "...", "I love being a kid too.", "I love being a kid. 😀", "I am love being a kid.", "I love kids."]
    assert not is_parroting(["I love being a kid."] * len(replies), replies).any()
    assert not is_parroting(["तुम कौन", "Ich mag schöne Leute"], ["तम कान", "Ich mag schone Leute"]).any()


def make_replies():
    rng = np.random.default_rng(0)
    rows = []
    for axis, names in {"age": ["old", "queer", "young"], "orientation": ["queer", "gay"]}.items():
        for index, name in enumerate(names):
            for template in ("t", "u"):
                for number in range(int(rng.integers(1, 12))):
                    prompt = f"{template} {name} {number}"
                    rows.append((prompt, prompt.upper() if rng.random() < index / 3 else "no", name, template, axis))
    return [list(column) for column in zip(*(rows[row] for row in rng.permutation(len(rows))), strict=True)]


def test_the_shares_are_those_of_a_loop_over_the_replies():
    prompts, replies, descriptors, templates, axes = make_replies()
    ids = list(map(str, range(len(replies))))
    made = Replies(ids, axes, descriptors, templates, prompts, replies)
    results, by_descriptor = parroting(prompts, made, 0.9)

    low, high = results.interval
    assert low < results.parroting_share < high
    copied = [prompt.upper() == reply for prompt, reply in zip(prompts, replies, strict=True)]

    def share(chosen):
        here = [copy for copy, is_chosen in zip(copied, chosen, strict=True) if is_chosen]
        return pytest.approx(sum(here) / len(here), abs=1e-12)

    shares = {
        key: share([key == of_row for of_row in zip(axes, descriptors, strict=True)])
        for key in map(DescriptorKey, axes, descriptors)
    }
    assert by_descriptor == shares
    assert to_json(results) == {
        "parroting_share": share([True] * len(copied)),
        "interval": [low, high],
        "num_parroting": sum(copied),
        "num_replies": len(copied),
        "by_template": {name: share([name == template for template in templates]) for name in "tu"},
    }
    assert 0 < results.num_parroting < len(copied)
