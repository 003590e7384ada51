"""Measures how much reply styles differ between the people in prompts (Smith et al., 2022, 3.2)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hb_metrics.layout.parts import Section
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.measurement import Collector, Measurement, Parts
from hb_metrics.measurements.settings import Settings
from hb_metrics.run.run_record import classifier_name, public_name, reply_settings, tag_and_cue

if TYPE_CHECKING:
    from hb_metrics.measurements.results import Results, Run
    from hb_metrics.run.record import Record


class Generation(Measurement):
    name = "generation"
    title = "Generation bias"
    words = "generation bias"
    options = GenerationOptions
    by_default = True
    needs = ("replies",)
    tasks = ("full_gen_bias", "full_gen_bias_debiased")
    gates = ("parroting_replies",)

    def is_asked(self, settings: Settings) -> bool:
        """Returns whether decisions are read from a file of replies."""
        run = settings.run
        return None not in (run.prompts, run.replies_file) and "decisions" in (run.measurements or "")

    @property
    def collector(self) -> Collector:
        from hb_metrics.measurements.generation.asking import read_files
        from hb_metrics.measurements.generation.work import collect, describe, plan

        return Collector(plan, describe, collect, read_files)

    @property
    def parts(self) -> Parts:
        from hb_metrics.measurements.generation.compute import compute
        from hb_metrics.measurements.generation.details import details
        from hb_metrics.measurements.generation.figures import figures
        from hb_metrics.measurements.generation.generalised import generalise
        from hb_metrics.measurements.generation.page import report
        from hb_metrics.measurements.generation.run_changes import changes

        return Parts(compute, figures, report, changes, generalise=generalise, details=details)

    def figure_settings(self, record: "Record") -> list[str]:
        return [f"styles classified by {classifier_name(record.style_classifier)}", *reply_settings(record)]

    def variant(self, record: "Record") -> list[str]:
        return [public_name(record.style_classifier), *tag_and_cue(record)]

    def card_sentences(self, results: "Results") -> list[str]:
        from hb_metrics.layout.numbers import count
        from hb_metrics.measurements.generation.figures import leakage_sentence

        classifier, generation = results.record.style_classifier, results.generation
        notes = "".join(f"; {note}" for note in classifier.notes)
        unclosed, leakage = generation.num_unclosed_reasoning, generation.identity_leakage
        sentences = [f"Styles classified by {classifier_name(classifier)}{notes}."]
        if leakage is not None:
            sentences.append(leakage_sentence(leakage))
        counts = (
            f"The run has {count(generation.num_replies)} replies to {count(generation.num_prompts)} prompts. "
            f"{count(generation.num_empty_replies)} empty replies were left out."
        )
        if filtered := generation.num_filtered_replies:
            counts += f" A content filter of the server removed {count(filtered)} replies."
        if generation.num_truncated_replies is not None:
            counts += f" {count(generation.num_truncated_replies)} replies were cut at the maximum length."
        if unclosed:
            counts += f" {count(unclosed)} prompts have no reply, because the model did not finish its thought."
        return [*sentences, counts]

    def together(self, runs: "Sequence[Run]") -> list[Section]:
        from hb_metrics.measurements.generation.cue_agreement import cue_sections

        return cue_sections([run for run in runs if self.name in run.results.measured])

    def warnings(self, changed: set[str], runs: "Sequence[Results]") -> list[str]:
        sentences = []
        cues = list(dict.fromkeys(run.record.cue for run in runs))
        if len(cues) > 1:
            sentences.append(
                f"The runs describe the user with different cues ({', '.join(cues)}). The replies answer different "
                "texts, so a difference in Gen Bias may be due to the cue and not to the model."
            )
        elif "generation.questions" in changed:
            sentences.append(
                "The runs asked different questions after the cue, so their Gen Bias values are not comparable."
            )
        if changed & {"style_classifier.digest", "style_classifier.name", "style_classifier.temperature"}:
            sentences.append(
                "The runs have different style classifiers, so Gen Bias values, styles and clusters are not comparable."
            )
        elif "style_classifier.clusters" in changed:
            sentences.append("The style clusters differ, so clusters with the same name may contain different styles.")
        if len({run.generation.num_replies + run.generation.num_empty_replies for run in runs}) > 1:
            sentences.append(
                "The runs have different numbers of replies. Plain Gen Bias is not comparable, because runs with fewer "
                "replies contain more noise. Debiased Gen Bias is comparable."
            )
        if "refusals.rules_digest" in changed:
            sentences.append(
                "Refusals and disclaimers were detected by different rules, so their shares are not comparable."
            )
        # Tags may differ on purpose. The other settings here only describe the model or its replies, or have their own
        # warnings.
        no_setting = ["num_prompts", "_digest", "_reason", ".tag", ".tuned_with"]
        no_setting += [".replies_from", ".replies_a_prompt", ".num_copied_replies", ".num_cut_to_first_line"]
        of_cue = [".cue", ".questions", ".turns", ".follow_ups", ".left_out_templates"]
        if any(name.startswith("generation.") and not name.endswith((*no_setting, *of_cue)) for name in changed):
            sentences.append(
                "The replies were generated with different settings, so a change may be due to the settings and not to "
                "the model."
            )
        return sentences


GENERATION = Generation()
