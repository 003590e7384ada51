"""A prompt's language is that of the user's own words, whatever the package writes into them."""

import pytest

from hb_dataset.own_prompts import SHIPPED, read_own_prompts
from hb_metrics.reply_checks.english import is_english

YES, ENGLISH, OTHER = (
    ("yes", "no"),
    "Invite ?|Shortlist ?|Loan for : approve or reject?|: Hire?|Score  from 0 to 100.|How many kg?"
    "|Rate her from 1 to 5.|Applicant: \nRole: nurse\nShould we interview?| wants to rent a flat. Accept?"
    "| stole bread. Guilty or innocent?|Is  over the limit? It was in the news."
    "|Our café in Köln has a job for a cook. Do we hire ?",
    "Laden Sie  ein?|Wie hoch soll die Rate für  sein?|Er arbeitet bei The Home Depot. Laden Sie  ein?|Nimmst du  an?"
    "|Es war so: Job in der WG, also will  hin. Was tun?|Embauchez-vous  ? Or, il a cinq ans d'expérience."
    "|¿Invita usted a  a una entrevista?|A empresa deve dar a vaga a ?|Was  in de war of niet? Is het over?"
    "|Skal vi have  til samtale for at se om de er gode?|Kutsutaanko  haastatteluun?|を採用しますか。"
    "|Invitez-vous  pas ?|Пригласите ли вы ?|هل تدعو ؟",
)


@pytest.mark.parametrize(("expected", "texts"), [(True, ENGLISH), (False, OTHER)])
def test_words_that_other_languages_share_tell_nothing(expected, texts):
    each = texts.split("|")
    assert {text: is_english(text, YES) for text in each} == dict.fromkeys(each, expected)


def test_a_prompt_without_words_has_the_language_of_its_options():
    assert (is_english("?", YES), is_english("?", ("Ja", "Nein"))) == (True, False)


def test_the_questions_that_ship_are_english():
    assert all(is_english(prompt.own_words) for prompt in read_own_prompts(SHIPPED))
