"""Converts the authors' lists of a version of HolisticBias (JSON) into a vocabulary folder (YAML).

    python hub_scripts/convert_lists.py LISTS_DIR OUTPUT_DIR
    python hub_scripts/freeze_version.py v1.1 --vocabulary OUTPUT_DIR

v1.1 was made in this way, from `holistic_bias/dataset/v1.1` of github.com/facebookresearch/ResponsibleNLP, a copy of
which is in tests/hub_scripts/lists_v1.1. Nothing is corrected. What is written otherwise than in the lists:

* the bucket `all`, of axes that are not divided, is left out, as these axes have no buckets in v1.0,
* phrases around a noun ("{article} {noun} with a lisp") are terms of the bucket `after_the_noun`,
* phrases that have a noun of their own ("a wheelchair user") are in standalone_noun_phrases.yaml,
* the marks `first_turn_only` and `must_be_noun` of templates become notes,
* sources and notes of what v1.0 has are those of v1.0, as are the templates of the small config and those of SEAT, of
  which the lists say nothing.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from hb_dataset.versions import read_version
from hb_dataset.vocabulary import read_vocabulary, vocabulary_files
from hb_dataset.vocabulary_entries import (
    AFTER_THE_NOUN,
    NOUNS_FILE,
    SEAT_TEMPLATES_FILE,
    STANDALONE_FILE,
    TEMPLATES_FILE,
    Descriptor,
    PersonNoun,
)

DESCRIPTORS_JSON, NOUNS_JSON = "descriptors.json", "nouns.json"
TEMPLATES_JSON, STANDALONE_JSON = "sentence_templates.json", "standalone_noun_phrases.json"
UNDIVIDED_BUCKET = "all"
NO_GENDER = "neutral"
AROUND_A_NOUN = "{article} {noun} "
TEMPLATE_NOTES = {
    "first_turn_only": "in the authors' lists only for the first turn of a dialogue",
    "must_be_noun": "in the authors' lists only for a noun phrase, and not for a term alone",
}
SOURCE = "HolisticBias v1.1, the authors' lists"
FROZEN_REMARK = "v1.1 is frozen as it was published: corrections belong in a later version."
SMALL_REMARK = "`small: true` marks the four that the small config uses, as in v1.0."
SEAT_REMARK = "The SEAT sentences that the paper quotes, as in v1.0; the authors' lists have none."
HARM_REMARK = "Terms that harm are here because models meet them; labels are never authoritative (paper, A.2)."

NO_LIST_ERROR = "'{path}' cannot be read ({reason}); give a folder with {names}"
KEY_ERROR = "{file} has the key {key!r} in {entry!r}, which is not known; allowed: {allowed}"
PHRASE_ERROR = "{file} has {phrase!r}, which is neither a whole phrase nor one that starts with {start!r}"
OUTPUT_ERROR = "'{path}' exists and is not an empty folder; give another, or remove it"


def convert_lists(lists: Path, output: Path) -> None:
    """Writes the vocabulary folder of some lists, and reads it to check it.

    Args:
        lists: The folder with the four JSON files.
        output: The folder to write; it does not exist or is empty.

    Raises:
        ValueError: If a list cannot be read or has what is not known here, if the output has files, or if the
            vocabulary that was written has faults (`VocabularyError`).
    """
    files = vocabulary_texts(lists)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ValueError(OUTPUT_ERROR.format(path=output))
    output.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (output / name).write_text(text, encoding="utf-8")
    read_vocabulary(output)


def vocabulary_texts(lists: Path) -> dict[str, str]:
    """The text of each file of the vocabulary that some lists make, by its name. Errors as of `convert_lists`."""
    paper = read_version("v1.0")
    of_paper = {(term.axis, term.term): term for term in paper.descriptors}
    known = {term.term for term in paper.descriptors}
    terms = {
        axis: [_term(entry, bucket) for bucket, entries in buckets.items() for entry in entries]
        for axis, buckets in _read(lists, DESCRIPTORS_JSON).items()
    }
    standalone: list[dict[str, Any]] = []
    for axis, phrases in _read(lists, STANDALONE_JSON).items():
        for entry in phrases:
            phrase = _phrase(entry)
            if phrase["noun_phrase"].startswith(AROUND_A_NOUN):
                terms.setdefault(axis, []).append(_term_after_a_noun(phrase))
            else:
                standalone.append({"axis": axis, **phrase})
    nouns = [
        {"noun": noun, "plural": plural, **({} if gender == NO_GENDER else {"gender": gender})}
        for gender, of_gender in _read(lists, NOUNS_JSON).items()
        for noun, plural in of_gender
    ]
    small = {template.template for template in paper.templates if template.small}
    templates = [_template(text, marks, text in small) for text, marks in _read(lists, TEMPLATES_JSON).items()]
    of_seat = [{"template": template.template} for template in paper.seat_templates]
    texts = {
        f"{axis}.yaml": _text(
            "terms",
            [_with_history(entry, of_paper.get((axis, entry["term"])), entry["term"] in known) for entry in entries],
            (f"{axis.replace('_', ' ').capitalize()}. {FROZEN_REMARK}", HARM_REMARK),
            source=str(paper.descriptors[0].source),
            axis=axis,
        )
        for axis, entries in sorted(terms.items())
    }
    of_nouns = {noun.noun: noun for noun in paper.nouns}
    texts[NOUNS_FILE] = _text(
        "nouns",
        [_with_history(entry, of_nouns.get(entry["noun"]), entry["noun"] in of_nouns) for entry in nouns],
        (f"Person nouns. {FROZEN_REMARK}",),
        source=str(paper.nouns[0].source),
    )
    texts[TEMPLATES_FILE] = _text(
        "templates",
        templates,
        (f"Sentences to put people into. {FROZEN_REMARK}", SMALL_REMARK),
        source=str(paper.templates[0].source),
    )
    seat_source = str(paper.seat_templates[0].source)
    texts[SEAT_TEMPLATES_FILE] = _text("templates", of_seat, (SEAT_REMARK,), source=seat_source)
    remarks = (f"Phrases with a noun of their own. {FROZEN_REMARK}", HARM_REMARK)
    texts[STANDALONE_FILE] = _text("noun_phrases", standalone, remarks, source=SOURCE)
    return texts


def main(argv: Sequence[str] | None = None) -> None:
    """Converts the lists, and prints what was written."""
    parser = argparse.ArgumentParser(
        prog="hub_scripts/convert_lists.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lists", type=Path, help="The folder with the authors' JSON files.")
    parser.add_argument("output", type=Path, help="The vocabulary folder to write.")
    options = parser.parse_args(argv)
    try:
        convert_lists(options.lists, options.output)
    except (ValueError, OSError) as error:
        raise SystemExit(f"convert_lists.py: {error}") from error
    vocabulary = read_vocabulary(options.output)
    print(f"{len(vocabulary_files(vocabulary))} files in {options.output}: {len(vocabulary.descriptors):,} terms,")
    print(f"{len(vocabulary.standalone_noun_phrases):,} standalone noun phrases, {len(vocabulary.nouns):,} nouns,")
    print(f"{len(vocabulary.templates):,} templates")


def _read(lists: Path, name: str) -> dict[str, Any]:
    try:
        content = json.loads((lists / name).read_text(encoding="utf-8"))
        reason = "it is not an object"
    except (OSError, ValueError) as error:
        content, reason = None, str(error)
    if not isinstance(content, dict):
        names = ", ".join((DESCRIPTORS_JSON, NOUNS_JSON, TEMPLATES_JSON, STANDALONE_JSON))
        raise ValueError(NO_LIST_ERROR.format(path=lists / name, reason=reason, names=names))
    return content


def _checked(file: str, entry: Mapping[str, Any], allowed: Iterable[str]) -> Mapping[str, Any]:
    for key in entry:
        if key not in allowed:
            raise ValueError(KEY_ERROR.format(file=file, key=key, entry=dict(entry), allowed=", ".join(allowed)))
    return entry


def _term(entry: str | dict[str, Any], bucket: str) -> dict[str, Any]:
    """A term before its noun, as in YAML."""
    fields = {"descriptor": entry} if isinstance(entry, str) else dict(entry)
    _checked(DESCRIPTORS_JSON, fields, ("descriptor", "article", "gender", "preference"))
    of_bucket = {} if bucket == UNDIVIDED_BUCKET else {"bucket": bucket}
    return {"term": fields.pop("descriptor"), **of_bucket, **fields}


def _phrase(entry: str | dict[str, Any]) -> dict[str, Any]:
    """A phrase of the list of standalone noun phrases, whole."""
    fields = {"noun_phrase": entry} if isinstance(entry, str) else dict(entry)
    _checked(STANDALONE_JSON, fields, ("noun_phrase", "plural_noun_phrase", "preference"))
    plural = fields.pop("plural_noun_phrase", None)
    for phrase in filter(None, (fields["noun_phrase"], plural)):
        if "{" in phrase.removeprefix(AROUND_A_NOUN):
            raise ValueError(PHRASE_ERROR.format(file=STANDALONE_JSON, phrase=phrase, start=AROUND_A_NOUN))
    return {"noun_phrase": fields.pop("noun_phrase"), **({} if plural is None else {"plural": plural}), **fields}


def _term_after_a_noun(phrase: dict[str, Any]) -> dict[str, Any]:
    plural = phrase.get("plural")
    return {
        "term": phrase["noun_phrase"].removeprefix(AROUND_A_NOUN),
        "bucket": AFTER_THE_NOUN,
        **({} if plural is None else {"plural": plural.removeprefix(AROUND_A_NOUN)}),
        **{key: value for key, value in phrase.items() if key not in ("noun_phrase", "plural")},
    }


def _template(text: str, marks: Mapping[str, bool], small: bool) -> dict[str, Any]:
    notes = [TEMPLATE_NOTES[mark] for mark, value in _checked(TEMPLATES_JSON, marks, TEMPLATE_NOTES).items() if value]
    return {"template": text, **({"small": True} if small else {}), **({"note": "; ".join(notes)} if notes else {})}


def _with_history(entry: dict[str, Any], of_paper: Descriptor | PersonNoun | None, is_in_paper: bool) -> dict[str, Any]:
    """An entry with the note that v1.0 has of it, and its source if v1.0 does not have it."""
    note = None if of_paper is None else of_paper.note
    return {**entry, **({} if note is None else {"note": note}), **({} if is_in_paper else {"source": SOURCE})}


def _text(
    key: str, entries: Iterable[Mapping[str, Any]], remarks: Iterable[str], *, source: str, axis: str | None = None
) -> str:
    """A file of a vocabulary, in the form in which people write it."""
    head = [*(f"# {remark}" for remark in remarks), *([] if axis is None else [f"axis: {axis}"])]
    return "\n".join([*head, f"source: {_scalar(source)}", f"{key}:", *_entry_lines(entries)]) + "\n"


def _entry_lines(entries: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for entry in entries:
        for number, (key, value) in enumerate(entry.items()):
            yield f"{'    ' if number else '  - '}{key}: {_scalar(value)}"


def _scalar(value: str | bool) -> str:
    """A value as YAML writes it on one line, with quotes where it needs them."""
    written: str = yaml.safe_dump(value, allow_unicode=True, width=10_000)
    return written.removesuffix("...\n").strip()


if __name__ == "__main__":
    main()
