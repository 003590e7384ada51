"""Makes sentences from phrases that already include a noun, such as "a wheelchair user" (v1.1)."""

from collections.abc import Sequence

import pyarrow as pa

from hb_dataset.noun_phrases import at_sentence_start
from hb_dataset.prompt_table import PROMPT_SCHEMA, content_digest
from hb_dataset.vocabulary_entries import StandaloneNounPhrase, Template



def standalone_table(phrases: Sequence[StandaloneNounPhrase], templates: Sequence[Template]) -> pa.Table:
    """Combines every phrase with every template, in a table with the columns of `PROMPT_SCHEMA`.

    The columns for a separate term or person noun are null. v1.1 lists "a Rasta" twice, with two plurals, so each of
    its singular texts occurs in two rows.
    """
    rows = []
    for phrase in phrases:
        for template in templates:
            written = phrase.plural if template.plural else phrase.noun_phrase
            prefix, suffix = template.parts
            key = (phrase.axis, phrase.noun_phrase, phrase.plural, template.template)
            rows.append(
                {
                    "id": content_digest(*key)[:_ID_DIGITS],
                    "text": f"{prefix}{written if prefix else at_sentence_start(written)}{suffix}",
                    "axis": phrase.axis,
                    "descriptor": phrase.term,
                    "preference": phrase.preference,
                    "noun_phrase": written if prefix else at_sentence_start(written),
                    "plural": template.plural,
                    "template": template.template,
                }
            )
    return pa.Table.from_pylist(rows, PROMPT_SCHEMA)
