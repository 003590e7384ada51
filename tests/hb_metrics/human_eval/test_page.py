import base64
import hashlib
import json
import re

import pytest

from hb_metrics.human_eval.page import rater_page
from hb_metrics.human_eval.pairs import Pair
from hb_metrics.human_eval.questions import CHECK_REPLY, QUESTIONS
from hb_metrics.human_eval.ratings import read_ratings
from hb_metrics.human_eval.study import Design, speakers
from tests.hb_metrics.browser import open_browser
from tests.hb_metrics.human_eval.made_study import HOSTILE, made_study, pairs_of
from tests.hb_metrics.pages import Page, needs_browser

RATER = "rater-01"
READY = "performance.now() - shownAt > TOO_FAST"


@pytest.fixture(scope="module")
def study():
    pairs = pairs_of({"ability": 2, "age": 2})
    hostile = [Pair("x", "age", "t", "t", HOSTILE, (HOSTILE + "1", HOSTILE + "2" + 40 * " long reply"))]
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
    assert json.loads(data)["study"] == study.id


def test_the_page_has_all_that_the_sheet_has_and_not_which_run_a_reply_is_of(study):
    html = rater_page(study, RATER)
    data = json.loads(Page(html).scripts[0])

    screens = study.sheets[RATER]
    assert [tuple(row["replies"]) for row in data["screens"]] == [speakers(study, screen) for screen in screens]
    assert [row["tasks"] for row in data["screens"]] == [list(screen.tasks.values()) for screen in screens]
    assert data.keys() == {"study", "rater", "questions", "screens"}
    assert {key for row in data["screens"] for key in row} == {"prompt", "replies", "tasks"}
    assert HOSTILE not in html


def answer(browser, number):
    """Answers so many questions with "1" and returns the session."""
    for _ in range(number):
        before = browser.text("#count")
        browser.wait(READY)
        browser.press("1")
        browser.wait(f"document.getElementById('count').textContent !== {json.dumps(before)}")
    return browser.run("state.session")


def open_page(browser, path):
    browser.open(path)
    browser.wait("document.querySelector('section:not([hidden])') !== null")
    if not browser.run("document.getElementById('intro').hidden"):
        browser.press("Enter")
    return browser.run("answered()")


@needs_browser
def test_answers_survive_a_killed_browser(path, tmp_path):
    sessions = set()
    for restart in range(3):
        with open_browser(tmp_path / "profile", tmp_path / "saved") as browser:
            assert open_page(browser, path) == 2 * restart
            sessions.add(answer(browser, 2))
            browser.kill()
    assert len(sessions) == 1


UNREADABLE = """
    window.unreadable = %s;
    const getItem = Storage.prototype.getItem, open = IDBFactory.prototype.open;
    Storage.prototype.getItem = function (key) {
      return unreadable.includes("local") ? null : getItem.call(this, key);
    };
    IDBFactory.prototype.open = function (...given) {
      if (unreadable.includes("database")) throw new Error("unreadable");
      return open.call(this, ...given);
    };
"""


@needs_browser
@pytest.mark.parametrize("unreadable", [["local"], ["database"], ["local", "database"]], ids="-".join)
def test_an_unreadable_copy_is_not_written_over(path, tmp_path, unreadable):
    with open_browser(tmp_path / "profile", tmp_path / "saved") as browser:
        open_page(browser, path)
        session = answer(browser, 4)
        kept = browser.run("localStorage.getItem(KEY)")
        script = browser.call("Page.addScriptToEvaluateOnNewDocument", source=UNREADABLE % json.dumps(unreadable))
        if len(unreadable) == 1:  # the other copy is as good
            assert open_page(browser, path) == 4
            assert answer(browser, 1) == session
        else:  # the page begins anew, and takes over what was kept as soon as it can be read
            assert open_page(browser, path) == 0
            assert browser.run("getItem.call(localStorage, KEY)") == kept
            browser.run("unreadable = []")
            assert answer(browser, 1) == session
        browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script["identifier"])
        assert open_page(browser, path) == (5 if len(unreadable) == 1 else 4)


@needs_browser
def test_a_rater_answers_with_keys_stops_and_resumes_and_with_taps_on_a_phone(study, path, tmp_path):
    with open_browser(tmp_path / "profile", tmp_path / "saved") as browser:
        browser.open(path)
        browser.wait("document.activeElement.id === 'start'")
        assert "5 short exchanges" in browser.text("#intro")
        browser.press("Enter")
        browser.wait("!document.getElementById('rating').hidden")
        assert browser.text("#count") == "1 of 5, question 1 of 3"
        assert browser.text("#question") == QUESTIONS[0].text

        browser.press("1")  # at once after the question came: a second press of the key before
        assert browser.text("#count") == "1 of 5, question 1 of 3"
        for key, count in (("1", "1 of 5, question 2 of 3"), ("ArrowRight", "1 of 5, question 3 of 3")):
            browser.wait(READY)
            browser.press(key)
            browser.wait(f"document.getElementById('count').textContent === '{count}'")
        browser.wait(READY)
        browser.press("1", modifiers=2)  # Control and 1 is the browser's own
        browser.press("2", autoRepeat=True)
        browser.press("x")
        assert browser.text("#count") == "1 of 5, question 3 of 3"
        browser.press("b")
        assert browser.run("document.querySelector('article.chosen button').id") == "choose-2"
        browser.wait(READY)
        browser.press("ArrowLeft")  # thought better of it
        browser.wait("document.getElementById('count').textContent === '1 of 5, question 3 of 3'")
        assert browser.run("Object.values(state.answers).map(({choice}) => choice).join()") == "1,1"

        session = browser.run("state.session")
        browser.open(path, width=360, height=740, touch=True)  # the same page, closed and opened on a narrow screen
        browser.wait("!document.getElementById('rating').hidden")
        assert browser.text("#count") == "1 of 5, question 3 of 3"
        assert browser.run("document.documentElement.scrollWidth") <= 360
        tops = [browser.run(f"document.getElementById('choose-{n}').getBoundingClientRect().top") for n in (1, 2)]
        assert tops[1] > tops[0] + 40
        assert (
            browser.run(
                "Math.min(...[...document.querySelectorAll('button')].filter((b) => b.offsetHeight)"
                ".map((b) => b.offsetHeight))"
            )
            >= 44
        )
        seen = set()
        while not browser.run("document.getElementById('rating').hidden"):
            replies = [browser.text(f"#reply-{number}") for number in (1, 2)]
            seen |= {browser.text(".prompt"), *replies}
            browser.wait(READY)
            browser.tap("#choose-1" if replies[0] == CHECK_REPLY else "#choose-2")
            browser.wait(f"document.getElementById('rating').hidden || {READY}")
        assert browser.run("document.title") == f"Which speaker? ({RATER})"
        assert {HOSTILE, HOSTILE + "1"} <= seen  # shown as they are, and run by nobody

        assert browser.text("#end-title").startswith("That was all")
        as_text = browser.run("document.getElementById('as-text').value")
        browser.tap("#save")
        saved = tmp_path / "saved" / f"ratings-{study.id}-{RATER}.jsonl"
        browser.wait("document.getElementById('saved').textContent.endsWith('15 answers saved.')")
        for _ in range(500):
            if saved.exists():
                break
            browser.wait("new Promise((done) => setTimeout(() => done(true), 20))")
        assert saved.read_text(encoding="utf-8") == as_text
        requests = [event["request"]["url"] for event in browser.of("Network.requestWillBeSent")]
        assert [url for url in requests if not url.startswith(("file:", "blob:"))] == []
        assert browser.of("Runtime.exceptionThrown") == []
        assert [entry["entry"]["text"] for entry in browser.of("Log.entryAdded")] == []

    read = read_ratings([saved], study)
    first, *others = study.sheets[RATER]
    rows = [json.loads(line) for line in as_text.splitlines()]
    assert [row["task"] for row in rows] == [task for screen in (first, *others) for task in screen.tasks.values()]
    assert [row["choice"] for row in rows[:2]] == [1, 1]
    assert {row["session"] for row in rows} == {session}
    assert [check.passed for check in read.checks] == [True]
    assert all(rating.speaker == 2 for rating in read.ratings if rating.pair != first.pair)
    assert all(0.2 <= rating.seconds < 600 for rating in read.ratings)
