"""Reads a finished run as pandas frames. `schema.COLUMNS` describes each column, and docs/run-tables.md lists them.

As a command, prints a run's replies with the highest values in a column, such as the most offensive ones. They can
hurt.

    holistic-bias replies runs/gpt2 --term Muslim --worst 10 --by offensive
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hb_dataset.command_line import CommandParser, check_known, did_you_mean
from hb_metrics.collect.judges.rubric import Rubric
from hb_metrics.measurements.decisions.answers import read_answers
from hb_metrics.measurements.offensiveness.compute import answered
from hb_metrics.measurements.results import read_run
from hb_metrics.run.replies import verdicts, with_questions
from hb_metrics.run.run_folder import (
    BIAS_VALUES_FILE,
    JUDGE_FOLDER,
    OFFENSIVE_REPLIES,
    OWN_PROMPTS_FILE,
    PERPLEXITIES,
    REFUSALS_FILE,
    REPLIES,
    STYLES,
)
from hb_metrics.run.schema import COLUMNS, PERPLEXITY_SCHEMA, REPLY_SCHEMA
from hb_metrics.run.tables import Tables

if TYPE_CHECKING:
    import pandas as pd


class RunTables:
    """The tables of a finished run. Each attribute is a frame, which is read when it is first used.

    A judge's rubric adds a column with its name to `replies`: the label that the judge chose.

    Args:
        folder: The run's folder.

    Attributes:
        settings: The run's options, by name.
        record: All settings on which the results depend (see `Record`).
        results: The results of all measurements (see `Results`).

    Raises:
        ValueError: The folder contains no finished run, or one of its files is missing or damaged.
    """

    def __init__(self, folder: str | Path) -> None:
        self._run = read_run(Path(folder))
        self.folder, self.results, self.record = self._run.folder, self._run.results, self._run.record
        self.settings: dict[str, Any] = self.record.content["settings"]

    @cached_property
    def prompts(self) -> "pd.DataFrame":
        """A row per prompt of the run."""
        frame = self._run.tables.prompts().to_pandas()
        frame = frame.rename(columns={"id": "prompt_id", "bucket": "group", "text": "prompt"})
        return _documented(frame, "prompts")

    @cached_property
    def own_prompts(self) -> "pd.DataFrame":
        """A row per row of the file in `--prompts`, with all of its columns as text."""
        if self.settings["prompts"] is None:
            raise ValueError(f"'{self.folder}' has no prompts of your own; measure with --prompts")
        return self._run.tables.read(OWN_PROMPTS_FILE).to_pandas()

    @cached_property
    def decisions(self) -> "pd.DataFrame":
        """A row per answer to a prompt that asks for a decision."""
        import pandas as pd

        self._check_measured("decisions", "decisions")
        prompts, answers = read_answers(self._run)
        of_prompt = {prompt.id: (prompt.question, prompt.topic) for prompt in prompts}
        rows = [(row.own_id, *of_prompt[row.own_id], *row[1:]) for row in answers]
        return _documented(pd.DataFrame(rows, columns=_names("decisions")), "decisions")

    @cached_property
    def perplexities(self) -> "pd.DataFrame":
        """A row per scored sentence."""
        self._check_measured("likelihood", "perplexities")
        scores = self._run.tables.read(PERPLEXITIES, PERPLEXITY_SCHEMA.names).to_pandas()
        return _documented(scores.rename(columns={"text": "prompt"}), "perplexities")

    @cached_property
    def replies(self) -> "pd.DataFrame":
        """A row per reply, at every turn, with all that was measured of it."""
        import pandas as pd

        self._check_measured("generation", "replies")
        turns = [self._turn(turn) for turn in range(1, self.results.generation.num_turns + 1)]
        return pd.concat(turns, ignore_index=True)

    @cached_property
    def styles(self) -> "pd.DataFrame":
        """A row per reply of the first turn, and a column per style: the probabilities. The index is the reply's id."""
        self._check_measured("generation", "styles")
        return self._styles(1)

    @cached_property
    def figures(self) -> "pd.DataFrame":
        """A row per figure in the report."""
        import pandas as pd

        from hb_metrics.layout.figure import EXPORTED
        from hb_metrics.measurements import MEASUREMENTS

        rows = []
        for measurement in MEASUREMENTS:
            for figure in measurement.figures(self.results):
                low, high = figure.interval or (None, None)
                part = figure.label if figure.part_of else None
                rows.append((figure.name, part, figure.value, low, high, EXPORTED[figure.unit], figure.no_interval))
        return _documented(pd.DataFrame(rows, columns=_names("figures")), "figures")

    def worst(self, term: str | None = None, by: str = "offensive", number: int = 10) -> "pd.DataFrame":
        """Returns the replies with the highest values in a column of `replies`.

        Args:
            term: The descriptor to whose prompts the model replied. `None` selects all descriptors.
            by: A numeric column of `replies`, such as "offensive" or "bias_value".
            number: The number of replies.

        Raises:
            ValueError: The term or the column is unknown, no reply has a value in the column, or `number` is not
                positive.
        """
        if number < 1:
            raise ValueError(f"the number of replies is {number}; pass 1 or more")
        replies = self.replies
        numeric = [column.name for column in COLUMNS["replies"] if column.type == "double"]
        check_known(by, numeric, f"by is '{by}'")
        others = ", ".join(name for name in numeric if replies[name].notna().any())
        if term is not None:
            known = replies["descriptor"].unique().tolist()
            if term not in known:  # the terms are not listed, because some of them hurt
                raise ValueError(
                    f"term is '{term}', and the run has no replies about it; {did_you_mean(term, known)}the column "
                    "descriptor of prompts.parquet contains all terms"
                )
            replies = replies[replies["descriptor"] == term]
        replies = replies.dropna(subset=[by])
        if replies.empty:
            raise ValueError(
                f"no reply has a value in the column '{by}'; measure it (offensive: add offensiveness to "
                f"--measurements), or set by to one of these columns: {others}"
            )
        return replies.nlargest(number, by)

    def _check_measured(self, measurement: str, what: str) -> None:
        if measurement not in self.results.measured:
            raise ValueError(f"'{self.folder}' has no {what}; measure with --measurements {measurement}")

    def _turn(self, turn: int) -> "pd.DataFrame":
        import pandas as pd

        tables = self._run.tables.turn(turn)
        frame = tables.read(REPLIES, REPLY_SCHEMA.names).to_pandas()
        styles = self._styles(turn)
        likeliest = pd.DataFrame({"style": styles.idxmax(axis=1), "style_probability": styles.max(axis=1)})
        frame = frame.rename(columns={"text": "prompt"}).join(likeliest, on="id")
        for name, columns in ((BIAS_VALUES_FILE, ["bias_value"]), (REFUSALS_FILE, ["refusal", "disclaimer"])):
            measured = tables.read(name, ("id", *columns)).to_pandas().set_index("id") if turn == 1 else None
            for column in columns:
                frame[column] = frame["id"].map({} if measured is None else measured[column])
        frame["offensive"] = frame["id"].map(self._offensive(tables))
        frame = _documented(frame, "replies")
        for rubric in self.record.judge if turn == 1 and "judge" in self.results.measured else []:
            frame[f"judge_{rubric}"] = frame["id"].map(self._labels(rubric))
        return frame

    def _styles(self, turn: int) -> "pd.DataFrame":
        import pandas as pd

        ids, values = self._run.tables.turn(turn).vectors(STYLES)
        labels = self.record.style_classifier.labels
        return pd.DataFrame(values, index=pd.Index(ids, name="id"), columns=labels)

    def _offensive(self, tables: Tables) -> dict[str, float]:
        if not tables.has(OFFENSIVE_REPLIES):
            return {}
        ids, values = tables.vectors(OFFENSIVE_REPLIES)
        known = answered(values, self.record.offensiveness_classifier)
        return dict(compress(zip(ids, values[:, 0].tolist(), strict=True), known))

    def _labels(self, rubric: str) -> dict[str, str]:
        """Returns the label of each reply. Replies without an answer, or with a tie, have none."""
        ids, values = self._run.tables.vectors(f"{JUDGE_FOLDER}/{rubric}")
        labels = Rubric(**self.record.judge[rubric].rubric).labels
        chosen = zip(ids, verdicts(values[:, :-1]).tolist(), (values[:, -1] == 0).tolist(), strict=True)
        return {identifier: labels[label] for identifier, label, answered in chosen if answered and label >= 0}


def _names(table: str) -> list[str]:
    return [column.name for column in COLUMNS[table]]


def _documented(frame: "pd.DataFrame", table: str) -> "pd.DataFrame":
    """Selects the columns of a table in `COLUMNS`, with their types, which must not depend on the values of a run."""
    types = {column.name: column.type for column in COLUMNS[table] if column.type != "string"}
    return frame[_names(table)].astype(types)


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(description="Print a run's replies with the highest values in a column.")
    parser.add_argument("run", type=Path, metavar="RUN", help="The folder of a finished run.")
    parser.add_argument("--term", help="Show only replies about this term. Default: all terms.")
    parser.add_argument("--worst", type=int, default=10, help="The number of replies. Default: %(default)s.")
    parser.add_argument(
        "--by",
        default="bias_value",
        help="A numeric column of the replies: bias_value, offensive, style_probability or num_tokens. "
        "Default: %(default)s.",
    )
    parser.add_argument("--csv", type=Path, help="Also write these replies, with all columns, into this file.")
    arguments = parser.parse_args(argv)
    shown = RunTables(arguments.run).worst(arguments.term, arguments.by, arguments.worst)
    if arguments.csv is not None:
        shown.to_csv(arguments.csv, index=False)
    for row in shown.to_dict("records"):
        print(f"{row[arguments.by]:.4g}  {row['descriptor']} ({row['axis']}), {row['style']}, {row['id']}")
        question = row["question"] if isinstance(row["question"], str) else None  # pandas may write NaN
        print(f"  > {with_questions([row['prompt']], [question])[0]}\n  {row['reply']}\n")
