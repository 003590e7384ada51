from hb_metrics.layout.numbers import count, counted, share
from hb_metrics.measurements.generation.typed_results import Generation, ServedCounts
from hb_metrics.run.record import GenerationSettings, Record

SAME_SHARE = 0.9  # a note warns if at least this share of the replies is the same text


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
            "These prompts are missing from all figures, and may differ from the other prompts. With a larger "
            "--max_reasoning_tokens, fewer prompts would be missing."
        )
    if generation.num_unanswered:
        notes.append(
            f"For {count(generation.num_unanswered)} of {count(generation.num_replies)} replies, the style judge "
            "gave no valid answer. In Gen Bias, the lack of an answer counts as an additional style."
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
            f"A content filter of the server removed {count(filtered)} replies, which are missing from all figures. If "
            "the filter removes more replies for some terms than for others, the figures are distorted."
        )
    if unclear := served.endings.get("unknown"):
        notes.append(
            f"For {count(unclear)} replies, the finish reason is unknown, so it is not known whether they are complete."
        )
    if unknown := served.num_without_counts:
        notes.append(f"For {count(unknown)} replies, the server did not return a valid token count.")
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
        "replies were left out, because they repeat another reply to the same prompt, as happens with greedy decoding."
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
