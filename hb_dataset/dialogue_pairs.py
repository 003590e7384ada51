"""Reads prompts and replies from real dialogues between two people.

By default, the pairs come from BYU's Chit-Chat Challenge (the PyPI package `chitchat-dataset`, MIT licence). A few
people took part in hundreds of these conversations. At most one pair is therefore drawn from each conversation, and
from each person who replies.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from hb_dataset.seeded_draws import seeded_generator
from hb_dataset.table_files import read_table, text_in

CHITCHAT = "chitchat-dataset"


class DialoguePairs(NamedTuple):
    """Prompt–reply pairs. The texts contain no line breaks.

    An id is made up of the conversation's id and the turn of the reply. For pairs from a file, it is the row number,
    counted from 0.

    `num_skipped` counts skipped conversations and rows by reason: `one_person` (nobody answered), `one_word` (in every
    pair, the prompt or the reply has only one word), and `blank` (a file's row lacks a prompt or a reply).
    """

    ids: list[str]
    prompts: list[str]
    replies: list[str]
    source: str
    num_skipped: dict[str, int]

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self[:3]).encode()).hexdigest()

    def description(self) -> dict[str, object]:
        return {"source": self.source, "digest": self.digest, "num_replies": len(self.ids)}


def read_dialogue(path: Path | None = None, *, num_replies: int = 500, seed: int = 0) -> DialoguePairs:
    """Draws prompt–reply pairs, in the order of the source.

    The pairs for a larger `num_replies` include all pairs for a smaller one. `path` is a file with the columns `prompt`
    and `reply`, or a `convos.txt` from DSTC-7. Without `path`, the chit-chat dataset is read.
    """
    if path is None:
        conversations, num_skipped = _pairs_of(_chitchat())
        source = f"{CHITCHAT} {version(CHITCHAT)}"
    else:
        conversations, num_skipped = _pairs_in(path)
        source = path.name
    pairs = _draw_from_conversations(conversations, num_replies or -1, seed)  # an error states the number of all pairs
    if not 1 <= num_replies <= len(pairs):
        raise ValueError(
            f"the number of replies is {num_replies:,}; set a number from 1 to {len(pairs):,}, the pairs of {source}"
        )
    return DialoguePairs(
        ids=[pair.id for pair in pairs],
        prompts=[pair.prompt for pair in pairs],
        replies=[pair.reply for pair in pairs],
        source=source,
        num_skipped=num_skipped,
    )


def one_line(text: str) -> str:
    """Replaces each run of white space with one space, because two spaces end a turn in Blenderbot."""
    return " ".join(text.split())


class _Pair(NamedTuple):
    id: str
    person: str
    prompt: str
    reply: str


def _chitchat() -> dict[str, Any]:
    try:
        folder = resources.files("chitchat_dataset")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"the chit-chat dataset is not installed; run `pip install {CHITCHAT}`") from error
    # The file is read directly, because the package's own class would not close the file.
    return json.loads(folder.joinpath("dataset.json").read_text(encoding="utf-8"))


def _draw_from_conversations(conversations: Mapping[str, list[_Pair]], number: int, seed: int) -> list[_Pair]:
    drawn: dict[str, _Pair] = {}
    people: set[str] = set()
    for name in sorted(conversations, key=lambda name: seeded_generator(seed, "dialogue", name).random()):
        pairs = [pair for pair in conversations[name] if pair.person not in people]
        if pairs and len(drawn) != number:
            generator = seeded_generator(seed, "dialogue", name)
            generator.random()  # the number by which the conversations are sorted
            drawn[name] = pairs[generator.integers(len(pairs))]
            people.add(drawn[name].person)
    return [drawn[name] for name in conversations if name in drawn]


def _pairs_of(conversations: dict[str, Any]) -> tuple[dict[str, list[_Pair]], dict[str, int]]:
    num_skipped = {"one_person": 0, "one_word": 0}
    by_conversation = {}
    for name, conversation in conversations.items():
        pairs = list(_answers(name, conversation["messages"]))
        # Greetings and "yes" reveal little about a model's dialogue.
        long = [pair for pair in pairs if " " in pair.prompt and " " in pair.reply]
        if long:
            by_conversation[name] = long
        else:
            num_skipped["one_word" if pairs else "one_person"] += 1
    return by_conversation, num_skipped


def _answers(name: str, turns: Iterable[Sequence[dict[str, str]]]) -> Iterator[_Pair]:
    texts = [(turn[0]["sender"], one_line(" ".join(message["text"] for message in turn))) for turn in turns if turn]
    for index, ((before, prompt), (person, reply)) in enumerate(pairwise(texts), start=1):
        if person != before:
            yield _Pair(f"{name}:{index}", person, prompt, reply)


def _pairs_in(path: Path) -> tuple[dict[str, list[_Pair]], dict[str, int]]:
    """Reads each row as a conversation with one pair, and with people who are in no other row."""
    if path.suffix == ".txt" and path.is_file():
        rows = _read_convos(path)
    else:
        table = read_table(path, ("prompt",), ("reply",))
        rows = [(text_in(place, row, "prompt"), text_in(place, row, "reply")) for place, row in table]
    by_row = {}
    for number, (prompt, reply) in enumerate(rows):
        pair = _Pair(str(number), str(number), one_line(prompt or ""), one_line(reply or ""))
        if pair.prompt and pair.reply:
            by_row[pair.id] = [pair]
    return by_row, {"blank": len(rows) - len(by_row)}


def _read_convos(path: Path) -> list[tuple[str | None, str | None]]:
    """Reads each response, and the last turn before it, from a DSTC-7 file.

    The sixth of seven columns contains the earlier turns, and the last column contains the response. The earlier turns
    begin with "START", and each turn follows an " EOS ".
    """
    rows: list[tuple[str | None, str | None]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        columns = line.split("\t")
        if not line:
            continue
        if len(columns) != 7:
            raise ValueError(
                f"line {number} of '{path}' has {len(columns)} columns, not 7; pass a convos.txt of DSTC-7"
            )
        last = columns[5].strip().split(" EOS ")[-1]
        rows.append(("" if last == "START" else last, columns[6]))
    return rows
