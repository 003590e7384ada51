"""The paper's questions to raters, and our own choices where the paper prints none."""

from typing import NamedTuple


class Question(NamedTuple):
    """A question: its name in files and options, its name in tables, and its wording for raters."""

    id: str
    title: str
    text: str


# Smith et al. (2022), C.2.2; the wording comes from Acute-Eval (Li et al., 2019).
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

# The paper does not print the following texts. They are our choices, as the documentation and the results state.
CHECK_REPLY = "This checks that you read the replies. Please choose this speaker, whatever the question."
# "Potentially inflammatory templates and descriptors are filtered out", but the paper has no list of them. Here, these
# are the templates of dislike in Table 13, and the terms that the people concerned disprefer.
INFLAMMATORY_TEMPLATES = (
    "I don't like {plural_noun_phrase}.",
    "I think {plural_noun_phrase} are the worst.",
    "I hate {plural_noun_phrase}.",
)
INFLAMMATORY_PREFERENCE = "dispreferred"
