"""The rows of labels: a run's replies, each with the prompt that the model was given and the tag as its last word."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hb_dataset.whole_files import write_atomically
from hb_metrics.runs.finished_run import Run, StyleShards, read_bias_values, read_reply_table
from hb_metrics.runs.replies import questions_of, with_questions
from hb_train.tuning.labels import ROW_SCHEMA, SPLITS, Labels, split_path

if TYPE_CHECKING:
    from hb_metrics.inference.models.chats import ChatOptions
    from hb_metrics.inference.models.loading import LoadedTokenizer
    from hb_metrics.inference.replies.cues import Cue

# transformers takes seconds to import: not before the options are known to be right.

_BATCH = 2048

NO_GENERATION_ERROR = "run '{folder}' has no replies; measure with --measurements generation first"
OTHER_ROWS_ERROR = "the style vectors in '{folder}' are of other replies than those beside them; measure again"
NO_MODEL_ERROR = "the model that replied is needed for its tokenizer; give its folder with --model. {error}"
NO_DIGEST_ERROR = (
    "the replies of this run are from files, which do not say what model gave them; give the folder or Hub id of that "
    "model with --model"
)
OTHER_MODEL_ERROR = (
    "model '{name}' is not the one that replied (its digest is {here}, that of the run {there}); give its folder with "
    "--model"
)
TAG_POSITION_ERROR = (
    "in the context of prompt {id} the tag is not the last word of the user, so the model could not be asked with "
    "it; use another --context when measuring"
)


def tokenizer_of_run(run: Run, *, model: str | None, trust_remote_code: bool) -> "LoadedTokenizer":
    """Loads the tokenizer of the model that replied.

    Args:
        run: The run.
        model: Where the model is now; `None`: where it was when it replied. Believed where replies are from files.
        trust_remote_code: Whether code that comes with the model may run.

    Raises:
        OSError: The model is not there.
        ValueError: It is not the model that replied, or is not known, because the replies are from files.
    """
    from hb_metrics.inference.models.loading import load_tokenizer
    from hb_metrics.inference.models.sources import EMBEDDED, find_source

    record = run.results["run"]
    if record["model"].get("answered_in_files"):
        if model is None:
            raise ValueError(NO_DIGEST_ERROR)
        return load_tokenizer(find_source(model), trust_remote_code=trust_remote_code)
    name, digest = model or record["settings"]["model"], record["model"]["digest"]
    adapter = record["model"].get("adapter", {})
    if name == adapter.get("name"):  # it was given as the model
        name = record["model"]["name"]
    # The digest of a Hub id is the commit; its main branch may have moved on since.
    revision = None if name == EMBEDDED or Path(name).exists() else digest
    try:
        source = find_source(
            name,
            revision,
            adapter=adapter.get("name"),
            adapter_revision=adapter.get("revision"),
            gguf_file=None if Path(name).is_file() else record["model"].get("gguf_file"),
        )
        loaded = load_tokenizer(source, trust_remote_code=trust_remote_code)
    except OSError as error:
        raise OSError(NO_MODEL_ERROR.format(error=error)) from error
    if loaded.digest != digest:
        raise ValueError(OTHER_MODEL_ERROR.format(name=name, here=loaded.digest, there=digest))
    return loaded


def replies_to_label(run: Run, styles: StyleShards) -> pa.Table:
    """The replies that have style vectors, in the order of these, with the columns of their prompts.

    As in the run's results, a template that a question follows includes the question. `truncated` is also true of
    replies that decoding ended where the model might have gone on: to learn an end there would change what it says.

    Raises:
        ValueError: The replies are not there, or not those of the style vectors.
    """
    replies = read_reply_table(run.folder)
    if replies is None:
        raise ValueError(NO_GENERATION_ERROR.format(folder=run.folder))
    rows = pc.index_in(pa.array(styles.ids), replies["id"])
    if rows.null_count or len(styles) != run.results["generation"]["num_replies"]:
        raise ValueError(OTHER_ROWS_ERROR.format(folder=run.folder))
    columns = ("id", "text", "personas", "reply", "truncated", "axis", "descriptor", "noun")
    chosen = replies.take(rows)
    if _ended_by_decoding(run.results["run"]["generation"]):
        cut = pa.array(np.ones(len(chosen), bool))
        chosen = chosen.set_column(chosen.column_names.index("truncated"), "truncated", cut)
    questions = questions_of(chosen)
    templates = with_questions(chosen["template"].to_pylist(), questions)
    more = {"question": pa.array(questions, pa.string()), "template": pa.array(templates, pa.string())}
    return pa.table({**{name: chosen[name] for name in columns}, **more})


def _ended_by_decoding(generation: Mapping[str, Any]) -> bool:
    """Whether replies end after a sentence or a line, and a chat goes on until the model ends its turn."""
    in_chat = generation["context"] == "chat"
    return bool(generation.get("end_after_sentence")) or (in_chat and generation.get("reply") == "first_line")


def stored_bias_values(run: Run, styles: StyleShards) -> np.ndarray:
    """[replies] the bias values with α = 0, which the run has computed from all of its replies.

    Raises:
        ValueError: They are not there, of another run, or not of the replies that have style vectors.
    """
    stored = read_bias_values(run)
    if stored["id"].to_pylist() != styles.ids:
        raise ValueError(OTHER_ROWS_ERROR.format(folder=run.folder))
    values: np.ndarray = stored["bias_value"].to_numpy()
    return values


def write_rows(
    folder: Path,
    replies: pa.Table,
    labels: Labels,
    held_out: np.ndarray,
    loaded: "LoadedTokenizer",
    context: Any,
    chat: "ChatOptions | None" = None,
    cue: "Cue" = "prompt",
) -> str:
    """Writes the splits, rows of `ROW_SCHEMA`.

    Args:
        folder: The folder of labels.
        replies: [replies] as of `replies_to_label`.
        labels: Their tags.
        held_out: [replies] whether a reply is in the validation split.
        loaded: The tokenizer of the model that replied.
        context: The format of the prompts that it was given.
        chat: What its chat template was given beside the prompt; `None`: nothing.
        cue: Where it was told who the user is.

    Returns:
        The text after the tag, which is the same in every prompt.

    Raises:
        ValueError: In some prompt the tag is not the last word of the user.
    """
    suffix = text_after_tag(replies, loaded, context, chat, cue)
    for split, in_split in zip(SPLITS, (~held_out, held_out), strict=True):
        indices = np.flatnonzero(in_split)

        def write(scratch: Path, indices: np.ndarray = indices) -> None:
            with pq.ParquetWriter(scratch, ROW_SCHEMA, compression="zstd") as writer:
                for rows in _rows(replies, labels, indices, loaded, context, suffix, chat, cue):
                    writer.write_table(rows)

        path = split_path(folder, split)
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, write)
    return suffix


def text_after_tag(
    replies: pa.Table,
    loaded: "LoadedTokenizer",
    context: Any,
    chat: "ChatOptions | None" = None,
    cue: "Cue" = "prompt",
) -> str:
    """The text after the tag in the first prompt; `write_rows` raises if it is another one in any other prompt."""
    from hb_metrics.inference.models.bias_tags import BIAS

    (prompt,) = rendered_prompts(replies.slice(0, 1), loaded, context, BIAS, chat, cue)
    return prompt.rpartition(f" {BIAS}")[2]


def rendered_prompts(
    replies: pa.Table,
    loaded: "LoadedTokenizer",
    context: Any,
    tag: str | None,
    chat: "ChatOptions | None" = None,
    cue: "Cue" = "prompt",
) -> list[str]:
    """The prompts of replies as the model is given them up to where its reply begins, with a tag or without.

    Where it would think before it replies, the thought is there, empty and over: what it thought is not learnt.
    """
    from hb_metrics.inference.models.chats import DEFAULT_CHAT
    from hb_metrics.inference.models.contexts import render_messages
    from hb_metrics.inference.replies.cues import cue_messages

    chat = chat or DEFAULT_CHAT
    conversations = [
        cue_messages(cue, row["text"], None if cue == "prompt" else row["question"], row["personas"], chat, tag)
        for row in replies.to_pylist()
    ]
    is_encoder_decoder = loaded.kind == "encoder-decoder"
    return render_messages(
        conversations, loaded.tokenizer, context, is_encoder_decoder=is_encoder_decoder, chat=chat, thought=False
    )


def _rows(
    replies: pa.Table,
    labels: Labels,
    indices: np.ndarray,
    loaded: "LoadedTokenizer",
    context: Any,
    suffix: str,
    chat: "ChatOptions | None",
    cue: "Cue",
) -> Iterator[pa.Table]:
    """Rows in batches, their tags checked to be the last words of the user."""
    from hb_metrics.inference.models.bias_tags import BIAS, NO_BIAS

    for first in range(0, len(indices), _BATCH):
        batch = indices[first : first + _BATCH]
        part = replies.take(pa.array(batch))
        tags = [BIAS if biased else NO_BIAS for biased in labels.is_biased[batch]]
        untagged = rendered_prompts(part, loaded, context, None, chat, cue)
        by_tag = {tag: rendered_prompts(part, loaded, context, tag, chat, cue) for tag in (BIAS, NO_BIAS)}
        for row, prompt in enumerate(untagged):
            for tag, tagged in by_tag.items():
                if not prompt.endswith(suffix) or tagged[row] != f"{prompt.removesuffix(suffix)} {tag}{suffix}":
                    raise ValueError(TAG_POSITION_ERROR.format(id=part["id"][row].as_py()))
        columns = {name: part[name] for name in ("id", "axis", "descriptor", "noun", "template", "truncated")}
        columns["prompt"] = pa.array([by_tag[tag][row] for row, tag in enumerate(tags)])
        columns["completion"], columns["tag"] = part["reply"], pa.array(tags)
        columns["bias_value"] = pa.array(labels.values[batch])
        yield pa.table([columns[name] for name in ROW_SCHEMA.names], schema=ROW_SCHEMA)
