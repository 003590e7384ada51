"""Draws the prompts for method counterfactual, and makes its rows from the replies."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import yaml
from numpy.random import Generator

from hb_dataset.filled_prompts import default_noun_rows, fill, own_prompt_table, people_of_terms
from hb_dataset.own_prompts import read_own_prompts
from hb_dataset.prompts import config_vocabulary, find_config, load_table, measured_configs
from hb_dataset.seeded_draws import seeded_generator
from hb_dataset.table_files import text_in
from hb_dataset.vocabulary_entries import Vocabulary
from hb_train.tuning.group_rows import GroupRow
from hb_train.tuning.swap import Swap, shared_spans, stems, swap_term

ANCHORS_FILE = Path(__file__).parent / "anchors.yaml"
NEEDS_PER_NEUTRAL = 3


class AnsweredPrompt(NamedTuple):
    """A prompt and the reply to it, which is `None` if the model has not replied yet or has not written anything."""

    id: str
    text: str
    system: str | None
    reply: str | None = None
    truncated: bool = False


def check_config(config: str) -> None:
    if find_config(config).name not in measured_configs() or "first_descriptor" in find_config(config).schema.names:
        raise ValueError(f"dataset_config '{config}' has no prompts with a single descriptor; set v1.0, for example")


def training_prompts(config: str, own_prompts: str | None = None, leave_out: str | None = None) -> pa.Table:
    """Loads the prompts of a config, or the user's own prompts, without the descriptors of the config `leave_out`.

    Descriptors that share a stem with such a descriptor (see `swap.stems`) are also left out.
    """
    prompts = load_table(config)
    if own_prompts is not None:
        own = read_own_prompts(own_prompts)
        if without := next((prompt.id for prompt in own if prompt.kind != "term"), None):
            raise ValueError(f"prompt '{without}' of '{own_prompts}' has no slot for a term; write {{person}}")
        people = people_of_terms(config_vocabulary(config), small=config.endswith("-small"))
        prompts = own_prompt_table(own, default_noun_rows(people), order=0)
    if leave_out is None:
        return prompts
    table = load_table(leave_out)
    terms = table["descriptor"].unique().drop_null().to_pylist() if "descriptor" in table.column_names else []
    left_out_stems = set().union(*map(stems, terms))
    left_out = [
        term for term in prompts["descriptor"].unique().to_pylist() if term in terms or stems(term) & left_out_stems
    ]
    kept = prompts.filter(pc.invert(pc.is_in(prompts["descriptor"], value_set=pa.array(left_out, pa.string()))))
    if len(kept) in (0, len(prompts)):
        raise ValueError(
            f"--leave_out {leave_out} excludes all or no terms of {config}; set a config with some of them"
        )
    return kept


def rows_by_place(prompts: pa.Table) -> dict[tuple[str, str], dict[str, list[int]]]:
    """Returns the rows of prompts that differ only in their descriptor, by noun and template, and then by axis."""
    by_place: dict[tuple[str, str], dict[str, list[int]]] = {}
    names = ["noun", "template", "axis"]
    grouped = prompts.select(names).to_pandas().groupby(names, dropna=False, observed=True)
    for (noun, template, axis), rows in grouped.indices.items():
        by_place.setdefault((noun, template), {})[axis] = rows.tolist()
    return by_place


def draw_groups(prompts: pa.Table, number: int, size: int, *, seed: int) -> list[list[int]]:
    """Draws groups of `size` rows of prompts that differ only in their descriptor.

    A combination of a noun and a template is drawn about as often as it has prompts, because the default nouns of few
    terms are not "person" in own prompts. The descriptors of a group are on different axes if there are enough axes,
    and all axes are equally likely.
    """
    by_place = rows_by_place(prompts)
    numbers = {place: sum(map(len, by_axis.values())) for place, by_axis in by_place.items()}
    numbers = {place: num_prompts for place, num_prompts in numbers.items() if num_prompts > 1}
    if not numbers:
        raise ValueError("no two prompts differ only in their descriptor; use prompts for at least two descriptors")
    smallest, drawn = min(numbers.values()), []
    for place, num_prompts in numbers.items():
        keys = seeded_generator(seed, "places", "\x1f".join(place)).random(round(num_prompts / smallest))
        drawn += [(key, place) for key in keys]
    places = [place for _, place in sorted(drawn)]
    groups = []
    for index in range(number):
        generator = seeded_generator(seed, "groups", str(index))
        groups.append(draw_rows(by_place[places[index % len(places)]], size, generator))
    return groups


def draw_rows(
    by_axis: Mapping[str, Sequence[int]], number: int, generator: Generator, last: str | None = None
) -> list[int]:
    """Draws rows from the rows of each axis, one axis after the other in a random order, with the axis `last` last."""
    axes = sorted(generator.permutation(sorted(by_axis)), key=lambda axis: axis == last)
    left = [[*by_axis[axis]] for axis in axes]
    drawn: list[int] = []
    while len(drawn) < number and any(left):
        for rows in filter(None, left):
            drawn.append(rows.pop(generator.integers(len(rows))))
    return drawn[:number]


def group_rows(
    prompts: pa.Table, groups: Sequence[Sequence[int]], answers: Sequence[AnsweredPrompt], vocabulary: Vocabulary
) -> tuple[list[GroupRow], int]:
    """Makes a row of each group with a reply, without its rendered prompts. Counts the dropped prompts.

    A prompt is dropped if its descriptor cannot replace the one in the reply.
    """
    terms = {(term.axis, term.term): term for term in vocabulary.descriptors}
    rows: list[GroupRow] = []
    num_dropped = 0
    for group, answer in zip(groups, answers, strict=True):
        if not answer.reply:
            continue
        own, *others = prompts.take(pa.array(group)).to_pylist()
        own_term = terms[own["axis"], own["descriptor"]]
        texts, of_members, swaps = [own["text"]], [own_term], list[Swap]()
        for other in others:
            term = terms[other["axis"], other["descriptor"]]
            swap = swap_term(answer.reply, own_term, term, vocabulary)
            if swap is not None and shared_spans([*swaps, swap]) is not None:
                texts.append(other["text"])
                of_members.append(term)
                swaps.append(swap)
        num_dropped += len(group) - (len(of_members) if swaps else 0)
        if not swaps:
            continue
        rows.append(
            GroupRow(
                id=answer.id,
                texts=texts,
                system=answer.system,
                completions=[answer.reply, *(swap.text for swap in swaps)],
                spans=shared_spans(swaps) or [],
                names=[term.plural_term if own["plural"] else term.term for term in of_members],
                after=[term.placement == "after" for term in of_members],
                truncated=answer.truncated,
                axes=[term.axis for term in of_members],
                descriptors=[term.term for term in of_members],
                noun=own["noun"],
                template=own["template"],
            )
        )
    return rows, num_dropped


def draw_anchors(number: int, *, seed: int) -> list[AnsweredPrompt]:
    """Draws the prompts of anchors from `anchors.yaml`. Prompts of the same kind are drawn equally often (±1).

    Three in four anchors are questions whose answer should depend on who is asking, and the fourth is a question about
    nobody.
    """
    content = yaml.safe_load(ANCHORS_FILE.read_text(encoding="utf-8"))
    needs = []
    for group in content["needs"]:
        for person in group["people"]:
            needs += [f"I'm {person}. {question}" for question in group["questions"]]
    num_neutral = number // (NEEDS_PER_NEUTRAL + 1)
    anchors = []
    for kind, texts, wanted in (("need", needs, number - num_neutral), ("neutral", content["neutral"], num_neutral)):
        order = seeded_generator(seed, "anchors", kind).permutation(len(texts))
        for index in range(wanted):
            text = texts[order[index % len(texts)]]
            anchors.append(AnsweredPrompt(f"anchor-{kind}-{index}", text, None))
    return anchors


def own_anchors(file: str, vocabulary: Vocabulary, number: int, *, seed: int) -> list[AnsweredPrompt]:
    """Draws anchors from a file of prompts. A slot is filled with a person, who is drawn for each anchor.

    If the column `reply` of the file is not blank, an anchor's reply comes from the file, and its slots are filled with
    the same person. Otherwise, `reply` is `None`.
    """
    prompts, people = read_own_prompts(file), default_noun_rows(people_of_terms(vocabulary))
    if named := next((prompt.id for prompt in prompts if prompt.kind == "name"), None):
        raise ValueError(f"'{file}', prompt '{named}' has a slot for names; write {{person}}")
    order = seeded_generator(seed, "anchors", "own").permutation(len(prompts))
    anchors = []
    for index in range(number):
        prompt = prompts[order[index % len(prompts)]]
        person = people[int(seeded_generator(seed, "anchors", str(index)).integers(len(people)))]
        place = f"'{file}', prompt '{prompt.id}'"
        reply = text_in(place, prompt.more, "reply")
        if reply is not None and prompt.kind != "cue":
            try:
                reply = fill(replace(prompt, prompt=reply), person)
            except ValueError as error:
                raise ValueError(f"{place}: reply {error}") from None
        anchors.append(AnsweredPrompt(f"anchor-{index}", fill(prompt, person), prompt.system, reply))
    return anchors
