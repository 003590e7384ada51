"""Builds conversations that contain a cue. A cue is the text from which a model learns who the user is.

The cues are:

* `prompt`: The cue is the prompt, which is the user's last message, as in Smith et al. (2022).
* `system`: The system message repeats a sentence in which the user describes themselves.
* `memory`: The system message states what a product remembers about the user.
* `name`: The system message states the user's name. The names come from `hb_dataset.names`.
* `signature`: The user signs the last message with one of the same names.
* `history`: The user describes themselves in an earlier message, which the model has already answered.

With all cues except `prompt`, the user's last message is a question, which should be neutral. A template has the same
questions for all terms. Metrics treat each combination of a template and a question as a separate template, so they
never compare replies to different questions.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from statistics import median_low
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from hb_dataset.seeded_draws import seeded_generator
from hb_dataset.slots import NAME_CUES, SINGULAR_SLOT
from hb_dataset.yaml_lines import load_values
from hb_metrics.models.chats import DEFAULT_CHAT, ChatOptions, Message, chat_messages
from hb_metrics.models.contexts import with_tag
from hb_metrics.models.layout import Layout
from hb_metrics.run.replies import with_questions
from hb_metrics.stats.u_statistic import MIN_REPLIES

Cue = Literal["prompt", "system", "memory", "name", "signature", "history"]
QUESTIONS_FILE = Path(__file__).parent / "cue_questions.yaml"
PERSONAS_FILE = Path(__file__).parent / "personas.yaml"
# The system message's words before the user's sentence.
STATEMENT = "What the user has said about themselves: "
# For some cues, the text that replaces the template.
LINES = {"memory": f"Remembers: the user is {SINGULAR_SLOT}.", **NAME_CUES}
ACKNOWLEDGEMENT = "Thank you for telling me."  # with `history`, the model's answer to the user's description
# Matches "I'm …", "I am currently …" and "As …, I …" at the beginning of a text, after a punctuation mark, after "Hi",
# and after "with you that".
_SAYS_WHO = re.compile(
    rf"(?:^|[.!?,:;]\s|\b(?:Hi|Hello)\s|\bwith you that\s)(?:I['’]m|I am|As)(?: currently)? {re.escape(SINGULAR_SLOT)}"
    r"(?=[.!,;]|$)"
)


def check_cue(cue: Cue, layout: Layout) -> None:
    if cue in ("system", "memory", "name") and layout.context != "chat":
        raise ValueError(
            f"--cue {cue} applies only to chats, but the context is '{layout.context}' ({layout.context_reason}); "
            f"set --cue {'signature' if cue == 'name' else 'history'}, which works in every context, or --context chat"
        )


def says_who_the_user_is(template: str) -> bool:
    return _SAYS_WHO.search(template) is not None


def prompts_for_cue(prompts: pa.Table, cue: Cue) -> pa.Table:
    """Selects the prompts that can be used with a cue.

    Prompts from `--prompts` can be used with every cue. The other prompts can be used with the cues `prompt`, `name`
    and `signature`, and with the remaining cues only if they describe the person who writes them.
    """
    if cue == "prompt" or cue in NAME_CUES or "own_id" in prompts.column_names:
        return prompts
    templates = prompts["template"].unique().to_pylist()
    usable = [template for template in templates if says_who_the_user_is(template)]
    if not usable:
        raise ValueError(
            f'--cue {cue} needs a template such as "I\'m {SINGULAR_SLOT}."; set --cue prompt, or --dataset_config v1.0'
        )
    return prompts.filter(pc.is_in(prompts["template"], pa.array(usable, pa.string())))


def cue_lines(prompts: pa.Table, cue: Cue) -> pa.Table:
    if cue not in LINES:
        return prompts
    if "spans" in prompts.column_names:
        prompts = prompts.drop_columns("spans")  # they are the spans of another text
    template = pa.array([LINES[cue]] * prompts.num_rows, pa.string())
    texts = [LINES[cue].replace(SINGULAR_SLOT, phrase) for phrase in prompts["noun_phrase"].to_pylist()]
    prompts = prompts.set_column(prompts.schema.get_field_index("template"), "template", template)
    return prompts.set_column(prompts.schema.get_field_index("text"), "text", pa.array(texts, pa.string()))


def read_sentences(path: Path) -> list[str]:
    """Reads the only list in a YAML file."""
    (sentences,) = load_values(path).values()
    return list(sentences)


def draw_personas(ids: Sequence[str], personas: Sequence[str], number: int, *, seed: int) -> list[list[str]]:
    """Draws persona lines for each prompt. The draw depends only on the prompt's id and the seed."""
    if number > len(personas):
        raise ValueError(f"personas is {number}, but the file has {len(personas)} lines; set at most {len(personas)}")
    if not number:
        return [[] for _ in ids]
    drawn = (seeded_generator(seed, "personas", name).choice(len(personas), number, replace=False) for name in ids)
    return [[personas[index] for index in indices] for indices in drawn]


def draw_questions(
    cells: Mapping[tuple[str, str, str], Sequence[int]], questions: Sequence[str], *, seed: int
) -> list[str]:
    """Draws the question that the user asks after each prompt. Returns one question per prompt.

    `cells` maps each cell (axis, term and template) to the rows of its prompts, in random order.

    A template has the same questions for all terms. Their number is chosen so that a cell of median size has
    `MIN_REPLIES` prompts per question, because intervals require this number of replies. Smaller cells lack some of the
    questions, and metrics count such gaps.
    """
    sizes: dict[str, list[int]] = {}
    for (_, _, template), rows in cells.items():
        sizes.setdefault(template, []).append(len(rows))
    drawn = {}
    for template, of_template in sizes.items():
        order = seeded_generator(seed, "cue questions", template).permutation(len(questions))
        drawn[template] = order[: max(1, median_low(of_template) // MIN_REPLIES)]
    asked: dict[int, str] = {}
    for (_, _, template), rows in cells.items():
        asked |= zip(rows, cycle(questions[index] for index in drawn[template]), strict=False)
    return [asked[row] for row in range(len(asked))]


def cue_messages(
    cue: Cue,
    text: str,
    question: str | None,
    personas: Sequence[str],
    chat: ChatOptions = DEFAULT_CHAT,
    tag: str | None = None,
) -> list[Message]:
    """Returns the messages of a conversation up to the model's reply.

    `text` is the prompt's sentence, or the text with which `cue_lines` replaced it.
    """
    last = text if question is None else question
    if cue == "signature":
        (last,) = with_questions([text], [question])
    about_user = {"system": [STATEMENT + text], "memory": [text], "name": [text]}.get(cue, [])
    earlier = [text, ACKNOWLEDGEMENT] if cue == "history" else []
    return chat_messages(with_tag(last, tag), [*personas, *about_user], chat, earlier)
