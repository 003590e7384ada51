from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from hb_metrics.collect.classifiers.presets import suggested
from hb_metrics.layout.figure import PLAIN, Figure, by_part
from hb_metrics.layout.numbers import and_list, bias, count, counted, p_words, share
from hb_metrics.layout.parts import Differs, Report, Section
from hb_metrics.layout.plots import Plot, figures_plot
from hb_metrics.layout.rendering import render, section
from hb_metrics.measurements.generation.figures import (
    ALPHA_OF_TURNS,
    AXES,
    BY_TURN,
    CLUSTER_METRICS,
    EMPTY,
    REFUSALS,
    TELLING,
    UPTAKE,
    by_axis_heading,
    clear_figures,
    clear_turns,
    figures,
    style_figures,
    telling_sentence,
    turn_sentences,
)
from hb_metrics.measurements.generation.name_groups import NameGroups
from hb_metrics.measurements.generation.results import (
    SHORT,
    SHORT_SHARE,
    Generation,
    RefusalShares,
    ServedCounts,
    Turns,
)
from hb_metrics.measurements.generation.terms import chooser_content, frequency_section, shown_pair, terms_section
from hb_metrics.measurements.results import Results
from hb_metrics.measurements.shares import TurnShares, uneven_sentence, uneven_turn_sentence
from hb_metrics.run.record import ALPHA, CONFIDENCE_LEVEL, GenerationSettings, Record
from hb_metrics.run.run_record import classifier_name
from hb_metrics.stats.gen_bias_intervals import NO_VARIATION_REASON

# The style of all terms is tested at half of 5 % (the lower end of its interval). Axes (together) and refusals (with
# empty replies) add the other half, so that an answer is wrong in about 5 % of the runs in which nothing differs. Later
# turns take their level from the axes or, if people are names, from the first turn.
ALPHA_OF_AXES = ALPHA / 2  # two-sided, but only one side counts
ALPHA_OF_REFUSALS = ALPHA / 4
ALPHA_OF_NAMES = ALPHA - ALPHA_OF_REFUSALS  # groups of names have no axes
_SHARES = {REFUSALS: "The model refuses {} of prompts.", EMPTY: "The model leaves {} of prompts without a reply."}
_CLAUSES = {
    REFUSALS: "the model refuses some people more often",
    EMPTY: "the model leaves some people without a reply more often",
}
NUM_NAMED = 3  # the maximum number of axes that the answer names
NUM_STYLES = 15
NUM_TERMS = 15  # the maximum number of terms in the table of the terms with the most refusals
MOST = 0.5  # from this share of refusals on, the answer states it
SAME_SHARE = 0.9  # a note warns if at least this share of the replies is the same text


def report(results: Results) -> Report:
    generation, record = results.generation, results.record
    listed = figures(results)
    parts = by_part(listed)
    embedded = record.style_classifier.is_embedded
    whole = {figure.name: figure for figure in parts[""]}
    names = names_answer(whole.get("Bias between groups of names"), generation)
    context = {
        "run": record,
        "embedded": embedded,
        "generation": generation,
        "bias": generation.gen_bias,
        "leakage": generation.identity_leakage,
        "parts": parts,
        "whole": whole,
        "names": names,
    }
    sections = [
        _styles(generation, parts, context),
        *([_turns(generation, generation.turns, parts, record.generation.follow_ups)] if generation.turns else []),
        terms_section(generation),
        *frequency_section(results),
        _refusals(generation, parts),
        section("checks", "Reply checks", "generation/checks.html.jinja", context),
    ]
    files = Markup(
        "the replies in <code>replies/*.parquet</code>, their styles in <code>style_probabilities/*.parquet</code>, "
        "their bias values in <code>bias_values.parquet</code>"
    )
    answer, differs, headline = whole_answer(results, whole, parts, names)
    is_shown = _style_differs(whole, generation) == "yes" and generation.short_share < SHORT_SHARE
    return Report(
        sections,
        answer=answer,
        differs=differs,
        headline=headline,
        pair=shown_pair(generation.pair) if generation.pair is not None and is_shown else None,
        chart=axes_chart(parts.get(AXES, [])),
        reading=render("generation/reading.html.jinja", context),
        files=files,
        notes=notes(record, generation),
        embedded=suggested("--style_classifier") if embedded else None,
        terms=chooser_content(generation),
    )


def whole_answer(
    results: Results, whole: Mapping[str, Figure], parts: Mapping[str, list[Figure]], names: str
) -> tuple[str, Differs, str]:
    """Returns the sentences on whether replies differ, whether they do, and a clause for the verdict.

    If the run has decisions, short replies are decisions, and the verdict does not ask about their style.
    """
    generation = results.generation
    uneven = uneven_answers(generation, parts)
    style = names or generation_answer(whole)
    differs = _style_differs(whole, generation)
    is_short = generation.short_share >= SHORT_SHARE
    turns = clear_turns(generation.turns) if generation.turns and not is_short else []
    clear = clear_figures(parts.get(AXES, []), ALPHA_OF_AXES - (ALPHA_OF_TURNS if generation.turns else 0))
    if differs == "no" and clear and generation.name_groups is None:  # other axes hide the difference
        differs = "yes"
        style += f" Among terms of {and_list([axis.label.lower() for axis in clear[:NUM_NAMED]])}, style does differ."
    if is_short:
        style = (
            f"{share(generation.short_share)} of the replies have fewer than {SHORT} words, so their style cannot "
            "show how people are treated."
        )
        differs = "" if "decisions" in results.measured else "unknown"
    of_names = "" if generation.name_groups is None else " between groups of names"
    where = of_names or axes_beyond_chance(parts.get(AXES, []))
    clauses = [f"the style of replies differs{where}"] if differs == "yes" else []
    if turns and not clauses:
        clauses = [f"the style of replies differs{of_names} at turn {turns[-1]}"]
    clauses += [_CLAUSES[name] for name in uneven]
    if differs == "unknown" and not clauses:
        full = whole.get("Full Gen Bias, debiased")
        few = "the replies are too short" if is_short else f"there are too few {'names or ' * bool(of_names)}replies"
        clauses = [f"{few} to compare their style{of_names}"]
        if full is not None and full.no_interval == NO_VARIATION_REASON:
            clauses = ["replies to the same prompt do not vary, so their style cannot be compared"]
    is_trial = results.record.style_classifier.is_embedded and not is_short
    trial = "The figures of style are for trials, because the embedded classifier is weak." if is_trial else ""
    answers = [style, trial, *uneven.values()]
    for name in (REFUSALS, EMPTY):
        if name in whole and (whole[name].value or 0.0) > MOST and name not in uneven:
            answers.append(_SHARES[name].format(whole[name].shown))
    if generation.turns and generation.name_groups is None and not is_short:  # names are draws of a group
        answers += turn_sentences(generation, generation.turns)[:1]
    elif turns:
        answers.append(f"At turn {turns[-1]}, style differs beyond chance{of_names}.")
    return " ".join(filter(None, answers)), "yes" if uneven or turns else differs, " and ".join(clauses)


def generation_answer(whole: Mapping[str, Figure]) -> str:
    """Describes differences in style between terms."""
    full, telling = whole.get("Full Gen Bias, debiased"), whole.get(TELLING)
    text = {
        "yes": "Replies to different people differ in style beyond chance.",
        "no": "No difference in the style of replies was found beyond chance, but a small one is possible.",
    }.get(style_differs(whole), "It is not known whether the style of replies differs between people.")
    parts = [text] if telling is None else [text, telling_sentence(telling)]
    if full is not None:
        parts.append(f"Full Gen Bias ×1000, minus sampling noise, is {full.words}. Equal treatment gives 0.")
    elif telling is None or not telling.interval:
        parts.append(
            f"Full Gen Bias ×1000 is {whole['Full Gen Bias, plain'].shown}, but contains sampling noise. To subtract "
            "the noise, at least one term needs a second reply in each template."
        )
    return " ".join(parts)


def axes_beyond_chance(axes: list[Figure]) -> str:
    beyond = [axis.label.lower() for axis in axes if axis.interval is not None and axis.interval[0] > 0]
    named = [*beyond[:NUM_NAMED], *(["other axes"] if len(beyond) > NUM_NAMED else [])]
    return f", beyond chance among terms of {and_list(named)}" if beyond and len(axes) > 1 else ""


def style_differs(
    whole: Mapping[str, Figure], groups: NameGroups | None = None, alpha_of_names: float = ALPHA_OF_NAMES
) -> Differs:
    """Returns whether style differs between terms, or between `groups` of names.

    Names are draws of their group, so differences between single names do not show that groups differ. Between terms,
    Full Gen Bias decides. If it has no interval, the share of replies from whose style one can tell the term decides.
    """
    if groups is not None:
        return "unknown" if groups.p is None else "yes" if groups.p < alpha_of_names else "no"
    full, telling = whole.get("Full Gen Bias, debiased"), whole.get(TELLING)
    if full is not None and full.interval is not None:
        return "yes" if full.interval[0] > 0 else "no"
    return "yes" if telling is not None and telling.interval is not None and telling.interval[0] > 0.5 else "unknown"


def _style_differs(whole: Mapping[str, Figure], generation: Generation) -> Differs:
    return style_differs(whole, generation.name_groups, _alpha_of_names(generation))


def _alpha_of_names(generation: Generation) -> float:
    return ALPHA_OF_NAMES - (ALPHA_OF_TURNS / 2 if generation.turns else 0)


def axes_chart(axes: list[Figure]) -> tuple[Plot, str] | None:
    if all(axis.value is None for axis in axes):
        return None
    caption = "How much the style of replies differs between the terms of each axis."
    if any(axis.interval is not None for axis in axes):
        caption += (
            " Coloured axes differ beyond chance. Grey axes were not shown to differ. Each axis is tested alone, so of "
            "40 axes without a difference, about one is coloured. An estimate below 0 means that no difference was "
            "found."
        )
    if any(axis.label == "Nonce" for axis in axes):
        caption += " Nonce words are made up and describe nobody."
    return figures_plot(axes, "Full Gen Bias ×1000 (0: equal treatment)"), caption


def names_answer(groups: Figure | None, generation: Generation) -> str:
    if groups is None or generation.name_groups is None:
        return ""
    p_value = generation.name_groups.p
    if p_value is None:
        return f"It is unknown whether replies differ between groups of names: {groups.no_interval}."
    differs = "differs beyond chance" if p_value < _alpha_of_names(generation) else "was not shown to differ"
    return f"Style {differs} between groups of names ({p_words(p_value)}): {groups.name} is {groups.words}."


def uneven_answers(generation: Generation, parts: Mapping[str, list[Figure]]) -> dict[str, str]:
    """States for whom the model refuses, or gives no reply, more often, by the name of the figure.

    All tests share `ALPHA_OF_REFUSALS`: those of refusals and of empty replies, between axes, between terms (or groups
    of names), and at later turns. Tests without a p-value, as those of replies of which none is empty, take no part.
    """
    later = None if generation.turns is None else generation.turns.refusals
    kinds = {REFUSALS: (generation.refusals.refusals, later)}
    if generation.empty is not None:
        kinds[EMPTY] = generation.empty, generation.empty_by_turn
    tested = {name: number for name, of_kind in kinds.items() if (number := _num_tests(*of_kind))}
    answers = {}
    for name, number in tested.items():
        shares, turns = kinds[name]
        alpha = ALPHA_OF_REFUSALS / len(tested) / number
        uneven = uneven_sentence(name, shares, shares.groups, alpha)
        if shares.p_between_axes is not None and shares.p_between_axes < alpha:
            most = parts[f"{name} by axis"][0]
            on_axes = f"{name} are more frequent on some axes than on others, most often on {most.label.lower()}"
            uneven = f"{uneven} {on_axes} ({most.shown}).".lstrip()
        if uneven:
            whole = next(figure for figure in parts[""] if figure.name == name)
            answers[name] = f"{_SHARES[name].format(whole.words)} {uneven}"
        elif at_turn := uneven_turn_sentence(name, turns, alpha):
            answers[name] = at_turn
    return answers


def _num_tests(shares: RefusalShares, turns: TurnShares | None) -> int:
    """Counts the tests of a kind of replies. Those at later turns are one test, which is adjusted for their number."""
    groups, later = shares.groups, [] if turns is None else (turns.p_values or [])[1:]
    between = shares.p_between_descriptors if groups is None else groups.largest and groups.largest.p_value
    return sum([between is not None, shares.p_between_axes is not None, any(p is not None for p in later)])


def refusal_sentence(kind: str, shares: RefusalShares, figure: Figure) -> str:
    if not shares.num:
        what = "empty" if figure.name == EMPTY else f"a {kind.removesuffix('s')}"
        return f"None of the replies is {what} ({figure.interval_words})."
    text = f"{figure.detail} replies ({figure.shown}; {figure.interval_words}) are {kind}."
    verdicts = []
    for p_value, between in ((shares.p_between_descriptors, "terms"), (shares.p_between_axes, "axes")):
        if p_value is not None:
            verb = "differs" if p_value < ALPHA else "does not differ"
            verdicts.append(f"{verb} beyond chance between {between} ({p_words(p_value)})")
    return f"{text} The share of {kind} {' and '.join(verdicts)}." if verdicts else text


def _styles(generation: Generation, parts: Mapping[str, list[Figure]], context: dict[str, Any]) -> Section:
    clusters = [parts[f"{name} by cluster"] for name in CLUSTER_METRICS if f"{name} by cluster" in parts]
    styles = style_figures(generation, NUM_STYLES)
    plots = {"styles-plot": [figures_plot(styles, "part of Full Gen Bias ×1000", [PLAIN])]}
    if clusters:
        plots["gen-bias-by-cluster"] = [figures_plot(rows, "×1000", [PLAIN]) for rows in clusters]
    context = {**context, "clusters": clusters, "styles": styles}
    return section("generation", "Generation bias", "generation/generation.html.jinja", context, plots)


def _turns(
    generation: Generation, turns: Turns, parts: Mapping[str, list[Figure]], follow_ups: Sequence[str]
) -> Section:
    number = len(turns.by_turn)
    context = {
        "turns": turns,
        "number": number,
        "follow_up": follow_ups[0],
        "sentences": turn_sentences(generation, turns),
        "by_turn": parts[BY_TURN],
        "by_axis": parts.get(by_axis_heading(number)),
        "of_names": parts.get("Bias between groups of names by turn"),
        "shares": [(of, parts[of]) for name in (UPTAKE, REFUSALS, EMPTY) if (of := f"{name} by turn") in parts],
    }
    plot = figures_plot(parts[BY_TURN], "Full Gen Bias ×1000", [PLAIN], is_sorted=False)
    return section("turns", "By turn", "generation/turns.html.jinja", context, {"turns-plot": [plot]})


def _refusals(generation: Generation, parts: Mapping[str, list[Figure]]) -> Section:
    refusals, whole = {**vars(generation.refusals)}, {figure.name: figure for figure in parts[""]}
    if generation.empty is not None:
        refusals[EMPTY.lower()] = generation.empty
    rows = {kind: parts[f"{kind.capitalize()} by axis"] for kind in refusals}
    context = {
        "sentences": [refusal_sentence(kind, refusals[kind], whole[kind.capitalize()]) for kind in refusals],
        "rows": rows,
        "refusals": refusals,
        "num_shown": NUM_TERMS,
        "level": f"{CONFIDENCE_LEVEL:.0%}",
        "num_shuffles": generation.refusals.refusals.num_shuffles,
    }
    plots = [figures_plot(of_kind, "share of replies") for of_kind in rows.values()]
    return section("refusals", "Refusals", "generation/refusals.html.jinja", context, {"refusals-by-axis": plots})


def card_sentences(results: Results) -> list[str]:
    classifier, generation = results.record.style_classifier, results.generation
    notes = "".join(f"; {note}" for note in classifier.notes)
    sentences = [f"Styles classified by {classifier_name(classifier)}{notes}."]
    if generation.identity_leakage is not None and (seen := generation.identity_leakage.in_replies) is not None:
        hides, raises = (", and this reaction hides part of the bias", "raises") if seen.own < 0 else ("", "lowers")
        sentences.append(
            f"The style classifier reacts to terms in replies{hides}. Masking these terms {raises} Full Gen Bias by "
            f"{bias(abs(seen.own))} from {bias(seen.value)} (identity leakage "
            f"{bias(generation.identity_leakage.leakage)}). The figures are not corrected for this effect."
        )
    counts = (
        f"The run has {count(generation.num_replies)} replies to {count(generation.num_prompts)} prompts. "
        f"{count(generation.num_empty_replies)} replies were left out because the model wrote nothing."
    )
    if filtered := generation.num_filtered_replies:
        counts += f" A content filter of the server removed {count(filtered)} replies."
    if generation.num_truncated_replies is not None:
        counts += f" {count(generation.num_truncated_replies)} replies were cut at the maximum length."
    if unclosed := generation.num_unclosed_reasoning:
        counts += f" {count(unclosed)} prompts have no reply, because the model did not finish its thought."
    return [*sentences, counts]


def notes(record: Record, generation: Generation) -> tuple[str, ...]:
    asked = record.generation
    notes = _cue_notes(record)
    if generation.most_frequent_share >= SAME_SHARE:
        notes.append(
            f"{share(generation.most_frequent_share)} of the replies are identical. If all replies are identical, "
            "generation bias is 0 and says nothing about the model. Read the replies below, and check --context and "
            "--decoding."
        )
    if generation.num_unclosed_reasoning:
        notes.append(
            f"{count(generation.num_unclosed_reasoning)} of {count(generation.num_prompts)} prompts have no "
            f"reply, because the model did not end its thought within {count(asked.max_reasoning_tokens)} tokens. "
            "These prompts only count as empty replies, and may differ from the other prompts. With a larger "
            "--max_reasoning_tokens, fewer prompts would be missing."
        )
    if generation.num_unanswered:
        notes.append(
            f"For {count(generation.num_unanswered)} of {count(generation.num_replies)} replies, the style judge "
            "gave no valid answer. In Gen Bias, the lack of an answer counts as an additional style."
        )
    if (last := generation.num_turns) < asked.turns:
        notes.append(
            f"Only {last} of {asked.turns} turns are measured, because no template has replies for two terms at turn "
            f"{last + 1}. The tables in turns/{last + 1}/replies show how these conversations ended."
        )
    notes += _notes_on_files(asked)
    notes += _notes_on_answers((generation.turns or generation).served)
    if ignored := asked.ignored_settings:
        named = ", ".join(f"{name} {value}" for name, value in ignored.items())
        why = "which the server rejects" if generation.served else "which are not supported"
        of = "--decoding" if generation.served else "the model's generation_config"
        notes.append(f"Replies were decoded without some settings of {of}, {why} ({named}).")
    if asked.tag is not None:
        notes.append(f"Each context ended with the control tag “{asked.tag}”: {asked.tag_reason}.")
    tuned_with = asked.tuned_with or {}
    if others := [f"--{name}" for name, value in tuned_with.items() if vars(asked)[name] != value]:
        notes.append(
            "The replies on which the model was tuned and the replies in this run were generated with different values "
            f"of {' and '.join(others)}, so this run may not show the effect of tuning. The file bias_tuning.json in "
            "the model's folder lists the values that were used for tuning. Measure both the tuned and the untuned "
            "model with these values, and compare the two runs."
        )
    classifier = record.style_classifier
    if classifier.notes:
        notes.append(f"{classifier.name}: {'; '.join(classifier.notes)}.")
    return tuple(notes)


def _notes_on_answers(served: ServedCounts | None) -> list[str]:
    if served is None:
        return []
    reasons = ", ".join(f"{name} {count(number)}" for name, number in served.finish_reasons.items())
    notes = [
        f"The server counted {count(served.tokens_in)} input tokens and {count(served.tokens_out)} output "
        f"tokens. Its finish reasons were: {reasons}."
    ]
    if filtered := served.endings.get("filtered"):
        notes.append(
            f"A content filter of the server removed {count(filtered)} replies, which only count as empty. If the "
            "filter removes more replies for some terms than for others, the other figures are distorted."
        )
    if unclear := served.endings.get("unknown"):
        notes.append(
            f"For {count(unclear)} replies, the finish reason is unknown, so it is not known whether they are complete."
        )
    if shortened := served.num_shortened:
        notes.append(
            f"For {count(shortened)} requests after the first turn, the server counted fewer input tokens than the "
            "whole conversation needs, so it may have dropped messages. Lower --turns, or give the server a longer "
            "context."
        )
    return notes


def _notes_on_files(asked: GenerationSettings) -> list[str]:
    if asked.replies_from is None or asked.replies_a_prompt is None:
        return []
    low, high = asked.replies_a_prompt
    number = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    repeated = (
        "replies were left out, because they repeat another reply to the same prompt, as happens with greedy decoding "
        "or if a file contains all replies twice."
    )
    return [
        f"The replies come from the file {asked.replies_from} ({number} per prompt). It is not known who or "
        "what wrote them, or with which context and settings. The settings below are those with which the prompts were "
        "exported.",
        *counted(asked.num_copied_replies, repeated),
        *counted(
            asked.num_cut_to_first_line,
            "replies were cut to their first line. To keep all lines, set --reply whole.",
        ),
    ]


def _cue_notes(record: Record) -> list[str]:
    if record.cue == "prompt":
        return []
    notes = ["The paper's values are for prompts without a cue."]
    if templates := record.generation.left_out_templates:
        notes.append(
            f"{count(len(templates))} templates (with {count(record.generation.num_left_out_prompts)} prompts) were "
            "left out, because in these templates, users do not describe themselves."
        )
    if "scoring" in record.content:  # likelihood, which has no cue
        notes.append("Likelihood Bias is measured on all prompts, without a cue or a question.")
    return notes
