import base64
import hashlib
import json
import re
import time

import pytest

from hb_metrics.human_eval.export import QUESTIONS, rater_page
from hb_metrics.human_eval.ratings import read_ratings
from hb_metrics.human_eval.study import CHECK_REPLY, Design, ReplyPair, speakers
from tests.hb_metrics.browser import SECONDS, open_browser
from tests.hb_metrics.human_eval.made_study import HOSTILE, made_study, pairs_of
from tests.hb_metrics.pages import Page, needs_browser

RATER = "rater-01"
# As if the question had been shown for long enough, so no answer waits for the clock.
READY = "isFinite(shownAt) && (shownAt = performance.now() - 2 * TOO_FAST)"


@pytest.fixture(scope="module")
def study():
    pairs = pairs_of({"ability": 2, "age": 2})
    hostile = [ReplyPair("x", "age", "t", "t", HOSTILE, (HOSTILE + "1", HOSTILE + "2" + 40 * " long reply"))]
    return made_study(pairs=[*pairs[:3], *hostile], design=Design(1, 4, 1, 1, 0))


@pytest.fixture(scope="module")
def path(study, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "rater-01.html"
    path.write_text(rater_page(study, RATER), encoding="utf-8")
    return path


def test_the_page_runs_its_own_script_and_loads_nothing(study):
    html = rater_page(study, RATER)
    page = Page(html)

    (policy,) = [attrs["content"] for _, attrs in page.elements if attrs.get("http-equiv") == "Content-Security-Policy"]
    data, script = page.scripts
    for kind, text in (("script-src", script), ("style-src", page.styles[0])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert page.open == []
    assert not {name for _, attrs in page.elements for name in attrs} & {"src", "href", "action", "onclick", "style"}
    assert not re.search(r"fetch|XMLHttp|WebSocket|sendBeacon|innerHTML|import\(|https?:", script)
    screens = []
    for place, screen in enumerate(study.sheets[RATER]):
        replies, tasks = list(speakers(study, screen)), list(study.tasks(RATER, place).values())
        screens.append({"prompt": study.pairs[screen.pair].prompt, "replies": replies, "tasks": tasks})
    questions = [{"id": question.id, "text": question.text} for question in QUESTIONS]
    # Nothing that reveals which run a reply comes from.
    assert json.loads(data) == {"study": study.id, "rater": RATER, "questions": questions, "screens": screens}
    assert HOSTILE not in html


def answer(browser, *keys):
    """Answers a question with each key and returns the session."""
    for key in keys:
        before = browser.text("#count")
        browser.wait(READY)
        browser.press(key)
        browser.wait(f"document.getElementById('count').textContent !== {json.dumps(before)}")
    return browser.run("state.session")


def open_page(browser, path):
    """Opens the page, starts, and returns the number of answers that it kept."""
    browser.open(path)
    browser.wait("document.querySelector('section:not([hidden])') !== null")
    if not browser.run("document.getElementById('intro').hidden"):
        browser.press("Enter")
    return browser.run("answered()")


def reopen(browser, path, number):
    """Opens the page until it has kept a number of answers: Chromium is late to show a page what the last one wrote."""
    end = time.monotonic() + SECONDS
    while (kept := open_page(browser, path)) != number:
        assert time.monotonic() < end, f"{kept} answers kept, not {number}"


@needs_browser
def test_a_rater_answers_with_keys_and_taps_and_nothing_is_lost_with_the_browser(study, path, tmp_path):
    with open_browser(tmp_path / "profile", tmp_path / "saved") as browser:
        open_page(browser, path)
        assert "5 short exchanges" in browser.text("#intro")
        assert browser.text("#question") == QUESTIONS[0].text
        browser.run("shownAt = performance.now() + 60000")
        browser.press("1")  # too soon after the question came: a second press of the key before
        browser.run("shownAt = performance.now()")
        answer(browser, "1", "ArrowRight")
        browser.wait(READY)
        browser.press("1", modifiers=2)  # Control and 1 is the browser's own
        browser.press("2", autoRepeat=True)
        browser.press("x")
        assert browser.text("#count") == "1 of 5, question 3 of 3"
        browser.press("b")
        assert browser.run("document.querySelector('article.chosen button').id") == "choose-2"
        session = answer(browser, "ArrowLeft")  # thought better of it
        assert browser.run("Object.values(state.answers).map(({choice}) => choice).join()") == "1,1"
        browser.kill()

    with open_browser(tmp_path / "profile", tmp_path / "saved") as browser:
        reopen(browser, path, 2)
        assert browser.text("#count") == "1 of 5, question 3 of 3"
        seen = set()
        while not browser.run("document.getElementById('rating').hidden"):
            replies = [browser.text(f"#reply-{number}") for number in (1, 2)]
            seen |= {browser.text(".prompt"), *replies}
            browser.wait(READY)
            browser.tap("#choose-1" if replies[0] == CHECK_REPLY else "#choose-2")
            browser.wait(f"document.getElementById('rating').hidden || {READY}")
        assert browser.run("document.title") == f"Which speaker? ({RATER})"
        assert {HOSTILE, HOSTILE + "1"} <= seen  # shown as they are, and run by nobody

        as_text = browser.run("document.getElementById('as-text').value")
        browser.tap("#save")
        saved = tmp_path / "saved" / f"ratings-{study.id}-{RATER}.jsonl"
        browser.wait("document.getElementById('saved').textContent.endsWith('15 answers saved.')")
        for _ in range(500):
            if not saved.exists():
                browser.wait("new Promise((done) => setTimeout(() => done(true), 20))")
        assert saved.read_text(encoding="utf-8") == as_text
        requests = [event["request"]["url"] for event in browser.of("Network.requestWillBeSent")]
        assert [url for url in requests if not url.startswith(("file:", "blob:"))] == []
        assert browser.of("Runtime.exceptionThrown") == browser.of("Log.entryAdded") == []

    read = read_ratings([saved], study)
    rows = [json.loads(line) for line in as_text.splitlines()]
    assert [row["task"] for row in rows] == [task for place in range(5) for task in study.tasks(RATER, place).values()]
    assert [row["choice"] for row in rows[:2]] == [1, 1]
    assert {row["session"] for row in rows} == {session}
    assert [passed for _, passed in read.checks] == [True]
    of_pairs = {screen.pair: screen.first for screen in study.sheets[RATER] if screen.asked is None}
    second = [rating for rating in read.ratings if rating.pair != study.sheets[RATER][0].pair]
    assert all(rating.wins == (of_pairs[rating.pair] == 0) for rating in second)  # speaker 2 was tapped
    assert all(0.2 <= rating.seconds < 600 for rating in read.ratings)
