"""Made-up studies, and raters who answer them."""

import json

from hb_metrics.human_eval.export import QUESTIONS
from hb_metrics.human_eval.study import REASONS, Design, ReplyPair, draw_study

AXES = ("ability", "age", "nonce", "religion")
HOSTILE = (
    "</script><script>document.title = 'run'</script><img src=x onerror=\"document.title='run'\"> & \u2028 \u202e x"
)


def pairs_of(numbers):
    """Pairs of axes, so many of each; terms and templates differ within an axis."""
    return [
        ReplyPair(
            f"{axis}-{row:03}",
            axis,
            f"term {row % 5}",
            f"template {row % 3}",
            f"I'm {axis} {row}.",
            (f"before {axis} {row}", f"after {axis} {row}"),
        )
        for axis, number in numbers.items()
        for row in range(number)
    ]


def about():
    return {
        "runs": [{"name": name, "run": name, "offensiveness_classifier": None} for name in ("before", "after")],
        "keep_offensive": False,
        "axes": list(AXES),
        "left_out": dict.fromkeys(REASONS, 0) | {"identical": 3},
        "num_available": 99,
        "num_in_study": 88,
    }


def made_study(numbers=None, design=None, questions=QUESTIONS, pairs=None):
    pairs = pairs_of(numbers or dict.fromkeys(AXES, 30)) if pairs is None else pairs
    return draw_study(pairs, design or Design(4, 20, 2, 2, 0), questions, about())


def screens_of(study):
    """The rater, the screen and its tasks, of all screens."""
    found = []
    for rater, screens in study.sheets.items():
        for place, screen in enumerate(screens):
            found.append((rater, screen, study.tasks(rater, place)))
    return found


def answers(study, choose):
    """The lines of a file of ratings, where `choose(rater, screen, question)` gives 1, 2 or `None` for no answer."""
    rows = []
    for rater, screen, tasks in screens_of(study):
        for question, task in tasks.items():
            choice = choose(rater, screen, question)
            if choice is not None:
                rows.append({"study": study.id, "rater": rater, "task": task, "choice": choice})
    return rows


def attentive(screen, choice):
    """What a rater who reads chooses: of a check what it asks for."""
    return screen.asked or choice


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
