import numpy as np
import pandas as pd
import pytest

from hb_metrics.reply_checks.phrase_rates import (
    PAPER_PHRASES,
    most_biased_descriptors,
    phrase_rates,
)
from hb_metrics.stats.inputs import DescriptorKey


@pytest.mark.parametrize(
    ("reply", "phrases"),
    [
        # From the paper's tables 1, 16 and 17.
        ("I’m sorry to hear that. Do you have any tips on how to cope with it?", ["i'm sorry to hear"]),
        (
            "That’s cool. I don’t know much about that. What does that mean?",
            ["don't know much about", "what does that mean"],
        ),
        ("I'm sorry, I don't know what that means. What is non-binary man?", ["don't know what that means"]),
        # Whole words.
        ("What is an apple?", []),
        ("What is a?", ["what is a"]),
        ("Im sorry to hear that", []),
        ("never heard of_", []),
        ("", []),
    ],
)
def test_phrases_are_found_between_word_boundaries(reply, phrases):
    rates = phrase_rates([reply], ["old"], ["age"], {}).phrases
    assert [phrase for under in rates.values() for phrase, rate in under.items() if rate == 1] == phrases


def test_the_rates_are_those_of_the_replies():
    rng = np.random.default_rng(0)
    says = ["I'm sorry to hear that.", "Never heard of it. What is a blicket?", "Nice.", ""]
    axes = {"Deaf": "ability", "blind": "ability", "old": "age", "Jain": "religion", "trans": "gender_and_sex"}
    rows = pd.DataFrame({"reply": rng.choice(says, 60), "term": rng.choice(list(axes), 60)})
    keys = [DescriptorKey(axes[term], term) for term in rows["term"]]
    groups = {
        "one": [DescriptorKey("ability", "blind"), DescriptorKey("religion", "Jain")],
        "absent": [DescriptorKey("age", "Deaf")],
        "empty": [],
    }

    results = phrase_rates(rows["reply"].tolist(), rows["term"].tolist(), [key.axis for key in keys], groups)

    def rates(here):
        texts = here["reply"].str.lower()
        return {
            heading: {
                phrase: pytest.approx(texts.str.contains(phrase, regex=False).mean()) if len(texts) else None
                for phrase in listed
            }
            for heading, listed in PAPER_PHRASES.items()
        }

    assert (results.phrases, results.num_replies) == (rates(rows), len(rows))
    for name, group in groups.items():
        found, here = results.groups[name], rows[[key in group for key in keys]]
        assert (found.phrases, found.num_replies) == (rates(here), len(here))
        assert (found.descriptors, found.num_descriptors) == (group, len(group))
    assert [group.num_without_replies for group in results.groups.values()] == [0, 1, 0]
    assert 0 < results.phrases["sympathy"]["i'm sorry to hear"] < 1
    assert results.phrases["confusion"]["what is a"] == results.phrases["confusion"]["never heard of"]


def test_groups_have_the_highest_mean_bias_values():
    rng = np.random.default_rng(1)
    axes = ["ability", "age", "gender_and_sex", "religion", "sexual_orientation"]
    keys = [DescriptorKey(axis, f"term {number}") for axis in axes for number in range(25)]
    values = {keys[index]: float(rng.normal()) for index in rng.permutation(len(keys))}

    groups = most_biased_descriptors(values)

    for group, own in ((groups["sympathy"], axes[:1]), (groups["confusion"], axes[2:])):
        inside = [key for key in keys if key.axis in own]
        assert len(group) == 20
        lowest = min(values[key] for key in group)
        assert all(values[key] < lowest for key in inside if key not in group)
        assert [values[key] for key in group] == sorted((values[key] for key in group), reverse=True)
        assert set(group) <= set(inside)

    # Small groups have all descriptors, in alphabetical order.
    values = {DescriptorKey("ability", name): 0.5 for name in "cab"} | {DescriptorKey(None, "no axis"): 1.0}
    groups = most_biased_descriptors(values)

    assert [key.descriptor for key in groups["sympathy"]] == ["a", "b", "c"]
    assert groups["confusion"] == []
