"""Measures how much reply styles differ between the people in prompts (Smith et al., 2022, 3.2)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hb_metrics.collect.replies.decoding_settings import reply_settings
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.measurement import Measurement, Parts, Planned, Task
from hb_metrics.measurements.settings import Settings
from hb_metrics.run.run_record import classifier_name, public_name, tag_and_cue

if TYPE_CHECKING:
    from hb_metrics.measurements.results import Results
    from hb_metrics.run.record import Record

# Tags may differ on purpose. The others only describe the model or its replies, or have their own warnings.
_NO_SETTINGS = (
    *("num_prompts", "_digest", "_reason", ".tag", ".tuned_with", ".replies_from", ".replies_a_prompt"),
    *(".num_copied_replies", ".num_cut_to_first_line", ".cue", ".questions", ".turns", ".follow_ups"),
    ".left_out_templates",
)


class GenerationMeasurement(Measurement):
    name = "generation"
    title = "Generation bias"
    words = "generation bias"
    options = GenerationOptions
    by_default = True
    needs = ("replies",)
    tasks = ("full_gen_bias", "full_gen_bias_debiased")
    gates = ("parroting_replies", "empty_replies")
    paired = ("full_gen_bias_debiased", "bias_between_nouns")
    paired_shares = ("replies_that_name_the_term", "refusals", "disclaimers", "empty_replies")

    def is_asked(self, settings: Settings) -> bool:
        """Returns whether decisions are read from a file of replies."""
        run = settings.run
        return None not in (run.prompts, run.replies_file) and "decisions" in (run.measurements or "")

    def read_files(self, settings: Settings, prompts: Any) -> Any:
        from hb_metrics.measurements.reply_requests import read_files

        return read_files(settings, prompts)

    def check_classifiers(self, settings: Settings) -> None:
        from hb_metrics.measurements.generation.work import check_classifiers

        check_classifiers(settings)

    def plan(self, task: Task, files: Any) -> Planned:
        from hb_metrics.measurements.generation.work import plan

        return plan(task)

    @property
    def parts(self) -> Parts:
        from hb_metrics.measurements.generation.compute import compute
        from hb_metrics.measurements.generation.figures import figures
        from hb_metrics.measurements.generation.page import report
        from hb_metrics.measurements.generation.run_changes import changes, generalise

        return Parts(compute, figures, report, changes, generalise=generalise)

    def figure_settings(self, record: "Record") -> list[str]:
        return [f"styles classified by {classifier_name(record.style_classifier)}", *reply_settings(record)]

    def variant(self, record: "Record") -> list[str]:
        return [public_name(record.style_classifier), *tag_and_cue(record)]

    def card_sentences(self, results: "Results") -> list[str]:
        from hb_metrics.measurements.generation.page import card_sentences

        return card_sentences(results)

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
        if len({run.generation.refusal_rules for run in runs}) > 1:
            sentences.append(
                "Refusals and disclaimers were detected by different rules, so their shares are not comparable."
            )
        if any(name.startswith("generation.") and not name.endswith(_NO_SETTINGS) for name in changed):
            sentences.append(
                "The replies were generated with different settings, so a change may be due to the settings and not to "
                "the model."
            )
        return sentences


GENERATION = GenerationMeasurement()
