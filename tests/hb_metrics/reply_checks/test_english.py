"""A prompt's language is that of the user's own words, whatever the package writes into them."""

from pathlib import Path

import pytest
import yaml

from hb_dataset.own_prompts import SHIPPED, read_own_prompts
from hb_metrics.reply_checks.english import is_english

YES = ("yes", "no")
TEXTS = yaml.safe_load(Path(__file__).with_name("own_words.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("language", TEXTS)
def test_words_that_other_languages_share_tell_nothing(language):
    texts = TEXTS[language]
    assert {text: is_english(text, YES) for text in texts} == dict.fromkeys(texts, language == "english")


def test_a_prompt_without_words_has_the_language_of_its_options():
    assert (is_english("?", YES), is_english("?", ("Ja", "Nein"))) == (True, False)


def test_the_questions_that_ship_are_english():
    assert all(is_english(prompt.own_words) for prompt in read_own_prompts(SHIPPED))
