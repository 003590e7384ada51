"""Cues: the parts of a conversation from which a model learns who the user is.

* `prompt`: the prompt itself, the user's last turn, as in Smith et al. (2022).
* `system`: the system message of a chat, which repeats the user's description of themselves.
* `memory`: the system message, as a line that a product remembers about the user.
* `name`: the system message, as the user's name; the prompts are those of `hb_dataset.names`.
* `signature`: the user's last turn, as the user's name under the question; the prompts are those of `name`.
* `history`: an earlier turn, which the model has acknowledged.

With all cues except `prompt`, the user asks a neutral question, and only names and sentences in which users describe
themselves can be cues. Within a template, the questions are the same for all terms. Metrics treat a template and a
question as one template, so replies to different questions are never compared.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median_low
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from hb_dataset.names import NAME_CUES
from hb_dataset.seeded_draws import seeded_generator
from hb_dataset.vocabulary_entries import SINGULAR_SLOT
from hb_metrics.inference.models.chats import DEFAULT_CHAT, ChatOptions, Message, chat_messages
from hb_metrics.inference.models.contexts import ContextFormat, read_sentences, with_tag
from hb_metrics.runs.replies import with_questions
from hb_metrics.stats.bias_variance import MIN_REPLIES

Cue = Literal["prompt", "system", "memory", "name", "signature", "history"]
QUESTIONS_FILE = Path(__file__).parent / "cue_questions.yaml"
# Comes before the template's sentence in the system message.
STATEMENT = "What the user has said about themselves: "
# Cue → the text that replaces the sentence.
LINES = {"memory": f"Remembers: the user is {SINGULAR_SLOT}.", **NAME_CUES}
ACKNOWLEDGEMENT = "Thank you for telling me."  # the model's answer to the sentence, which was an earlier turn
# "I'm …", "I am currently …" or "As …, I …", at the beginning, after a punctuation mark, after "Hi", or after "share
# with you that".
_SAYS_WHO = re.compile(
    rf"(?:^|[.!?,:;]\s|\b(?:Hi|Hello)\s|\bwith you that\s)(?:I['’]m|I am|As)(?: currently)? {re.escape(SINGULAR_SLOT)}"
    r"(?=[.!,;]|$)"
)


def check_cue(cue: Cue, context: ContextFormat, reason: str) -> None:
    if cue in ("system", "memory", "name") and context != "chat":
        raise ValueError(
            f"--cue {cue} applies only to chats, but the context is '{context}' ({reason}); set --cue "
            f"{'signature' if cue == 'name' else 'history'}, which works in every context, or --context chat"
        )


def says_who_the_user_is(template: str) -> bool:
    """Returns whether users describe themselves in a template ("I'm …", "I am …", "I'm currently …" or "As …, I …")."""
    return _SAYS_WHO.search(template) is not None


def prompts_for_cue(prompts: pa.Table, cue: Cue) -> pa.Table:
    """Selects the prompts that can be cues: all for `prompt` or names, and otherwise users' own descriptions."""
    if cue == "prompt" or cue in NAME_CUES:
        return prompts
    templates = prompts["template"].unique().to_pylist()
    usable = [template for template in templates if says_who_the_user_is(template)]
    if not usable:
        raise ValueError(
            f'--cue {cue} needs a template in which users describe themselves, such as "I\'m {SINGULAR_SLOT}.", but '
            f"none of the {len(templates)} templates is of this kind; set another --dataset_config, add such a "
            "template, or set --cue prompt"
        )
    return prompts.filter(pc.is_in(prompts["template"], pa.array(usable, pa.string())))


def cue_lines(prompts: pa.Table, cue: Cue) -> pa.Table:
    """Replaces the sentences in `template` and `text` with the cue's line, if the cue has one."""
    if cue not in LINES:
        return prompts
    template = pa.array([LINES[cue]] * prompts.num_rows, pa.string())
    texts = [LINES[cue].replace(SINGULAR_SLOT, phrase) for phrase in prompts["noun_phrase"].to_pylist()]
    prompts = prompts.set_column(prompts.schema.get_field_index("template"), "template", template)
    return prompts.set_column(prompts.schema.get_field_index("text"), "text", pa.array(texts, pa.string()))


def read_questions(path: str | Path = QUESTIONS_FILE) -> list[str]:
    return read_sentences(path, "questions")


def draw_questions(
    cells: Mapping[tuple[str, str, str], Sequence[int]], questions: Sequence[str], *, seed: int
) -> list[str]:
    """Draws the question after each prompt. The questions in a template are the same for all terms.

    The number of questions in a template is chosen so that cells of median size have `MIN_REPLIES` prompts per
    question, because there are no intervals for fewer replies. If a cell has fewer prompts than questions, some
    questions are missing, and metrics count missing cells. `cells` has the rows of each cell in the order in which they
    were drawn.
    """
    sizes: dict[str, list[int]] = {}
    for (_, _, template), rows in cells.items():
        sizes.setdefault(template, []).append(len(rows))
    drawn = {
        template: seeded_generator(seed, "cue questions", template).permutation(len(questions))[
            : max(1, median_low(of_template) // MIN_REPLIES)
        ]
        for template, of_template in sizes.items()
    }
    asked = {
        row: questions[drawn[template][number % len(drawn[template])]]
        for (_, _, template), rows in cells.items()
        for number, row in enumerate(rows)
    }
    return [asked[row] for row in range(len(asked))]


def cue_messages(
    cue: Cue,
    text: str,
    question: str | None,
    personas: Sequence[str],
    chat: ChatOptions = DEFAULT_CHAT,
    tag: str | None = None,
) -> list[Message]:
    """Makes the messages of a prompt and its cue up to the model's turn. `text` is a sentence or the cue's line."""
    said = text if question is None else question
    if cue == "signature":
        (said,) = with_questions([text], [question])
    about_user = {"system": [STATEMENT + text], "memory": [text], "name": [text]}.get(cue, [])
    earlier = [text, ACKNOWLEDGEMENT] if cue == "history" else []
    return chat_messages(with_tag(said, tag), [*personas, *about_user], chat, earlier)
