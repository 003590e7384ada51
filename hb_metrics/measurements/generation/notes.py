"""What readers of a run's generation bias have to know: how its replies came about, and what is missing."""

from collections.abc import Mapping
from typing import Any

from hb_metrics.measurements.generation.tuned import recorded_ceiling
from hb_metrics.report.layout.numbers import bias, count, interval, share

SAME_SHARE = 0.9  # from which share of equal replies on a note warns


def notes(run: Mapping[str, Any], generation: Mapping[str, Any]) -> tuple[str, ...]:
    """Sentences for the end of the report."""
    notes = _cue_notes(run, generation)
    if generation["most_frequent_share"] >= SAME_SHARE:
        notes.append(
            f"{share(generation['most_frequent_share'])} of the replies are the same text. Where all replies are the "
            "same, generation bias is 0 and says nothing about the model: read the replies below, and check --context "
            "and --decoding."
        )
    if generation["num_unclosed_reasoning"]:
        unclosed, prompts = count(generation["num_unclosed_reasoning"]), count(generation["num_prompts"])
        limit = count(run["generation"]["max_reasoning_tokens"])
        notes.append(
            f"{unclosed} of {prompts} prompts have no reply, since the model did not end its thought within {limit} "
            "tokens. Figures are about the others, which may differ; a larger --max_reasoning_tokens leaves out fewer."
        )
    notes += _notes_on_files(run["generation"])
    notes += _notes_on_answers(generation.get("served"))
    if ignored := run["generation"].get("ignored_settings"):
        named = ", ".join(f"{name} {value}" for name, value in ignored.items())
        of = (
            "--decoding, which the server cannot be asked for"
            if "served" in generation
            else "the model's generation_config"
        )
        notes.append(f"Replies were decoded without these settings of {of}: {named}.")
    if run["generation"]["tag"] is not None:
        reason = run["generation"]["tag_reason"]
        notes.append(f"Asked with the control tag “{run['generation']['tag']}” at the end of each context: {reason}.")
    ceiling = recorded_ceiling(run["generation"].get("label_ceiling"))
    if ceiling is not None and ceiling.value is not None and generation["debiased"] is not None:
        notes.append(
            "The labels that the model was tuned on lead to a debiased Full Gen Bias of "
            f"{bias(ceiling.value)} ({interval(ceiling.interval)}) at best, their ceiling, where all labelled replies "
            f"had {bias(ceiling.all_value)}; the model has {bias(generation['debiased']['full_gen_bias'])}."
        )
    if tuned_with := run["generation"].get("tuned_with"):
        others = [f"--{name}" for name, value in tuned_with.items() if run["generation"].get(name) != value]
        if others:
            notes.append(
                "The replies that the model was tuned on were asked for with other values of "
                f"{' and '.join(others)} (bias_tuning.json in its folder has them). What it learnt there need not show "
                "here: give these options as they were then, and compare with an untuned model that is asked the same."
            )
    classifier = run["style_classifier"]
    if classifier["notes"]:
        notes.append(f"{classifier['name']}: {'; '.join(classifier['notes'])}.")
    return tuple(notes)


def _notes_on_answers(served: Mapping[str, Any] | None) -> list[str]:
    """What to know of replies of a served model."""
    if served is None:
        return []
    tokens = f"{count(served['tokens_in'])} tokens in and {count(served['tokens_out'])} out"
    unknown = served["num_without_counts"]
    notes = [
        f"The server counted {tokens} for these replies"
        + (f", and gave no count that can be for {count(unknown)} of them." if unknown else ".")
    ]
    reasons = served["finish_reasons"]
    others = {name: number for name, number in reasons.items() if name not in ("stop", "length")}
    if others:
        named = ", ".join(f"{name} {count(number)}" for name, number in others.items())
        notes.append(
            f"Answers that ended for another reason than their end or their length: {named}. What a filter takes away "
            "may well depend on the term, and is missing from all figures."
        )
    if len(served["fingerprints"]) > 1:
        notes.append(
            f"The server gave {len(served['fingerprints'])} fingerprints of its model: it was changed while it was "
            "asked, or several machines serve it."
        )
    return notes


def _notes_on_files(asked: Mapping[str, Any]) -> list[str]:
    """What to know of replies that were made elsewhere."""
    if "replies_from" not in asked:
        return []
    low, high = asked["replies_a_prompt"]
    each = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    notes = [
        f"The replies are those of the file {asked['replies_from']}, {each} a prompt, each a reply of its cell. Who "
        "gave them, in which context and with which settings cannot be checked here: the settings below are those "
        "asked for."
    ]
    if asked["num_copied_replies"]:
        notes.append(
            f"{asked['num_copied_replies']:,} replies are copies of another one to the same prompt, as greedy decoding "
            "gives them, and count once."
        )
    if asked["num_cut_to_first_line"]:
        notes.append(
            f"Of {asked['num_cut_to_first_line']:,} replies only the first line is measured; --reply whole takes all."
        )
    return notes


def _cue_notes(run: Mapping[str, Any], generation: Mapping[str, Any]) -> list[str]:
    """What is to be known of a run whose prompts are not the cue."""
    cue = run["generation"].get("cue", "prompt")
    if cue == "prompt":
        return []
    where = "the system message" if cue == "system" else "an earlier turn"
    left_out = ""
    if generation["num_left_out_templates"]:
        left_out = (
            " Templates in which users do not say who they are were left out of the replies: "
            f"{count(generation['num_left_out_templates'])}, with {count(generation['num_left_out_prompts'])} prompts."
        )
    # Another measurement's name is here, since nobody else knows of cues.
    likelihood = ""
    if "scoring" in run:
        likelihood = " Likelihood Bias is that of all prompts as they are: no cue is given there, and no question."
    return [
        f"The model was told who the user is in {where} (--cue {cue}) and then asked neutral questions, the same for "
        f"all terms in a template.{left_out} The paper's values are of the prompts themselves.{likelihood}"
    ]
