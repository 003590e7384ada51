"""The options of generation bias: how replies are made, and how their styles are classified."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from hb_metrics.measurements.settings import check_files, check_least


@dataclass
class GenerationOptions:
    """How replies are made, classified and counted."""

    _argument_group_name = "generation"
    # With 4, a quarter of runs on the small config have no interval.
    _quick: ClassVar[dict[str, int]] = {"replies_per_cell": 5}

    replies_per_cell: int | None = field(
        default=8,
        metadata={
            "help": "How many replies are made to each term in each template; 0: one to every prompt. The paper has "
            "about 16."
        },
    )
    decoding: str = field(
        default="sample",
        metadata={
            "help": "How replies are decoded: sample (a sentence or so, for a quick look), greedy, dialogpt or "
            "blenderbot2 (the paper's beam searches), or model (the settings of the model's own generation_config)."
        },
    )
    num_beams: int | None = field(
        default=None, metadata={"help": "How many beams are searched. Default: that of --decoding."}
    )
    temperature: float | None = field(
        default=None,
        metadata={"help": "The temperature that replies are sampled with. Default: that of --decoding."},
    )
    top_k: int | None = field(
        default=None,
        metadata={
            "help": "Tokens are sampled from this many likeliest ones; 0: from all. Default: that of --decoding."
        },
    )
    top_p: float | None = field(
        default=None,
        metadata={
            "help": "Tokens are sampled from the likeliest ones that make up this probability. Default: that "
            "of --decoding."
        },
    )
    max_new_tokens: int | None = field(
        default=None,
        metadata={
            "help": "The most tokens a reply can have, without what the model thinks before it. Default: 256 for whole "
            "replies, else that of --decoding."
        },
    )
    reply: Literal["auto", "whole", "first_line"] = field(
        default="auto",
        metadata={
            "help": "How much of what the model writes is its reply: whole or first_line. Default: whole for chats "
            "decoded with greedy or model, else the first line."
        },
    )
    max_reasoning_tokens: int | None = field(
        default=None,
        metadata={
            "help": "The most tokens that a chat model can think before a reply; a longer thought has no reply. "
            "Default: 2048 for models that think."
        },
    )
    personas: int = field(
        default=0, metadata={"help": "How many persona lines are put before each prompt; the paper has 2."}
    )
    personas_file: str | None = field(
        default=None,
        metadata={
            "help": "A YAML file with persona sentences of your own. Default: 160 sentences written for this project."
        },
    )
    cue: Literal["prompt", "system", "history"] = field(
        default="prompt",
        metadata={
            "help": "Where the model is told who the user is: prompt (the user's only turn), system (the system "
            "message) or history (an earlier turn). With the last two the user then asks a neutral question, and "
            "templates in which users do not say who they are, are left out."
        },
    )
    cue_questions: str | None = field(
        default=None,
        metadata={
            "help": "A YAML file with neutral questions of your own for --cue system or history. Default: 20 questions "
            "written for this project."
        },
    )
    variations: bool = field(
        default=False,
        metadata={"help": "Mix the paper's stylistic variations (A.3) into the prompts that are replied to."},
    )
    style_classifier: str = field(
        default="embedded",
        metadata={
            "help": "What classifies the style of replies: the Hub id or local folder of a sequence classifier, or "
            "'embedded'."
        },
    )
    style_clusters: str | None = field(
        default=None,
        metadata={
            "help": "A YAML file with clusters of the style classifier's labels. Default: the shipped clusters of the "
            "217 styles or of GoEmotions."
        },
    )
    refusals_file: str | None = field(
        default=None,
        metadata={
            "help": "A YAML file with rules of your own for refusals and disclaimers. Default: the shipped rules, "
            "for English."
        },
    )
    refusal_classifier: str | None = field(
        default=None,
        metadata={
            "help": "What classifies replies as refusals: the Hub id or local folder of a sequence classifier. "
            "Default: the rules of --refusals_file, by which disclaimers are found in any case."
        },
    )
    frequencies: str | None = field(
        default=None,
        metadata={
            "help": "A CSV file of `python -m hb_dataset.frequency` that states how often each term occurs in the "
            "model's training data. Default: the frequencies in a chit-chat corpus."
        },
    )

    def __post_init__(self) -> None:
        """Raises a ValueError if a number is below 0, a file does not exist, or one is for what is not asked for."""
        check_least(self, replies_per_cell=0, personas=0, max_reasoning_tokens=0)
        check_files(self, "personas_file", "style_clusters", "refusals_file", "frequencies", "cue_questions")
        if self.cue_questions is not None and self.cue == "prompt":
            raise ValueError(
                "cue_questions are asked with --cue system or history, and cue is 'prompt'; give one of these, or "
                "leave the questions out"
            )
        if self.personas_file is not None and not self.personas:
            raise ValueError(
                f"personas_file is '{self.personas_file}', and personas is 0; give the number of its lines before each "
                "prompt (--personas 2), or leave it out"
            )
