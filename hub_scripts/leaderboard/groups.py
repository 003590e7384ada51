"""Puts published figures into groups of runs that compare, a row for each run."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from hub_scripts.leaderboard.notes import Dialogue, Settings, hub_model
from hub_scripts.leaderboard.reading import COLUMNS, Published, Reading, Refused

MOST_GROUPS_OF_A_MODEL = 16  # combinations of settings that one model's runs can take part in
MOST_RUNS_OF_A_REPOSITORY = 96  # models, settings, control tags and seeds that one repository has figures of
SORTED_BY = "full_gen_bias_debiased"


class Row(NamedTuple):
    """A run in a group.

    Attributes:
        model: What it measured, in the words of its notes.
        repo_id: The model on the Hub; `None`: it is not there.
        tag: The control tag that the model was asked with; empty: none.
        seed: The seed of its replies; empty: not stated, or a run without replies.
        file: A file that its figures are from.
        is_own: Whether that file is in the repository of the model; else its name is only what the file claims.
        figures: Task → the figure; without those that were not published.
        dialogue: Its dialogue quality; `None`: not published.
        link: Where the run can be looked at, as published; `None`: not published.
        page: The page of its file or run folder on the Hub; `None`: it is from a local file.
        faults: Why nobody else can measure the same again; empty if they can.
    """

    model: str
    repo_id: str | None
    tag: str
    seed: str
    file: str
    is_own: bool
    figures: dict[str, Published]
    dialogue: Dialogue | None
    link: str | None
    page: str | None
    faults: tuple[str, ...]

    @property
    def name(self) -> str:
        """What to call it: the Hub id if it has one."""
        return self.repo_id or self.model

    @property
    def about(self) -> str:
        """What it measured, without the Hub id that `name` shows."""
        return self.model.replace(f" of {self.repo_id}", "") if self.repo_id else ""

    @property
    def link_host(self) -> str:
        """The host of the published link, which is anybody's."""
        return urlsplit(self.link).hostname or "" if self.link else ""

    @property
    def bias(self) -> Published | None:
        """Debiased Full Gen Bias."""
        return self.figures.get(SORTED_BY)


class Group(NamedTuple):
    """Runs that compare: all their figures have the same settings.

    Attributes:
        settings: What they have in common.
        rows: Those that can be measured again first, and then by debiased Full Gen Bias, or another figure where there
            is none. The order is no ranking.
    """

    settings: Settings
    rows: list[Row]

    @property
    def num_overlaps(self) -> tuple[int, int]:
        """Pairs of runs whose intervals of debiased Full Gen Bias overlap, and all with intervals of one level."""
        bounds = [
            (float(row.bias.level), *row.bias.interval)
            for row in self.rows
            if row.bias is not None and row.bias.interval is not None
        ]
        pairs = [(first, second) for first, second in combinations(bounds, 2) if first[0] == second[0]]
        return sum(first[1] <= second[2] and second[1] <= first[2] for first, second in pairs), len(pairs)


def grouped(reading: Reading) -> tuple[list[Group], list[Refused]]:
    """Groups, first those with Gen Bias and most runs that can be measured again, and what else had to be refused."""
    figures_shown, refused = _without_floods(reading.figures)
    models: dict[tuple[str | None, str, str, str], list[Published]] = {}
    for figure in figures_shown:
        key = figure.repo_id, figure.model, figure.settings.config, figure.settings.sample
        models.setdefault(key, []).append(figure)
    kept = []
    for figures in models.values():
        combined = _combined(figures)
        if len(combined) > MOST_GROUPS_OF_A_MODEL:
            reason = (
                f"{len(combined)} combinations of settings of one model; at most {MOST_GROUPS_OF_A_MODEL} are shown"
            )
            refused += [Refused(where, reason) for where in dict.fromkeys(figure.where for figure in figures)]
        else:
            kept.append((figures, combined))
    settings = {one for _, combined in kept for one in combined}
    of_replies = [one for one in settings if one.decoding is not None]
    whole = [one for one in of_replies if not any(_is_part(one, other) for other in of_replies)]
    # Likelihoods compare whatever replies were made and classified with, and also of models without replies.
    of_likelihoods = Counter(one._replace(decoding=None, styles=None, offensiveness=None) for one in whole)
    of_likelihoods.update({one: 2 for one in settings if one.decoding is None})
    whole += [one for one, number in of_likelihoods.items() if one.likelihood is not None and number > 1]
    groups = [
        Group(one, _sorted(row for figures, combined in kept for row in _rows(figures, combined, one))) for one in whole
    ]

    def order(group: Group) -> tuple[bool, int, int, str]:
        return (
            group.settings.styles is None,
            -sum(not row.faults for row in group.rows),
            -len(group.rows),
            str(group.settings),
        )

    return sorted(groups, key=order), refused


def _without_floods(figures: Sequence[Published]) -> tuple[list[Published], list[Refused]]:
    """The figures without those of repositories that have too many runs, and these refused."""
    runs: dict[str, set[tuple[Any, ...]]] = {}
    for figure in figures:
        if figure.repo_id is not None:
            runs.setdefault(figure.repo_id, set()).add((figure.model, figure.settings, figure.run))
    reason = "{} runs of one repository, counting each setting and seed; at most {} are shown"
    floods = {repo_id: len(found) for repo_id, found in runs.items() if len(found) > MOST_RUNS_OF_A_REPOSITORY}
    refused = [Refused(repo_id, reason.format(number, MOST_RUNS_OF_A_REPOSITORY)) for repo_id, number in floods.items()]
    return [figure for figure in figures if figure.repo_id not in floods], refused


def _combined(figures: Sequence[Published]) -> set[Settings]:
    """All combinations of settings that the runs of a model have figures for."""
    likelihoods = _known(figure.settings.likelihood for figure in figures)
    first = figures[0].settings
    combined = set()
    for decoding in _known(figure.settings.decoding for figure in figures):
        of_it = [figure.settings for figure in figures if figure.settings.decoding == decoding]
        styles = _known(one.styles for one in of_it)
        offensiveness = _known(one.offensiveness for one in of_it)
        for parts in product(styles, offensiveness, likelihoods):
            combined.add(Settings(first.config, first.sample, decoding, *parts))
    return combined


def _known(values: Iterable[str | None]) -> list[str | None]:
    """The distinct values that are known, or `None` alone if none is."""
    return list(dict.fromkeys(value for value in values if value is not None)) or [None]


def _is_part(one: Settings, other: Settings) -> bool:
    """Whether everything known of one is the same in the other, which has more."""
    return one != other and all(mine in (None, theirs) for mine, theirs in zip(one, other, strict=True))


def _rows(figures: Sequence[Published], combined: Iterable[Settings], settings: Settings) -> list[Row]:
    """The runs of a model in a group: one for each control tag and seed, or one without replies.

    Args:
        figures: Those of the model.
        combined: The combinations of settings that it has figures for.
        settings: Those of the group.
    """
    likelihoods = [figure for figure in figures if not figure.run and figure.settings.agree(settings)]
    if settings.decoding is None:
        return [_row(likelihoods)] if likelihoods else []
    # Its replies may be to other settings: then it is no run of this group because of its likelihoods.
    if not any(one.decoding is not None and one.agree(settings) for one in combined):
        return []
    of_replies = [figure for figure in figures if figure.run and figure.settings.agree(settings)]
    runs = list(dict.fromkeys(figure.run for figure in of_replies))
    rows = [[*likelihoods, *(figure for figure in of_replies if figure.run == run)] for run in runs]
    return [_row(row) for row in rows or [likelihoods] if row]


def _row(figures: Sequence[Published]) -> Row:
    last = figures[-1]  # of replies, if there are any
    tag, seed = last.run or ("", "")
    return Row(
        last.model,
        last.repo_id or hub_model(last.model),
        tag,
        seed,
        last.where,
        last.repo_id is not None,
        {figure.task: figure for figure in figures},
        next((figure.dialogue for figure in figures if figure.dialogue is not None), None),
        next((figure.link for figure in figures if figure.link is not None), None),
        last.page,
        tuple(dict.fromkeys(fault for figure in figures for fault in figure.faults)),
    )


def _sorted(rows: Iterable[Row]) -> list[Row]:
    def order(row: Row) -> tuple[bool, bool, float, str, str]:
        values = (row.figures[task].value for task in COLUMNS if task in row.figures)
        return bool(row.faults), row.bias is None, next(values), row.name.lower(), str(row)

    return sorted(rows, key=order)
