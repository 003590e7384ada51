"""Makes the files of the leaderboard's Space: the page, its data as Parquet, and the card."""

import base64
import hashlib
import io
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from markupsafe import Markup

from hb_dataset.prompts import DEFAULT_VERSION
from hb_metrics.display import numbers
from hb_metrics.display.parts import written, written_interval
from hb_metrics.display.rendering import render
from hub_scripts.hub_contents import CARD_FILE
from hub_scripts.leaderboard.groups import Group, Row, grouped
from hub_scripts.leaderboard.notes import Dialogue, Settings, cleaned
from hub_scripts.leaderboard.reading import COLUMNS, Published, Reading, Refused
from hub_scripts.leaderboard.scatter import scatter

PAGE_FILE, DATA_FILE = "index.html", "leaderboard.parquet"
SHOWN_REFUSALS = 200
PLAIN = "full_gen_bias"
_FOLDER = Path(__file__).parent

CARD = """\
---
title: HolisticBias leaderboard
emoji: ⚖️
colorFrom: blue
colorTo: gray
sdk: static
app_file: {page}
pinned: false
license: apache-2.0
short_description: Published bias figures, those that compare together
datasets:
- {dataset_id}
tags:
- leaderboard
- bias
- holistic-bias
---

# HolisticBias leaderboard

Figures that people published with `holistic-bias publish results`, beside each other where they compare: same version,
config, classifiers and decoding. `holistic-bias publish leaderboard` makes this page. The data is `{data}`: a row for
each figure.
"""

# In the order of the columns of the Parquet file.
SCHEMA = pa.schema(
    [
        ("group", pa.int32()),
        ("model", pa.string()),
        ("repo_id", pa.string()),
        ("tag", pa.string()),
        ("seed", pa.string()),
        ("figure", pa.string()),
        ("value", pa.float64()),
        ("lowest", pa.float64()),
        ("highest", pa.float64()),
        ("confidence_level", pa.string()),
        ("config", pa.string()),
        ("sample", pa.string()),
        ("decoding", pa.string()),
        ("style_classifier", pa.string()),
        ("offensiveness_classifier", pa.string()),
        ("likelihood", pa.string()),
        ("details", pa.list_(pa.string())),
        ("dialogue_bits_per_reply", pa.float64()),
        ("dialogue_perplexity", pa.float64()),
        ("dialogue_perplexity_lowest", pa.float64()),
        ("dialogue_perplexity_highest", pa.float64()),
        ("dialogue_replies", pa.string()),
        ("link", pa.string()),
        ("not_reproducible", pa.list_(pa.string())),
        ("file", pa.string()),
    ]
)


class Cell(NamedTuple):
    """A figure in the table.

    Attributes:
        value: As it is written; `numbers.MISSING` if it does not compare with the others of its column.
        interval: As it is written; empty: none was published.
        details: Parts of the notes beside it.
        sorted_by: What the column is sorted by; `None`: it does not compare.
    """

    value: str
    interval: str
    details: tuple[str, ...]
    sorted_by: float | None


class Bar(NamedTuple):
    """An interval as a line on the scale of its group, in percent of the width."""

    left: float
    width: float
    point: float


def space_files(reading: Reading, dataset_id: str) -> dict[str, bytes]:
    """The files of the Space, by path. The same figures make the same bytes.

    Args:
        reading: What was published.
        dataset_id: The dataset's Hub id.
    """
    groups, refused = grouped(reading)
    return {
        PAGE_FILE: leaderboard_page(groups, [*reading.refused, *refused], reading.num_others, dataset_id).encode(),
        DATA_FILE: _parquet(groups),
        CARD_FILE: CARD.format(page=PAGE_FILE, data=DATA_FILE, dataset_id=dataset_id).encode(),
    }


def leaderboard_page(groups: Sequence[Group], refused: Sequence[Refused], num_others: int, dataset_id: str) -> str:
    """The page: one file that loads nothing, and in which a browser runs no script but its own.

    Args:
        groups: What to show.
        refused: What is not shown, and why.
        num_others: How many entries were about other datasets or other figures.
        dataset_id: The dataset's Hub id.
    """
    script = (_FOLDER / "page.js").read_text(encoding="utf-8")
    context = {
        "groups": [_shown(group, title) for group, title in zip(groups, _titles(groups), strict=True)],
        "columns": COLUMNS,
        # The command for one more run of the first group, as far as a command shows it.
        "config": groups[0].settings.config if groups else DEFAULT_VERSION,
        "num_figures": len({figure for group in groups for row in group.rows for figure in row.figures.values()}),
        "num_models": len({row.name for group in groups for row in group.rows}),
        "refused": refused[:SHOWN_REFUSALS],
        "num_refused": len(refused),
        "num_others": num_others,
        "dataset_id": dataset_id,
        "data_file": DATA_FILE,
        "script": Markup(script),  # a file of ours, and nothing that was published
        "script_digest": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    }
    return str(render(_FOLDER / "page.html.jinja", context))


def _shown(group: Group, title: str) -> dict[str, Any]:
    """A group for the template."""
    bounds = [bound for row in group.rows for bound in _bounds(row)]
    lowest, highest = min([0.0, *bounds]), max(bounds, default=1.0)
    scale = lowest, (highest if highest > lowest else lowest + 1)
    settings = group.settings
    parts = {
        "Config": settings.config + (f", {settings.sample}" if settings.sample else ""),
        "Styles classified by": settings.styles,
        "Offensiveness classified by": settings.offensiveness,
        "Replies": settings.decoding,
        "Likelihoods": settings.likelihood,
    }
    tasks = [task for task in COLUMNS if any(task in row.figures for row in group.rows)]
    per_cell = _usual_replies_per_cell(group)
    return {
        "title": title,
        "settings": {name: text for name, text in parts.items() if text is not None},
        "is_small": settings.config.endswith("-small"),
        "tasks": tasks,
        "dialogues": {row.dialogue.replies for row in group.rows if row.dialogue is not None},
        "rows": [
            (row, [_cell(row.figures.get(task), per_cell) for task in tasks], _bar(row, scale), _dialogue_cell(row))
            for row in group.rows
        ],
        "scale": [written(bound, "bias") for bound in scale] if bounds else None,
        "overlaps": group.num_overlaps,
        "scatter": scatter(group.rows),
    }


def _titles(groups: Sequence[Group]) -> list[str]:
    """The groups in the chooser: config and classifier, and where several share these, what they differ in."""
    mains = [tuple(_main_settings(group.settings)) for group in groups]
    parts = [_parts(group.settings) for group in groups]
    alike = {main: [own for own, other in zip(parts, mains, strict=True) if other == main] for main in mains}

    def titles(shared_by: Callable[[int], float]) -> list[str]:
        """Titles with the parts that fewer groups have than this, of so many."""
        return [
            " · ".join([*main, *(part for part in own if counts[main][part] < shared_by(len(alike[main])))])
            for main, own in zip(mains, parts, strict=True)
        ]

    counts = {main: Counter(part for own in others for part in own) for main, others in alike.items()}
    # What most groups have is left out, unless a title then is that of another group too.
    short, long = titles(lambda number: 0.5 * number + 0.5), titles(lambda number: number)
    uses = Counter(short)
    named = [cleaned(one if uses[one] == 1 else other, 300) for one, other in zip(short, long, strict=True)]
    numbers_of_runs = [len(group.rows) for group in groups]
    return [f"{name} · {n:,} run{'' if n == 1 else 's'}" for name, n in zip(named, numbers_of_runs, strict=True)]


def _parts(settings: Settings) -> list[str]:
    """Decoding, classifiers and likelihoods in parts, without what the main title names."""
    texts = (settings.decoding, settings.styles, settings.offensiveness, settings.likelihood)
    main = _main_settings(settings)
    parts = [part for text in texts if text is not None for part in text.split(", ")]
    return [part for part in dict.fromkeys(parts) if not any(named.endswith(f" {part}") for named in main)]


def _main_settings(settings: Settings) -> list[str]:
    """Config, sample and the classifier."""
    classifier = settings.styles or settings.offensiveness
    named = "likelihoods alone" if classifier is None else f"classified by {classifier.partition(', ')[0]}"
    return [*filter(None, [settings.config, settings.sample]), named]


def _usual_replies_per_cell(group: Group) -> str:
    """The replies a cell that most plain values of Gen Bias in a group have, whose sampling noise they hold."""
    plain = (row.figures[PLAIN] for row in group.rows if PLAIN in row.figures)
    counted = Counter(_replies_per_cell(figure) for figure in plain)
    return min(counted, key=lambda words: (-counted[words], words), default="")


def _replies_per_cell(figure: Published) -> str:
    return next(
        (detail for detail in figure.details if detail.endswith(" replies a cell")), "replies a cell not stated"
    )


def _cell(figure: Published | None, per_cell: str) -> Cell | None:
    if figure is None:
        return None
    form = COLUMNS[figure.task].form
    interval = "" if figure.interval is None else f"{figure.level}%: {written_interval(figure.interval, form)}"
    if figure.task == PLAIN and (own := _replies_per_cell(figure)) != per_cell:
        others = [detail for detail in figure.details if detail != own]
        return Cell(numbers.MISSING, "", (f"{written(figure.value, form)} does not", f"compare: {own}", *others), None)
    return Cell(written(figure.value, form), interval, figure.details, figure.value)


def _dialogue_cell(row: Row) -> Cell | None:
    if row.dialogue is None:
        return None
    perplexity, interval = f"perplexity {numbers.bias(row.dialogue.perplexity)}", ""
    if row.dialogue.interval is not None:
        level, low, high = row.dialogue.interval
        interval = f"{level}%: {numbers.interval((low, high))}"
    return Cell(f"{row.dialogue.bits:,.1f}", "", tuple(filter(None, (perplexity, interval))), row.dialogue.bits)


def _bounds(row: Row) -> tuple[float, ...]:
    return () if row.bias is None else (row.bias.value, *(row.bias.interval or ()))


def _bar(row: Row, scale: tuple[float, float]) -> Bar | None:
    if row.bias is None:
        return None
    low, high = row.bias.interval or (row.bias.value, row.bias.value)
    left, right, point = (100 * (value - scale[0]) / (scale[1] - scale[0]) for value in (low, high, row.bias.value))
    return Bar(round(left, 2), round(right - left, 2), round(point, 2))


def _dialogue_columns(dialogue: Dialogue | None) -> dict[str, Any]:
    if dialogue is None:
        return {}
    _, lowest, highest = dialogue.interval or (None, None, None)
    return {
        "dialogue_bits_per_reply": dialogue.bits,
        "dialogue_perplexity": dialogue.perplexity,
        "dialogue_perplexity_lowest": lowest,
        "dialogue_perplexity_highest": highest,
        "dialogue_replies": dialogue.replies,
    }


def _parquet(groups: Sequence[Group]) -> bytes:
    """A row for each figure in each group that it is shown in."""
    rows = [
        {
            **dict.fromkeys(SCHEMA.names),
            **group.settings._asdict(),
            "group": number,
            "model": row.model,
            "repo_id": row.repo_id,
            "tag": row.tag or None,
            "seed": row.seed or None,
            "figure": figure.task,
            "value": figure.value,
            "lowest": None if figure.interval is None else figure.interval[0],
            "highest": None if figure.interval is None else figure.interval[1],
            "confidence_level": figure.level or None,
            "style_classifier": group.settings.styles,
            "offensiveness_classifier": group.settings.offensiveness,
            "details": list(figure.details),
            **_dialogue_columns(row.dialogue),
            "link": row.link or row.page,
            "not_reproducible": list(row.faults),
            "file": figure.where,
        }
        for number, group in enumerate(groups)
        for row in group.rows
        for figure in row.figures.values()
    ]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), sink)
    return sink.getvalue()
