from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hb_metrics.measurements.results import Run
from hb_metrics.run.replies import with_questions
from hb_metrics.run.tables import Vectors
from hb_train.tuning.labels import ROW_SCHEMA, write_splits

if TYPE_CHECKING:
    from hb_metrics.collect.replies.cues import Cue
    from hb_metrics.models.chats import ChatOptions
    from hb_metrics.models.loading import LoadedTokenizer

# The options are checked before transformers is imported, because the import takes seconds.


def tokenizer_of_run(run: Run, *, model: str | None, trust_remote_code: bool) -> "LoadedTokenizer":
    """Loads the tokenizer of the model that replied.

    `model` is the model's location, if the model has moved since the run.
    """
    from hb_metrics.models.loading import load_tokenizer
    from hb_metrics.models.sources import EMBEDDED, find_source

    name, digest = model or run.record.settings.model, run.record.model.digest
    in_files = bool(run.record.model.answered_in_files)
    if in_files and model is None:
        raise ValueError(
            "this run's replies come from files, so their model is unknown; set --model to the folder or Hub id of "
            "the model that replied"
        )
    # The digest of a Hub model is its commit. The main branch may have changed since the run.
    revision = None if in_files or name == EMBEDDED or Path(name).exists() else digest
    loaded = load_tokenizer(find_source(name, revision), trust_remote_code=trust_remote_code)
    if not in_files and loaded.digest != digest:
        raise ValueError(
            f"model '{name}' did not write these replies: its digest is {loaded.digest}, but the run's model has the "
            f"digest {digest}; set --model to the folder of the model that replied"
        )
    return loaded


def replies_to_label(run: Run, styles: Vectors) -> pa.Table:
    """Returns the replies that have style vectors, with the columns of their prompts.

    The replies are in the order of the vectors. As in the run's results, `template` includes the question that follows
    the template. `truncated` is also true if decoding ended a reply before the model did. The model must not learn from
    such a reply where to end, because its own replies would become shorter.
    """
    replies = run.tables.reply_table()
    rows = pc.index_in(pa.array(styles.ids), replies["id"])
    if rows.null_count or len(styles.ids) != run.results.generation.num_replies:
        raise ValueError(f"the style vectors in '{run.folder}' belong to other replies; measure again in a new folder")
    columns = ["id", "text", "personas", "reply", "truncated", "axis", "descriptor", "noun"]
    chosen = replies.take(rows)
    made = run.record.generation
    if made.end_after_sentence or (made.context == "chat" and made.reply == "first_line"):
        cut = pa.array(np.ones(len(chosen), bool))
        chosen = chosen.set_column(chosen.column_names.index("truncated"), "truncated", cut)
    questions = chosen["question"].to_pylist()
    templates = chosen["template"].to_pylist()
    if "own_id" in chosen.column_names:
        columns.append("system")
    else:
        templates = with_questions(templates, questions)
    more = {"question": pa.array(questions, pa.string()), "template": pa.array(templates, pa.string())}
    return pa.table({**{name: chosen[name] for name in columns}, **more})


class Asked(NamedTuple):
    loaded: "LoadedTokenizer"
    context: Any
    chat: "ChatOptions"
    cue: "Cue" = "prompt"


def write_rows(
    folder: Path, replies: pa.Table, values: np.ndarray, is_biased: np.ndarray, held_out: np.ndarray, asked: Asked
) -> str:
    """Writes both splits as rows of `ROW_SCHEMA`. Returns the text after the tag, which is the same in every prompt.

    `values` and `is_biased` are those of `tag_replies`.
    """
    from hb_metrics.models.layout import BIAS, NO_BIAS

    tagged = {tag: rendered_prompts(replies, asked, tag) for tag in (BIAS, NO_BIAS)}
    suffix = tagged[BIAS][0].rpartition(f" {BIAS}")[2]
    for row, prompt in enumerate(rendered_prompts(replies, asked, None)):
        for tag, prompts in tagged.items():
            if not prompt.endswith(suffix) or prompts[row] != f"{prompt.removesuffix(suffix)} {tag}{suffix}":
                raise ValueError(
                    f"in the context of prompt {replies['id'][row].as_py()}, the tag is not the user's last word, so "
                    "the tuned model could not use it; measure again with --context plain"
                )
    tags = [BIAS if biased else NO_BIAS for biased in is_biased]
    columns = {name: replies[name] for name in ("id", "axis", "descriptor", "noun", "template", "truncated")}
    columns["prompt"] = pa.array([tagged[tag][row] for row, tag in enumerate(tags)])
    columns["completion"], columns["tag"] = replies["reply"], pa.array(tags)
    columns["bias_value"] = pa.array(values)
    rows = pa.table([columns[name] for name in ROW_SCHEMA.names], schema=ROW_SCHEMA)
    write_splits(folder, rows, held_out)
    return suffix


def rendered_prompts(replies: pa.Table, asked: Asked, tag: str | None) -> list[str]:
    """Renders the model's input up to the start of each reply, with or without a tag.

    If a model thinks before it replies, its input ends with an empty thought, because thoughts are not learnt.
    """
    from hb_metrics.collect.replies.cues import cue_messages
    from hb_metrics.models.chats import with_system
    from hb_metrics.models.contexts import render_messages

    conversations = []
    for row in replies.to_pylist():
        question = None if asked.cue == "prompt" else row["question"]
        chat = with_system(asked.chat, row.get("system"))
        conversations.append(cue_messages(asked.cue, row["text"], question, row["personas"], chat, tag))
    return render_messages(
        conversations,
        asked.loaded.tokenizer,
        asked.context,
        is_encoder_decoder=asked.loaded.kind == "encoder-decoder",
        chat=asked.chat,
        thought=False,
    )
