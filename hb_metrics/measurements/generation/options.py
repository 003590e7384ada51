from dataclasses import dataclass
from typing import ClassVar, Literal

from hb_dataset.names import NAME_CUES
from hb_metrics.measurements.settings import check_files, check_least, option


@dataclass
class GenerationOptions:
    _argument_group_name = "generation"
    # With 4 replies, a quarter of the runs on the small config have no interval.
    _quick: ClassVar[dict[str, int]] = {"replies_per_cell": 5}

    replies_per_cell: int | None = option(
        8,
        "The number of replies per term and template. With 0, the model replies once to every prompt. The paper uses "
        "about 16.",
    )
    decoding: str = option(
        "sample",
        "The decoding preset: sample (short replies of about a sentence), greedy, dialogpt or blenderbot2 (the beam "
        "searches in the paper), or model (the model's generation_config).",
    )
    temperature: float | None = option(None, "The sampling temperature. Default: the preset's value.")
    top_k: int | None = option(
        None,
        "Sample only from this number of the most likely tokens. 0 allows all tokens. Default: the preset's value.",
    )
    top_p: float | None = option(
        None,
        "Sample only from the most likely tokens whose probabilities add up to this value. Default: the preset's "
        "value.",
    )
    max_new_tokens: int | None = option(
        None,
        "The maximum number of tokens in a reply, excluding any thoughts before it. Default: 256 for whole replies, "
        "otherwise the preset's value.",
    )
    reply: Literal["auto", "whole", "first_line"] = option(
        "auto",
        "The part of the model's text that counts as the reply: whole or first_line. The default is whole for chats "
        "that are decoded with greedy or model, and first_line otherwise.",
    )
    personas: int = option(0, "The number of persona lines before each prompt. The paper uses 2.")
    personas_file: str | None = option(
        None,
        "A YAML file with your own persona sentences. Default: 160 sentences written for this project.",
    )
    cue: Literal["prompt", "system", "memory", "name", "signature", "history"] = option(
        "prompt",
        "The source from which the model learns who the user is: the user's only turn (prompt), an earlier turn "
        "(history), the user's words in the system message (system), a remembered fact (memory), a name in place of "
        "a term (name), or a name below the question (signature). With every cue except prompt, the user asks a "
        "neutral question, and templates without a description are skipped.",
    )
    cue_questions: str | None = option(
        None,
        "A YAML file with your own neutral questions, for every --cue except prompt. Default: 20 questions written "
        "for this project.",
    )
    names_file: str | None = option(
        None,
        "A CSV file with the columns name and group, for --cue name or signature. Each question gets "
        "--replies_per_cell replies for each name. Default: 36 names from an audit study.",
    )
    turns: int = option(
        1,
        "The number of model turns in each conversation. After every reply except the last, the user asks a neutral "
        "follow-up question. All figures describe the first turn, except those given by turn.",
    )
    variations: bool = option(False, "Apply the paper's stylistic variations (A.3) to the prompts.")
    style_classifier: str = option(
        "embedded",
        "The classifier of reply styles: a name listed by `holistic-bias classifiers`, the Hub id or local folder of "
        "a sequence classifier, or 'embedded'.",
    )
    style_clusters: str | None = option(
        None,
        "A YAML file that groups the style classifier's labels into clusters. Default: the supplied clusters for the "
        "217 styles or for GoEmotions.",
    )
    frequencies: str | None = option(
        None,
        "A CSV file with each term's frequency in the model's training data, written by `python -m "
        "hb_dataset.frequency`. Default: the frequencies in a corpus of casual conversations.",
    )

    def __post_init__(self) -> None:
        check_least(self, replies_per_cell=0, personas=0, turns=1)
        check_files(self, "personas_file", "style_clusters", "frequencies", "cue_questions", "names_file")
        if self.cue_questions is not None and self.cue == "prompt":
            raise ValueError(
                "cue_questions need another cue than 'prompt'; set --cue system, memory, name, signature or history, "
                "or leave the questions out"
            )
        if self.names_file is not None and self.cue not in NAME_CUES:
            raise ValueError(
                f"names_file is for --cue name or signature, and cue is '{self.cue}'; set one of these, or leave the "
                "file out"
            )
        if self.cue in NAME_CUES and (not self.replies_per_cell or self.variations):
            raise ValueError(
                f"--cue {self.cue} needs a fixed number of replies per name and question, and does not support "
                "variations of names; set --replies_per_cell (for example, 8) and remove --variations"
            )
        if self.personas_file is not None and not self.personas:
            raise ValueError(
                f"personas_file is '{self.personas_file}', but personas is 0; set the number of lines before each "
                "prompt (--personas 2), or leave the file out"
            )
