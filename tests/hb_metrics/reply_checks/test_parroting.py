import numpy as np
import pandas as pd
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


def test_the_shares_are_those_of_the_replies():
    rng, number = np.random.default_rng(0), 60
    columns = {"axis": ["age", "orientation"], "term": ["old", "queer"], "template": ["t", "u"]}
    rows = pd.DataFrame({name: rng.choice(values, number) for name, values in columns.items()})
    rows["copied"] = rng.random(number) < 0.3
    prompts = [f"{row.template} {row.term} {row.Index}" for row in rows.itertuples()]
    texts = [prompt.upper() if copied else "no" for prompt, copied in zip(prompts, rows["copied"], strict=True)]
    made = Replies(prompts, *(rows[name].tolist() for name in columns), prompts, texts)

    results, by_descriptor = parroting(prompts, made, 0.9)

    low, high = results.interval
    share, of_terms = rows["copied"].mean(), rows.groupby(["axis", "term"])["copied"].mean()
    assert 0 < low < share < high
    assert by_descriptor == pytest.approx({DescriptorKey(*key): of_term for key, of_term in of_terms.items()})
    assert to_json(results) == {
        "parroting_share": pytest.approx(share),
        "interval": [low, high],
        "num_parroting": rows["copied"].sum(),
        "num_replies": number,
        "by_template": pytest.approx(rows.groupby("template")["copied"].mean().to_dict()),
    }
