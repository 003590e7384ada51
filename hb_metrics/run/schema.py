"""Describes the columns of a run's tables. docs/run-tables.md shows them.

Rows about a prompt name its term, noun and template, so that nobody has to join tables.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from hb_dataset.prompt_columns import VARIATIONS

R = TypeVar("R")


class Column(NamedTuple):
    name: str
    type: str
    unit: str
    meaning: str


PROBABILITIES = "probabilities"  # a column of lists, which have the same length in all rows
# Columns of several tables.
_GROUP = Column("group", "string", "", "the term's bucket, or a name's group")
_NOUN = Column("noun", "string", "", "the noun of the noun phrase")
_SENTENCE = Column("prompt", "string", "", "the sentence")
_TURN = Column("turn", "int64", "", "the turn of the conversation, counted from 1")
_REPLY_ID = Column("id", "string", "", "the reply's id: the prompt's id, and a number if a prompt has several replies")
_QUESTION = Column("question", "string", "", "the user's question after a cue; missing if the cue is the prompt")
_REPLY = Column("reply", "string", "", "the reply, perhaps only its first line; missing if it is empty")
_REASONING = Column("reasoning", "string", "", "the model's thought before the reply; missing if it did not think")
_SCORES = (
    Column("perplexity", "double", "exp(nats per token)", "the sentence's perplexity or pseudo-perplexity"),
    Column("log_likelihood", "double", "nats", "its log-likelihood, summed over the predicted tokens"),
    Column("num_tokens", "int64", "tokens", "the number of predicted tokens"),
)
OF_PROMPT = (
    Column("prompt_id", "string", "", "the prompt's id in the dataset"),
    Column("axis", "string", "", "the demographic axis"),
    Column("descriptor", "string", "", "the term"),
    _GROUP,
    _NOUN,
    Column("template", "string", "", "the sentence with a slot for the noun phrase"),
)
COLUMNS = {
    "prompts": (*OF_PROMPT, _SENTENCE),
    "perplexities": (*OF_PROMPT, _SENTENCE, *_SCORES),
    "replies": (
        _REPLY_ID,
        _TURN,
        *OF_PROMPT,
        Column("prompt", "string", "", "the user's sentence; at later turns, the follow-up question"),
        _QUESTION,
        _REPLY,
        _REASONING,
        Column("num_tokens", "double", "tokens", "the reply's length; missing if unknown"),
        Column("truncated", "object", "", "whether the reply was cut at its maximum length; missing if unknown"),
        Column("style", "string", "", "the likeliest style"),
        Column("style_probability", "double", "probability", "its probability"),
        Column("bias_value", "double", "", "the bias value b with α = 0 (Smith et al., 2022, C.1); only at turn 1"),
        Column("refusal", "object", "", "whether a rule of refusals matches; only at turn 1"),
        Column("disclaimer", "object", "", "whether a rule of disclaimers matches; only at turn 1"),
        Column("offensive", "double", "probability", "the probability of being offensive"),
    ),
    "decisions": (
        Column("id", "string", "", "the id of the prompt in the file of prompts"),
        Column("question", "string", "", "the question of which the prompt is a wording"),
        Column("topic", "string", "", "the topic; missing if the file has none"),
        Column("axis", "string", "", "the axis; missing if the prompt is about no term"),
        Column("descriptor", "string", "", "the term or the name"),
        _GROUP,
        _NOUN,
        Column("order", "int64", "", "1 if the options were listed in reverse order"),
        Column("decision", "double", "", "the decision from 0 to 1 (favourable); missing if the answer contains none"),
        Column("refusal", "bool", "", "whether the answer is a refusal"),
        Column("option_mass", "double", "probability", "the options' total probability; missing for replies"),
        Column("prompt", "string", "", "the filled prompt"),
        Column("answer", "string", "", "the reply, or the probability of each option"),
    ),
    "figures": (
        Column("name", "string", "", "the figure's name, as in the report"),
        Column("axis", "string", "", "the described part of the run; missing for the whole run"),
        Column("value", "double", "the column `unit`", "the value; missing if unknown"),
        Column("low", "double", "the column `unit`", "the interval's end; missing without an interval"),
        Column("high", "double", "the column `unit`", "the interval's end; missing without an interval"),
        Column("unit", "string", "", "share, bias (×1000), mean, effect, nats or count"),
        Column("reason", "string", "", "why the figure has no interval"),
    ),
}
_PROMPT_TEXT = Column("text", "string", "", "the sentence that the model read; at later turns, the follow-up question")
_NUM_TOKENS = Column("num_tokens", "int64", "tokens", "the reply's length; missing if unknown")
_IS_CUT = Column("truncated", "bool", "", "whether the reply was cut at its maximum length; missing if unknown")
_PROBABILITIES = "the probability of each label; the last number of a judge is 1 if it gave no answer"
# The columns of the files in a run's folder, by the path of the files.
FILES = {
    "perplexities/*.parquet": (
        Column("id", "string", "", "the prompt's id"),
        *OF_PROMPT,
        _PROMPT_TEXT,
        *_SCORES,
    ),
    "replies/*.parquet": (
        _REPLY_ID,
        *OF_PROMPT,
        _TURN,
        _PROMPT_TEXT,
        _QUESTION,
        Column("personas", "list<string>", "", "the persona lines before the prompt"),
        *(Column(name, "bool", "", "whether this variation was applied (the paper's A.3)") for name in VARIATIONS),
        _REPLY,
        _NUM_TOKENS,
        _IS_CUT,
        _REASONING,
        Column("num_reasoning_tokens", "int64", "tokens", "the thought's length, including its marks"),
        Column("reasoning_unclosed", "bool", "", "whether the thought was cut, so there is no reply"),
        Column("invented_turn", "bool", "", "whether text after the model's turn was removed"),
    ),
    "regard/continuations/*.parquet": (
        _REPLY_ID,
        *OF_PROMPT,
        _TURN,
        _PROMPT_TEXT,
        Column("seed_index", "int64", "", "the seed's number"),
        Column("continuation", "string", "", "missing if empty"),
        _NUM_TOKENS,
        _IS_CUT,
    ),
    "style_probabilities/*.parquet, offensiveness/replies/*.parquet, judge/*/*.parquet, "
    "regard/regard_probabilities/*.parquet": (
        Column("id", "string", "", "the reply's id"),
        *OF_PROMPT,
        _TURN,
        Column(PROBABILITIES, "list<float>", "probability", _PROBABILITIES),
        Column("truncated", "bool", "", "whether the reply was cut for the classifier"),
    ),
}
_TYPES = {"string": pa.string(), "double": pa.float64(), "int64": pa.int64(), "bool": pa.bool_()}
_TYPES["list<string>"] = pa.list_(pa.string())


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([(column.name, _TYPES[column.type]) for column in columns])


OF_PROMPT_SCHEMA = arrow_schema(OF_PROMPT)
PERPLEXITY_SCHEMA = arrow_schema(FILES["perplexities/*.parquet"])
REPLY_SCHEMA = arrow_schema(FILES["replies/*.parquet"])
# Columns with the same name have the same type in all files.
_MORE = (
    "bucket",
    "option",
    "form",
    "structure",
    "verb_phrase",
    "descriptor_plural",
    "noun_gender",
    "own_id",
    "outcome",
    "favourable",
    "phrase",
    "neutral",
)
TYPE_OF = dict.fromkeys(_MORE, pa.string()) | {
    column.name: _TYPES[column.type]
    for columns in (*COLUMNS.values(), *FILES.values())
    for column in columns
    if column.type in _TYPES
}


def as_written(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Returns a column with the type that `measure` writes. Programs such as pandas and polars write other types.

    Returns `None` if the values cannot be converted without loss. Texts are not read as numbers, nor numbers as texts.
    """
    plain = _plain_type(column.type)
    target = TYPE_OF.get(name, plain)
    if name == PROBABILITIES and not pa.types.is_fixed_size_list(plain):
        if not pa.types.is_list(plain) or not len(column):
            return None
        target = pa.list_(plain.value_type, pc.max(pc.list_value_length(column)).as_py() or 0)
    elif plain not in (target, pa.null(), pa.list_(pa.null())) and not (_is_number(plain) and _is_number(target)):
        return None
    try:
        return column if column.type == target else column.cast(plain).cast(target)
    except pa.ArrowException:
        return None


def _plain_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(type_):
        return _plain_type(type_.value_type)
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return pa.string()
    if pa.types.is_large_list(type_) or pa.types.is_list(type_):
        return pa.list_(_plain_type(type_.value_type))
    return type_


def _is_number(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or pa.types.is_floating(type_)


def rows_of(table: pa.Table, kind: type[R]) -> list[R]:
    """Reads rows as instances of a NamedTuple, whose fields are columns of the table."""
    whole: Any = kind
    return [whole(*row) for row in zip(*(table[name].to_pylist() for name in whole._fields), strict=True)]


def by_id(table: pa.Table, column: str) -> dict[str, Any]:
    return dict(zip(table["id"].to_pylist(), table[column].to_pylist(), strict=True))


def about_prompts(prompts: pa.Table) -> pa.Table:
    """Returns the columns `OF_PROMPT` of prompts. A column that the prompts do not have is null."""
    own = {"prompt_id": "id", "group": "bucket"}
    columns = {}
    for name in OF_PROMPT_SCHEMA.names:
        source = own.get(name, name)
        columns[name] = prompts[source] if source in prompts.column_names else pa.nulls(len(prompts), pa.string())
    return pa.table(columns, schema=OF_PROMPT_SCHEMA)


def about_replies(replies: pa.Table, ids: Sequence[str]) -> pa.Table:
    """Returns the columns `OF_PROMPT` and `turn` of the replies with these ids."""
    columns = replies.select([*OF_PROMPT_SCHEMA.names, "turn"])
    return columns.take(pc.index_in(pa.array(ids, pa.string()), replies["id"]))
