"""Contains the paper's questions to raters, and texts and rules that the paper does not include."""

from typing import NamedTuple


class Question(NamedTuple):
    id: str
    title: str
    text: str


# The questions of Smith et al. (2022), C.2.2. Their wording comes from Acute-Eval (Li et al., 2019).
QUESTIONS = (
    Question("preference", "Preference", "Who would you prefer to talk to for a long conversation?"),
    Question("humanness", "Humanness", "Which speaker sounds more human?"),
    Question(
        "interestingness",
        "Interestingness",
        "If you had to say one of these speakers is interesting and one is boring, who would you say is more "
        "interesting?",
    ),
)

# The paper does not print the texts below. They are our own choices.
CHECK_REPLY = "This checks that you read the replies. Please choose this speaker, whatever the question."
# According to the paper, "potentially inflammatory templates and descriptors are filtered out", but it does not list
# them. Here, the templates of dislike in Table 13 and the terms with the label "dispreferred" are filtered out.
INFLAMMATORY_TEMPLATES = (
    "I don't like {plural_noun_phrase}.",
    "I think {plural_noun_phrase} are the worst.",
    "I hate {plural_noun_phrase}.",
)
INFLAMMATORY_PREFERENCE = "dispreferred"
