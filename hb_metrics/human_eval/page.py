"""Renders the pages for raters. Each page is a single file that neither loads nor sends anything."""

import base64
import hashlib
from pathlib import Path
from typing import Any

from markupsafe import Markup

from hb_metrics.human_eval.label_study import LabelStudy
from hb_metrics.human_eval.study import Study, speakers
from hb_metrics.layout.rendering import for_script, render

_FOLDER = Path(__file__).parent


def rater_page(study: Study, rater: str) -> str:
    """Renders a rater's page. It does not reveal which run a reply comes from.

    The page contains the replies as JSON. The page's script inserts the replies as text and not as HTML, and the
    browser runs no other script.
    """
    screens = []
    for place, screen in enumerate(study.sheets[rater]):
        tasks = list(study.tasks(rater, place).values())
        prompt, replies = study.pairs[screen.pair].prompt, speakers(study, screen)
        screens.append({"prompt": prompt, "replies": replies, "tasks": tasks})
    questions = [{"id": question.id, "text": question.text} for question in study.questions]
    data = {"study": study.id, "rater": rater, "questions": questions, "screens": screens}
    return _page("rater.html.jinja", data, num_questions=len(questions))


def label_page(study: LabelStudy, rater: str) -> str:
    screens = []
    for row, task in zip(study.sheets[rater], study.tasks(rater), strict=True):
        shown = study.replies[row]
        screens.append({"prompt": shown["prompt"], "replies": [shown["reply"]], "tasks": [task]})
    questions = [{"id": study.judge, "text": study.question}]
    data = {"study": study.id, "rater": rater, "questions": questions, "screens": screens}
    return _page("labels.html.jinja", data, question=study.question, labels=study.labels)


def _page(template: str, data: dict[str, Any], **more: Any) -> str:
    context = {"rater": data["rater"], "num_screens": len(data["screens"]), **more}
    for kind, file in (("style", "rater.css"), ("script", "rater.js")):
        text = (_FOLDER / file).read_text(encoding="utf-8")
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        context |= {kind: Markup(text), f"{kind}_hash": f"sha256-{digest}"}  # for the Content-Security-Policy
    return render(f"human_eval/{template}", {**context, "data": Markup(for_script(data))})
