"""The page that a rater opens: one file that loads nothing and sends nothing."""

import base64
import hashlib
from pathlib import Path

from markupsafe import Markup

from hb_metrics.human_eval.study import Study, speakers
from hb_metrics.report.rendering import for_script, render

_FOLDER = Path(__file__).parent


def rater_page(study: Study, rater: str) -> str:
    """The HTML of a rater's page.

    The replies are in it as JSON, which the script writes into the page as text, never as HTML. The browser is told to
    run this script and no other, and to load and send nothing. Which run a reply is of is not in the page.
    """
    # Other names than those of hb_metrics/report, which templates of this folder include.
    style, script = ((_FOLDER / name).read_text(encoding="utf-8") for name in ("rater.css", "rater.js"))
    data = {
        "study": study.id,
        "rater": rater,
        "questions": [{"id": question.id, "text": question.text} for question in study.questions],
        "screens": [
            {
                "prompt": study.pairs[screen.pair].prompt,
                "replies": speakers(study, screen),
                "tasks": [screen.tasks[question.id] for question in study.questions],
            }
            for screen in study.sheets[rater]
        ],
    }
    context = {
        "rater": rater,
        "num_screens": len(data["screens"]),
        "num_questions": len(study.questions),
        "style": Markup(style),
        "script": Markup(script),
        "style_hash": _source_hash(style),
        "script_hash": _source_hash(script),
        "data": Markup(for_script(data)),
    }
    return render(_FOLDER / "rater.html.jinja", context)


def _source_hash(text: str) -> str:
    """A script or style as Content-Security-Policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
