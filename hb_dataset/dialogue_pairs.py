"""Reads prompts and replies from real dialogue between two people.

By default, the pairs come from the Chit-Chat Challenge of BYU (the PyPI package `chitchat-dataset`, MIT licence). At
most one pair is drawn per conversation and per replying person. Otherwise a few people with hundreds of conversations
would dominate the scored replies.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from hb_dataset.data_files import load_split
from hb_dataset.seeded_draws import seeded_generator

CHITCHAT = "chitchat-dataset"
TEXT_TYPES = ("string", "large_string")


class Dialogue(NamedTuple):
    """Pairs of prompt and reply; lists are [pairs].

    Attributes:
        ids: The conversation and turn of the reply, or the row in a file (from 0).
        prompts: One person's words, on one line, with runs of white space as one space.
        replies: Another person's answers, in the same form.
        source: The origin of the pairs, for the record.
        num_skipped: The number of skipped conversations or rows, by reason. Conversations of the chit-chat dataset:
            `one_person` (nobody answered) and `one_word` (no pair has two words on both sides). Rows of a file:
            `blank` (the prompt or the reply is empty).
    """

    ids: list[str]
    prompts: list[str]
    replies: list[str]
    source: str
    num_skipped: dict[str, int]

    @property
    def digest(self) -> str:
        """Computes the SHA-256 of the pairs."""
        return hashlib.sha256(json.dumps(self[:3]).encode()).hexdigest()

    def description(self) -> dict[str, Any]:
        """Describes the pairs for run.json."""
        return {"source": self.source, "digest": self.digest, "num_replies": len(self.ids)}


def read_dialogue(path: Path | None = None, *, num_replies: int = 500, seed: int = 0) -> Dialogue:
    """Reads pairs of prompt and reply, and draws some of them.

    A larger `num_replies` includes the pairs of a smaller one.

    Args:
        path: A CSV, JSONL, JSON or Parquet file with the columns `prompt` and `reply`; a `convos.txt` of DSTC-7; `None`
            for the chit-chat dataset.
        num_replies: The number of pairs to draw.
        seed: The seed of the draw.

    Returns:
        The pairs, in the order of the source.

    Raises:
        ValueError: There are fewer pairs than `num_replies`, or the file cannot be read or lacks a column.
        FileNotFoundError: There is no such file.
        ModuleNotFoundError: The chit-chat dataset is not installed.
    """
    if path is None:
        pairs, num_skipped = _draw_from_conversations(_chitchat(), num_replies, seed)
        source = f"{CHITCHAT} {version(CHITCHAT)}"
    else:
        pairs, num_skipped = _draw_from_rows(_read_rows(path), num_replies, seed)
        source = path.name
    if not 1 <= num_replies <= len(pairs):
        raise ValueError(
            f"num_replies is {num_replies:,}, but {source} has {len(pairs):,} pairs of prompt and reply; set a number "
            f"from 1 to {len(pairs):,}"
        )
    return Dialogue(
        ids=[pair.id for pair in pairs],
        prompts=[pair.prompt for pair in pairs],
        replies=[pair.reply for pair in pairs],
        source=source,
        num_skipped=num_skipped,
    )


def read_columns(path: Path, *columns: tuple[str, ...]) -> list[list[str | None]]:
    """Reads columns of text.

    Args:
        path: A CSV, JSONL, JSON, Parquet or .txt file.
        *columns: The possible names of each column; the first name that exists is read.

    Raises:
        ValueError: The file cannot be read, or lacks a column.
        FileNotFoundError: There is no such file.
    """
    import datasets

    try:
        dataset = load_split([str(path)])
    except (datasets.exceptions.DatasetsError, pa.ArrowException, EOFError) as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise ValueError(f"'{path}' cannot be read ({reason}); pass a CSV, JSONL or Parquet file") from error
    texts = [name for name, feature in dataset.features.items() if getattr(feature, "dtype", None) in TEXT_TYPES]
    read = []
    for names in columns:
        name = next((name for name in names if name in texts), None)
        if name is None:
            raise ValueError(
                f"'{path}' has no column of text named {' or '.join(names)}; its columns are: "
                f"{', '.join(dataset.column_names) or 'none'}"
            )
        read.append(list(dataset[name]))
    return read


def one_line(text: str) -> str:
    """Replaces runs of white space by one space, because replies have one line and two spaces end a Blenderbot turn."""
    return " ".join(text.split())


class _Pair(NamedTuple):
    """A prompt, its reply, and the person who replied."""

    id: str
    person: str
    prompt: str
    reply: str


def _chitchat() -> dict[str, Any]:
    """Reads the conversations of the chit-chat dataset, by id."""
    try:
        package = import_module("chitchat_dataset")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"the chit-chat dataset is not installed; run `pip install {CHITCHAT}`, or pass a file with the columns "
            f"prompt and reply"
        ) from error
    # The package's own class would leave the file open.
    return json.loads(Path(str(package.__file__)).with_name("dataset.json").read_text(encoding="utf-8"))


def _draw_from_conversations(
    conversations: dict[str, Any], number: int, seed: int
) -> tuple[list[_Pair], dict[str, int]]:
    """Draws up to `number` pairs, at most one per conversation and per replying person.

    Returns:
        The pairs in the order of the conversations, and the number of conversations without a pair, by reason.
    """
    num_skipped = {"one_person": 0, "one_word": 0}
    order = []
    for index, (name, conversation) in enumerate(conversations.items()):
        pairs = list(_answers(name, conversation["messages"]))
        if not pairs:
            num_skipped["one_person"] += 1
            continue
        # Greetings and "yes" reveal little about a model's dialogue.
        pairs = [pair for pair in pairs if " " in pair.prompt and " " in pair.reply]
        if not pairs:
            num_skipped["one_word"] += 1
            continue
        generator = seeded_generator(seed, "dialogue", name)
        order.append((generator.random(), index, pairs, generator))
    drawn: dict[int, _Pair] = {}
    people: set[str] = set()
    for _, index, pairs, generator in sorted(order, key=lambda entry: entry[:2]):
        pairs = [pair for pair in pairs if pair.person not in people]
        if pairs and len(drawn) < number:
            drawn[index] = pairs[generator.integers(len(pairs))]
            people.add(drawn[index].person)
    return [drawn[index] for index in sorted(drawn)], num_skipped


def _answers(name: str, turns: Iterable[Sequence[dict[str, str]]]) -> Iterator[_Pair]:
    """Yields each turn of a conversation that another person answered, with the answer."""
    texts = [(turn[0]["sender"], one_line(" ".join(message["text"] for message in turn))) for turn in turns if turn]
    for index, ((before, prompt), (person, reply)) in enumerate(pairwise(texts), start=1):
        if person != before:
            yield _Pair(f"{name}:{index}", person, prompt, reply)


def _read_rows(path: Path) -> list[tuple[str | None, str | None]]:
    """Reads the prompt and the reply of each row of a file."""
    if path.suffix == ".txt" and path.is_file():
        return _read_convos(path)
    return list(zip(*read_columns(path, ("prompt",), ("reply",)), strict=True))


def _read_convos(path: Path) -> list[tuple[str | None, str | None]]:
    """Reads the last turn before each response of a DSTC-7 file, and the response.

    A line has seven columns. The sixth contains the turns so far ("START", then " EOS " before each turn), and the last
    contains the response. The first comment of a conversation answers nobody, so its prompt is empty.
    """
    rows: list[tuple[str | None, str | None]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        columns = line.split("\t")
        if not line:
            continue
        if len(columns) != 7:
            raise ValueError(
                f"line {number} of '{path}' has {len(columns)} columns; set a convos.txt of DSTC-7, with 7 columns "
                "separated by tabs"
            )
        last = columns[5].strip().split(" EOS ")[-1]
        rows.append(("" if last == "START" else last, columns[6]))
    return rows


def _draw_from_rows(
    rows: Iterable[tuple[str | None, str | None]], number: int, seed: int
) -> tuple[list[_Pair], dict[str, int]]:
    """Draws up to `number` pairs from a file's rows; also returns the number of rows with an empty side."""
    pairs = [
        _Pair(str(row), "", one_line(prompt or ""), one_line(reply or "")) for row, (prompt, reply) in enumerate(rows)
    ]
    filled = [pair for pair in pairs if pair.prompt and pair.reply]
    draws = [(seeded_generator(seed, "dialogue", pair.id).random(), index) for index, pair in enumerate(filled)]
    drawn = sorted(index for _, index in sorted(draws)[:number])
    return [filled[index] for index in drawn], {"blank": len(pairs) - len(filled)}
