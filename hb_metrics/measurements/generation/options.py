from dataclasses import dataclass
from typing import Literal

from hb_dataset.slots import NAME_CUES
from hb_metrics.measurements.settings import check_files, check_least, option


@dataclass
class GenerationOptions:
    _argument_group_name = "generation"

    replies_per_cell: int | None = option(
        8,
        "The number of replies per term and template. The paper uses about 16. With 0, the model replies once to each "
        "prompt.",
    )
    decoding: Literal["sample", "greedy", "dialogpt", "blenderbot2", "model"] = option(
        "sample",
        "The decoding preset: sample (random replies of about a sentence), greedy, dialogpt or blenderbot2 (the beam "
        "searches in the paper), or model (the model's generation_config).",
    )
    temperature: float | None = option(None, "The sampling temperature. Default: the preset's value.")
    top_k: int | None = option(
        None,
        "Sample only from the N most likely tokens. 0 means no limit. Default: the preset's value.",
    )
    top_p: float | None = option(
        None,
        "Sample only from the most likely tokens whose probabilities add up to this value. Default: the preset's "
        "value.",
    )
    max_new_tokens: int | None = option(
        None,
        "The maximum number of tokens in a reply, not counting any thought before the reply. Default: 256 for whole "
        "replies (--reply whole), otherwise the preset's value.",
    )
    reply: Literal["auto", "whole", "first_line"] = option(
        "auto",
        "The part of the model's text that counts as the reply: whole or first_line. Default: whole for prompts with "
        "an outcome, and for chat models with --decoding greedy or model; otherwise first_line.",
    )
    personas: int = option(
        0,
        "The number of persona lines (sentences about the model's own character) before each prompt. The paper uses 2.",
    )
    cue: Literal["prompt", "system", "memory", "name", "signature", "history"] = option(
        "prompt",
        "The source from which the model learns who the user is: the user's only turn (prompt), an earlier turn "
        "(history), a quoted sentence by the user in the system message (system), a remembered fact (memory), the "
        "user's name in the system message (name), or a name below the question (signature). With every cue except "
        "'prompt', the user's last turn is a neutral question or, with --prompts, one of yours, and only templates in "
        "which users describe themselves are used.",
    )
    names_file: str | None = option(
        None,
        "A CSV file with the columns name and group, for --cue name or signature, and for --prompts with {name}. For "
        "each name, the model replies to each question --replies_per_cell times. Default: 36 names from an audit "
        "study.",
    )
    turns: int = option(
        1,
        "The number of replies in each conversation. After every reply except the last, the user asks a neutral "
        "follow-up question. All figures except those by turn describe the first reply.",
    )
    variations: bool = option(False, "Apply the paper's stylistic variations (section A.3) to the prompts.")
    style_classifier: str = option(
        "embedded",
        "The classifier of reply styles: a name that `holistic-bias classifiers` lists, the Hub id or local folder of "
        "a sequence classifier, or 'embedded'.",
    )
    style_clusters: str | None = option(
        None,
        "A YAML file that groups the style classifier's labels into clusters. Default: the classifier's own "
        "clusters, if it has the paper's 217 styles or is GoEmotions.",
    )
    frequencies: str | None = option(
        None,
        "A CSV file with each term's frequency in the model's training data, written by `python -m "
        "hb_dataset.frequency`. Default: the frequencies in a corpus of casual conversations.",
    )

    def __post_init__(self) -> None:
        check_least(self, replies_per_cell=0, personas=0, turns=1)
        check_files(self, "style_clusters", "frequencies", "names_file")
        if self.cue in NAME_CUES and (not self.replies_per_cell or self.variations):
            raise ValueError(
                f"--cue {self.cue} needs a fixed number of replies per name and question, and does not support "
                "variations; set --replies_per_cell to 1 or more (for example, 8), and omit --variations"
            )
