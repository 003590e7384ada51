"""Reads the notes of evaluation results: what a figure was measured with, in parts that are separated by semicolons.

run_figures.py and the measurements write them. Whoever else writes them may write anything: a part that is none of
theirs is kept as a setting that is not known.
"""

import math
import re
import unicodedata
from typing import Any, NamedTuple

from hub_scripts.addresses import is_repo_id

NOT_STATED = "not stated"
SHOWN_LETTERS = 120  # of a text of a file
MODEL_LETTERS = 300  # of what was measured: a model and an adapter, whose names have up to 96 each
MOST_TOKENS = 10_000  # of a dialogue reply, on average
MOST_LETTERS = 4000  # of notes, which are read whole: texts that differ at their ends are not the same


class Settings(NamedTuple):
    """What figures have to have in common to be shown beside each other; `None`: the figure does not depend on it.

    Attributes:
        config: The dataset config.
        sample: The sample of it that was measured; empty: all of it.
        decoding: How replies were made, but for the control tag and the seed.
        styles: The style classifier with its digest, scale and ddof.
        offensiveness: The offensiveness classifier with its digest, and the threshold.
        likelihood: The score, the tests, and whether terms were left out.
    """

    config: str
    sample: str = ""
    decoding: str | None = None
    styles: str | None = None
    offensiveness: str | None = None
    likelihood: str | None = None

    def agree(self, other: "Settings") -> bool:
        """Whether they are the same in all that both depend on."""
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True) if None not in (mine, theirs))


class Dialogue(NamedTuple):
    """Dialogue quality: how well a model predicts what real people replied.

    Attributes:
        bits: Bits per reply: log2(perplexity) × tokens / replies. Unlike the perplexity per token it compares between
            models with different tokenizers, on the same replies.
        perplexity: The perplexity per token, which `bits` is from.
        interval: Confidence level in percent, as written, and lowest and highest perplexity; `None`: not published.
        replies: Which replies: the digest of the dialogue and how many of its replies were scored.
    """

    bits: float
    perplexity: float
    interval: tuple[str, float, float] | None
    replies: str


def cleaned(text: str, most: int = SHOWN_LETTERS) -> str:
    """Text of a file, in one line, shortened, and without letters that are invisible or turn the direction."""
    letters = " ".join(text[: 4 * most].split())
    plain = "".join("�" if unicodedata.category(letter) in _UNSEEN else letter for letter in letters)
    return plain if len(plain) <= most else plain[: most - 1] + "…"


_UNSEEN = ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp")


def quoted(text: str) -> str:
    """The beginning of a text of a file, in quotation marks."""
    return f"'{cleaned(text, 40)}'"


class Notes:
    """The notes of an entry, in parts.

    Attributes:
        interval: Confidence level, lowest and highest, as written; `None`: there is no interval.
        model: What was measured, in words.
        details: Parts to show beside the value.
        dialogue: Dialogue quality of the same run; `None`: not published.
    """

    def __init__(self, notes: str, config: str, task: str) -> None:
        self.config, self.task = config, task
        self.is_empty = not notes.strip()
        self.interval: tuple[str, ...] | None = None
        self.model = self.release = self.sample = self.styles = self.offensiveness = self.tag = self.seed = ""
        self.scale = self.threshold = ""
        self.likelihood: list[str] = []
        self.decoding: list[str] = []
        self.details: list[str] = []
        self.unknown: list[str] = []
        self.hidden: list[str] = []
        self.dialogue: Dialogue | None = None
        # A digest in capitals or in full is the same digest.
        notes = _DIGEST.sub(lambda match: f"{match[1]} {match[2].lower()}", notes)
        for part in notes.split("; ") if notes else ():
            self._read(" ".join(part.split()))

    def _read(self, part: str) -> None:
        for pattern, read in _PARTS.items():
            if (match := re.fullmatch(pattern, part)) is not None:
                read(self, match)
                return
        self.unknown.append(cleaned(part, MOST_LETTERS))

    def read_config(self, match: re.Match) -> None:
        """Checks that the notes are about the config of the task.

        Raises:
            ValueError: They are not.
        """
        if match[1] != self.config:
            raise ValueError(f"its notes are about the config {quoted(match[1])}, and its task about {self.config}")

    def read_threshold(self, match: re.Match) -> None:
        """Reads the share of offensive replies, with the threshold that a setting is."""
        self.details.append(match[1])
        self.threshold = match[2]

    def read_dialogue(self, match: re.Match) -> None:
        """Reads dialogue quality.

        Raises:
            ValueError: It cannot be.
        """
        perplexity, level, low, high = float(match[1]), match[2], float(match[3] or 1), float(match[4] or 1)
        tokens, replies = (int(match[number].replace(",", "")) for number in (5, 6))
        if not (1 <= perplexity < 1e12 and 1 <= low <= high < 1e12 and 0 < replies <= tokens <= MOST_TOKENS * replies):
            raise ValueError(f"its dialogue perplexity cannot be: {quoted(match[0])}")
        bits = math.log2(perplexity) * tokens / replies
        interval = None if level is None else (level, low, high)
        self.dialogue = Dialogue(bits, perplexity, interval, f"{replies:,} replies, digest {match[7]}")

    @property
    def of_replies(self) -> bool:
        """Whether the figure is about replies."""
        return self.task != "likelihood_bias"

    @property
    def run(self) -> tuple[str, ...]:
        """The control tag and the seed of replies; empty for likelihoods."""
        return (self.tag, self.seed) if self.of_replies else ()

    def settings(self) -> Settings:
        """What the figure compares by."""
        if not self.of_replies:
            return Settings(self.config, self.sample, likelihood=", ".join(self.likelihood) or NOT_STATED)
        decoding = ", ".join(sorted([*self.decoding, *self.hidden, *self.unknown]))
        of_styles = self.task.startswith("full_gen_bias")
        classifier = ", ".join(
            filter(None, [self.styles, self.scale] if of_styles else [self.offensiveness, self.threshold])
        )
        known = {"styles" if of_styles else "offensiveness": classifier or NOT_STATED}
        return Settings(self.config, self.sample, decoding=decoding or NOT_STATED, **known)

    def faults(self, repo_id: str | None) -> list[str]:
        """Why nobody else can measure the same again."""
        if self.is_empty:
            return ["states no settings"]
        faults = []
        for part, name in zip(self.model.split(", with adapter "), ("model", "adapter"), strict=False):
            if re.search(r"\b(commit|digest) [0-9a-f]{12}\b", part) is None:
                faults.append(f"no commit or digest of the {name}")
        if "going by files of its answers" in self.model:
            faults.append("answers are from files: how they were made is not known")
        named = hub_model(self.model)
        own = self.model.rpartition(", with adapter ")[2]
        is_adapter = own != self.model
        if repo_id is None and named is None and (is_adapter or own.startswith(("a local folder", "a GGUF file"))):
            faults.append("measured a local model, and not one on the Hub")
        if named is None and "commit " in own:
            faults.append("names no model that can be on the Hub")
        if None not in (repo_id, named) and named != repo_id:
            faults.append(f"names another model than its repository: {cleaned(str(named), 60)}")
        if self.of_replies:
            classifier = self.styles if self.task.startswith("full_gen_bias") else self.offensiveness
            if re.search(r"\(digest [0-9a-f]{12}\)", classifier) is None:
                faults.append("no digest of the classifier")
            if not self.decoding:
                faults.append("no settings of replies")
            elif "sample" in self.decoding and not self.seed:
                faults.append("no seed")
        elif not self.likelihood:
            faults.append("no settings of the tests")
        if not self.release:
            faults.append("no release of holistic-bias")
        faults += [f"{part}, which is not published" for part in self.hidden]
        if self.unknown:
            faults.append(f"settings that this release does not know: {cleaned(', '.join(self.unknown), 60)}")
        return faults


def hub_model(words: str) -> str | None:
    """The Hub id in the words of the notes, of the adapter if there is one; `None`: it was not loaded from the Hub."""
    base, with_adapter, adapter = words.partition(", with adapter ")
    if with_adapter:
        match = re.match(r"([^\s,]+) \(commit [0-9a-f]{12}\)", adapter)
    else:
        match = re.match(r"commit [0-9a-f]{12} of ([^\s,]+)", base)
    return match[1] if match is not None and is_repo_id(match[1]) else None


def _set(name: str) -> Any:
    def read(notes: Notes, match: re.Match) -> None:
        setattr(notes, name, cleaned(match[1], MOST_LETTERS))

    return read


def _add(name: str) -> Any:
    def read(notes: Notes, match: re.Match) -> None:
        getattr(notes, name).append(cleaned(match[0], MOST_LETTERS))

    return read


def _skip(notes: Notes, match: re.Match) -> None:
    """Nothing that has to be shown."""


_DIGEST = re.compile(r"\b(digest|commit) ([0-9a-fA-F]{12})[0-9a-fA-F]{0,52}\b")
_COUNT = r"\d[\d,]{0,18}"
_NUMBER = r"[-+]?\d{1,18}(?:\.\d{1,18})?(?:e[-+]?\d{1,3})?"
# The parts of notes that run_figures.py and the measurements write, and what becomes of them.
_PARTS = {
    r"config (.+)": Notes.read_config,
    rf"({_NUMBER})% interval (\S+) to (\S+)": lambda notes, match: setattr(notes, "interval", match.groups()),
    r"model (.+)": lambda notes, match: setattr(notes, "model", match[1]),
    r"holistic-bias (\S+)": _set("release"),
    r"(sample of .+)": _set("sample"),
    r"styles classified by (.+)": _set("styles"),
    r"offensiveness classified by (.+)": _set("offensiveness"),
    rf"(×{_NUMBER}, ddof \d)": _set("scale"),
    rf"({_COUNT} of {_COUNT} replies), (threshold {_NUMBER})": lambda notes, match: notes.read_threshold(match),
    rf"{_NUMBER} replies a cell": _add("details"),
    rf"{_COUNT} (empty replies left out|prompts left out that cannot be the cue|cells without a reply|"
    r"templates skipped|prompts without a reply, since a thought was not over|tests skipped|terms left out)": _add(
        "details"
    ),
    rf"less a sampling noise of {_NUMBER}|sampling noise of about {_NUMBER} in it": _skip,
    r"its sampling noise is not known": _skip,
    rf"share of {_COUNT} tests with p < {_NUMBER}": _add("likelihood"),
    r"perplexity|pseudo-perplexity|without terms for one gender": _add("likelihood"),
    rf"dialogue perplexity ({_NUMBER})(?: \(({_NUMBER})% interval ({_NUMBER}) to ({_NUMBER})\))? over ({_COUNT}) "
    rf"tokens of ({_COUNT}) replies \(digest ([0-9a-f]{{12}})\)": Notes.read_dialogue,
    r"tag (.+)": _set("tag"),
    r"seed (\d{1,20})": _set("seed"),
    r"with a system prompt|with questions of one's own": _add("hidden"),
    r"with stylistic variations|sample": _add("decoding"),
    r"(context|cue|persona_lines|num_beams|temperature|top_k|top_p|min_new_tokens|max_new_tokens|max_reasoning_tokens|"
    r"chat_template_kwargs|reply) .+": _add("decoding"),
}
