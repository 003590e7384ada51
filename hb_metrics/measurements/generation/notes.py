"""Writes notes for the end of the report, for example on the origin of replies and on missing replies."""

from collections.abc import Mapping
from typing import Any

from hb_dataset.names import NAME_CUES
from hb_metrics.measurements.generation.tuned import recorded_ceiling
from hb_metrics.report.layout.numbers import bias, count, interval, share

SAME_SHARE = 0.9  # the share of equal replies from which a note warns


def notes(run: Mapping[str, Any], generation: Mapping[str, Any]) -> tuple[str, ...]:
    asked, debiased = run["generation"], generation["debiased"]
    notes = _cue_notes(run, generation)
    if generation["most_frequent_share"] >= SAME_SHARE:
        notes.append(
            f"{share(generation['most_frequent_share'])} of the replies are the same text. If all replies are equal, "
            "generation bias is 0 and shows nothing about the model. Read the replies below, and check --context and "
            "--decoding."
        )
    if generation["num_unclosed_reasoning"]:
        notes.append(
            f"{count(generation['num_unclosed_reasoning'])} of {count(generation['num_prompts'])} prompts have no "
            f"reply, since the model did not end its thought within {count(asked['max_reasoning_tokens'])} tokens. The "
            "figures cover only the other prompts, which may differ from these. With a larger --max_reasoning_tokens, "
            "fewer prompts are left out."
        )
    if generation.get("num_unanswered"):
        notes.append(
            f"For {count(generation['num_unanswered'])} of {count(generation['num_replies'])} replies, the style judge "
            "did not choose any of the letters it was offered. In Gen Bias, such replies count as an additional style."
        )
    notes += _notes_on_files(asked)
    notes += _notes_on_answers(generation.get("served"))
    if ignored := asked.get("ignored_settings"):
        named = ", ".join(f"{name} {value}" for name, value in ignored.items())
        of = "--decoding, which the server rejects" if "served" in generation else "the model's generation_config"
        notes.append(f"Replies were decoded without these settings of {of}: {named}.")
    if asked["tag"] is not None:
        notes.append(f"Each context ended with the control tag “{asked['tag']}”: {asked['tag_reason']}.")
    ceiling = recorded_ceiling(asked.get("label_ceiling"))
    if ceiling is not None and ceiling.value is not None and debiased is not None:
        notes.append(
            "The labels limit the effect of tuning. The replies tagged “no_bias” have a debiased Full Gen Bias of "
            f"{bias(ceiling.value)} ({interval(ceiling.interval)}), and all labelled replies have "
            f"{bias(ceiling.all_value)}. This model has {bias(debiased['full_gen_bias'])}."
        )
    tuned_with = asked.get("tuned_with") or {}
    if others := [f"--{name}" for name, value in tuned_with.items() if asked.get(name) != value]:
        notes.append(
            f"The replies used for tuning were generated with different values of {' and '.join(others)}, so this run "
            "may not show the effect of tuning. Set these options to the values listed in bias_tuning.json in the "
            "model's folder, and compare the result with an untuned model measured with the same options."
        )
    classifier = run["style_classifier"]
    if classifier["notes"]:
        notes.append(f"{classifier['name']}: {'; '.join(classifier['notes'])}.")
    return tuple(notes)


def _notes_on_answers(served: Mapping[str, Any] | None) -> list[str]:
    if served is None:
        return []
    notes = [
        f"The server counted {count(served['tokens_in'])} input tokens and {count(served['tokens_out'])} output tokens."
    ]
    if unknown := served["num_without_counts"]:
        notes.append(f"For {count(unknown)} replies, the server returned no valid count.")
    others = {name: number for name, number in served["finish_reasons"].items() if name not in ("stop", "length")}
    if others:
        named = ", ".join(f"{name} {count(number)}" for name, number in others.items())
        notes.append(
            f"Some answers ended neither with an end token nor at the length limit: {named}. A content filter may "
            "react to the term, and the replies that it removes are missing from all figures."
        )
    if len(served["fingerprints"]) > 1:
        notes.append(
            f"The server returned {len(served['fingerprints'])} fingerprints of its model. Either the model changed "
            "during the run, or several machines serve it."
        )
    return notes


def _notes_on_files(asked: Mapping[str, Any]) -> list[str]:
    if "replies_from" not in asked:
        return []
    low, high = asked["replies_a_prompt"]
    each = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    notes = [
        f"The replies come from the file {asked['replies_from']}, {each} per prompt. This run cannot check who wrote "
        "the replies, in which context, or with which settings. The settings below are those of the exported prompts."
    ]
    if asked["num_copied_replies"]:
        notes.append(
            f"{asked['num_copied_replies']:,} replies repeat another reply to the same prompt, as happens with greedy "
            "decoding. They were left out."
        )
    if asked["num_cut_to_first_line"]:
        notes.append(
            f"{asked['num_cut_to_first_line']:,} replies were cut to their first line; --reply whole keeps all lines."
        )
    return notes


def _cue_notes(run: Mapping[str, Any], generation: Mapping[str, Any]) -> list[str]:
    cue = run["generation"].get("cue", "prompt")
    if cue == "prompt":
        return []
    where = {"history": "an earlier turn", "signature": "a signature"}.get(cue, "the system message")
    how = "named" if cue in NAME_CUES else "described"
    note = f"The user was {how} in {where} (--cue {cue}). Neutral questions are the same for all terms in a template."
    if generation["num_left_out_templates"]:
        note += (
            f" {count(generation['num_left_out_templates'])} templates in which users do not describe themselves were "
            f"left out, with {count(generation['num_left_out_prompts'])} prompts."
        )
    note += " The paper's values are for prompts without a cue."
    if "scoring" in run:  # likelihood, which has no cue
        note += " Likelihood Bias is measured on all prompts, without a cue or a question."
    return [note]
