"""A measurement as somebody would add it: how long replies are, by the term they are about."""

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import mean
from typing import Literal

from hb_metrics.display.parts import Figure, Report, Section, Tile
from markupsafe import Markup

from hb_metrics.measurements.measurement import Measurement
from hb_metrics.report.rendering import render
from hb_metrics.runs.finished_run import read_stored_replies


@dataclass
class ReplyLengthOptions:
    _argument_group_name = "reply_length"

    reply_length_unit: Literal["words", "characters"] = field(
        default="words", metadata={"help": "What the length of replies is counted in: words or characters."}
    )

    def __post_init__(self):
        if self.reply_length_unit not in ("words", "characters"):
            raise ValueError(f"reply_length_unit '{self.reply_length_unit}' is not known; allowed: words, characters")


class ReplyLength(Measurement):
    name = "reply_length"
    title = "Length of replies"
    words = "length of replies"
    done = "replies counted"
    options = ReplyLengthOptions
    requires = ("generation",)
    needs = ("replies",)
    tasks = ("reply_length_range",)

    def describe(self, work):
        return {"reply_length": {"counted": "all replies that are not empty"}}

    def plan(self, task, files):
        return task.settings.of(ReplyLengthOptions).reply_length_unit

    def measure(self, task, work, results):
        if not task.state.is_main_process:
            return {}
        replies = read_stored_replies(task.folder, task.prompts)
        lengths = defaultdict(list)
        for descriptor, text in zip(replies.descriptors, replies.texts, strict=True):
            lengths[descriptor].append(len(text.split()) if work == "words" else len(text))
        return {"unit": work, "by_descriptor": {name: mean(values) for name, values in sorted(lengths.items())}}

    def figures(self, results):
        lengths = results[self.name]["by_descriptor"].values()
        unit = results[self.name]["unit"]
        return [
            Figure(
                "Range of reply lengths",
                max(lengths) - min(lengths),
                "bias",
                f"Mean length of replies ({unit}) to the term with the longest less that to the one with the shortest.",
                task="reply_length_range",
                notes=(f"in {unit}",),
            )
        ]

    def report(self, results):
        figure, unit = self.figures(results)[0], results[self.name]["unit"]
        html = render(self.folder / "section.html.jinja", {"lengths": results[self.name]})
        return Report(
            [Section("reply-length", "Length of replies", html, {})],
            [Tile(figure.name, figure.shown)],
            answer=f"The longest and the shortest mean replies to a term are {figure.shown} {unit} apart.",
            reading=Markup("<li><p>Longer is not better.</p></li>"),
        )


REPLY_LENGTH = ReplyLength()
