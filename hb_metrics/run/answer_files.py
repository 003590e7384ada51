"""Reads files with replies to exported prompts, or with log-probabilities of these prompts.

The answers may come from any model or from people. A file's suffix determines its format: Parquet, JSON lines or CSV.
Unknown columns are ignored, so you can add a column of answers to a file of exported prompts. If the file has the
column `wanted` of exported prompts, rows for the other kind of answer are ignored, too. Errors state the file and
the line of the invalid row.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import gcd
from pathlib import Path
from typing import NamedTuple

from hb_dataset.grouped import grouped
from hb_dataset.seeded_draws import seeded_generator
from hb_dataset.table_files import invalid, number_in, read_table, text_in

# If all numbers of equal replies are even, half of the replies are copies. By chance, this happens in one of 1,000
# files with this number of replies that differ from the first reply to their prompt.
MIN_DIFFERENT = 10
MOST_PER_TOKEN = 700  # the largest negative log-likelihood per token; exp of larger numbers is infinite


class GivenReply(NamedTuple):
    """A row in a file of replies. An attribute is `None` if the file does not contain its value.

    `place` is the file and the line, for errors. `turn` (the number of the reply within its conversation) is counted
    from 1.
    """

    place: str
    id: str
    text: str | None
    reply: str
    num_tokens: int | None
    truncated: bool | None
    turn: int
    reasoning: str | None


class GivenLogProbability(NamedTuple):
    """A row in a file of log-probabilities.

    `place` is the file and the line, for errors. `log_probability` is the natural logarithm of the text's probability,
    summed over `num_tokens` tokens.
    """

    place: str
    id: str
    text: str | None
    log_probability: float
    num_tokens: int


def read_replies_file(path: str | Path) -> list[GivenReply]:
    """Reads a file with the columns `id` and `reply`. The other columns of `GivenReply` are optional."""
    given = []
    for place, row in _rows(path, "reply", "id", "reply"):
        value = str(row.get("truncated")).strip().lower().removesuffix(".0")
        truncated = {"true": True, "1": True, "false": False, "0": False}.get(value)
        if truncated is None and value not in ("none", "nan", ""):
            raise invalid(place, row, "truncated", "true or false")
        given.append(
            GivenReply(
                place,
                text_in(place, row, "id") or "",
                text_in(place, row, "text"),
                (text_in(place, row, "reply") or "").strip(),
                _whole_number(place, row, "num_tokens", 0),
                truncated,
                _whole_number(place, row, "turn", 1) or 1,
                (text_in(place, row, "reasoning") or "").strip() or None,
            )
        )
    if not any(reply.reply for reply in given):
        raise ValueError(
            f"all replies in '{path}' are empty, so there is nothing to measure; pass a file with non-empty replies"
        )
    return given


def read_log_probabilities_file(path: str | Path) -> list[GivenLogProbability]:
    """Reads a file with the columns `id`, `log_probability` and `num_tokens`. The column `text` is optional."""
    given = []
    allowed = f"the summed natural logarithm, which is finite, at most 0, and above -{MOST_PER_TOKEN} per token"
    for place, row in _rows(path, "log_probability", "id", "log_probability", "num_tokens"):
        tokens = _whole_number(place, row, "num_tokens", 1)
        value = number_in(place, row, "log_probability", allowed)
        if tokens is None:
            raise invalid(place, row, "num_tokens", "a whole number of 1 or more")
        if value is None or not 0 <= -value / tokens <= MOST_PER_TOKEN:
            raise invalid(place, row, "log_probability", allowed)
        given.append(
            GivenLogProbability(place, text_in(place, row, "id") or "", text_in(place, row, "text"), value, tokens)
        )
    identifier, number = Counter(row.id for row in given).most_common(1)[0]
    if number > 1:
        raise ValueError(f"'{path}' contains the id {identifier} {number} times; pass one log-probability per prompt")
    if len(given) > 1 and len({row.log_probability for row in given}) == 1:
        raise ValueError(
            f"all log-probabilities in '{path}' are {given[0].log_probability:g}, but a model assigns different values "
            "to different texts; pass log-probabilities computed by a model"
        )
    return given


def check_ids(
    path: str | Path,
    given: Sequence[GivenReply] | Sequence[GivenLogProbability],
    ids: Sequence[str],
    texts: Sequence[str],
    *,
    what: str,
) -> None:
    """Raises `ValueError` unless there are answers to all of the run's prompts, and to no other prompts.

    `what` is the word for an answer in error messages, such as "reply".
    """
    text_of = dict(zip(ids, texts, strict=True))
    for row in given:
        if row.id not in text_of:
            raise ValueError(
                f"{row.place}: the id '{row.id}' belongs to no prompt of this run; set the same options "
                "as for export-prompts, or delete the rows of other prompts"
            )
        if row.text is not None and row.text != text_of[row.id]:
            raise ValueError(
                f"{row.place}: the text differs from the text of prompt {row.id}; export the prompts with "
                "this run's options, and answer the exported prompts"
            )
    answered = {row.id for row in given}
    if missing := [identifier for identifier in ids if identifier not in answered]:
        raise ValueError(
            f"'{path}' has no {what} for {len(missing):,} of {len(ids):,} prompts, for example {missing[0]}; add the "
            "missing rows (replies may be empty), or limit the run to the prompts in the file with --sample or --axes"
        )


def check_turns(path: str, given: Iterable[GivenReply], turns: int) -> None:
    replied = sorted({reply.turn for reply in given})
    if replied != list(range(1, turns + 1)):
        raise ValueError(
            f"'{path}' has replies only for these turns: {', '.join(map(str, replied))}, but --turns is {turns}; add "
            "the missing replies (export-prompts --after exports the next turn), or set --turns to their number"
        )


def replies_by_prompt(given: Iterable[GivenReply]) -> tuple[dict[str, list[GivenReply]], int]:
    """Groups replies by prompt. The order of the rows does not affect the result.

    The model did not sample if no prompt has two different replies. In this case, copies of a reply to the same prompt
    are left out. They are also left out if the file contains all replies several times. The replies to a prompt are put
    into a random order, because comparisons pair the n-th replies of two runs. In alphabetical order, paired replies
    would be alike.

    Returns:
        The replies, grouped by the prompt's id, and the number of omitted copies.
    """
    by_prompt = grouped((row.id, row) for row in given)
    for rows in by_prompt.values():
        rows.sort(key=lambda row: (row.reply, row.reasoning or "", row.num_tokens or 0, bool(row.truncated)))
    counts = Counter((identifier, row.reply) for identifier, rows in by_prompt.items() for row in rows)
    different = len(counts) - len(by_prompt)
    if different == 0:
        by_prompt = {identifier: rows[:1] for identifier, rows in by_prompt.items()}
    elif different >= MIN_DIFFERENT:
        times = gcd(*counts.values())
        by_prompt = {identifier: rows[::times] for identifier, rows in by_prompt.items()}
    num_copies = counts.total() - sum(map(len, by_prompt.values()))
    for identifier, rows in by_prompt.items():
        if len(rows) > 1:
            draw = seeded_generator(0, "order of replies", "\x1f".join([identifier, *(row.reply for row in rows)]))
            by_prompt[identifier] = [rows[place] for place in draw.permutation(len(rows))]
    return by_prompt, num_copies


def _whole_number(place: str, row: Mapping[str, object], column: str, least: int) -> int | None:
    allowed = f"a whole number of {least} or more"
    value = number_in(place, row, column, allowed)
    if value is not None and (value != int(value) or value < least):
        raise invalid(place, row, column, allowed)
    return None if value is None else int(value)


def _rows(path: str | Path, wanted: str, *needed: str) -> list[tuple[str, dict[str, object]]]:
    """Returns the place and the content of each row with a `wanted` answer."""
    columns = ((name,) for name in needed)
    kept = read_table(Path(path), *columns, is_kept=lambda place, row: text_in(place, row, "wanted") in (None, wanted))
    if not kept:
        raise ValueError(f"'{path}' has no rows; pass a file with a row for each exported prompt")
    return kept
