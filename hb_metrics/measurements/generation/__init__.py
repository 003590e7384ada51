"""Generation bias: how much the style of replies varies with who the prompt is about (Smith et al., 2022, 3.2)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hb_metrics.display.numbers import count
from hb_metrics.display.parts import Comparison, Figure, Report, Section
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.measurement import Measurement, Task

if TYPE_CHECKING:
    from pathlib import Path

    from hb_metrics.display.run_changes import FigureChanges
    from hb_metrics.measurements.generation.work import GenerationWork
    from hb_metrics.measurements.settings import Settings
    from hb_metrics.runs.finished_run import Run


class Generation(Measurement):
    """Full, Partial and Summed-Cluster Gen Bias of replies, with checks of the replies."""

    name = "generation"
    title = "Generation bias"
    words = "generation bias"
    done = "replies made and their styles classified"
    options = GenerationOptions
    by_default = True
    needs = ("replies",)
    tasks = ("full_gen_bias", "full_gen_bias_debiased")

    def read_files(self, settings: "Settings") -> None:
        """Reads the user's own phrases, personas, style clusters and frequencies, so that faults show early."""
        from hb_metrics.measurements.generation.work import read_files

        read_files(settings)

    def plan(self, task: Task, files: Any) -> "GenerationWork":
        """Chooses the prompts, plans the replies and loads the style classifier."""
        from hb_metrics.measurements.generation.work import plan_generation

        return plan_generation(task)

    def describe(self, work: "GenerationWork") -> dict[str, Any]:
        """How replies are made, and the style classifier: the sections of run.json."""
        from hb_metrics.measurements.generation.work import describe_generation

        return describe_generation(work)

    def measure(self, task: Task, work: "GenerationWork", results: Mapping[str, Any]) -> dict[str, Any]:
        """Makes replies, classifies their styles and computes generation bias."""
        from hb_metrics.measurements.generation.work import measure_generation

        return measure_generation(task, work)

    def summary(self, results: Mapping[str, Any]) -> list[str]:
        """Full Gen Bias, plain and debiased with its interval, and by axis; refusals, if there are any."""
        bias, debiased = results[self.name]["gen_bias"], results[self.name]["debiased"]
        lines = [f"Full Gen Bias  {bias['full_gen_bias']:.2f}  from {bias['num_replies']:,} replies"]
        if debiased is not None:
            bounds, level = bias["intervals"]["full_gen_bias"], f"{bias['confidence_level']:.0%}"
            interval = (
                f"no interval: {bias['no_intervals']['full_gen_bias']}"
                if bounds is None
                else "{} interval {:.2f} to {:.2f}".format(level, *bounds)
            )
            noise = f"less a sampling noise of {bias['noise_floor']:.2f}"
            lines.append(f"  {noise}: {debiased['full_gen_bias']:.2f}, {interval}")
        if leakage := results[self.name].get("identity_leakage"):
            own = leakage["in_replies"]["own"]
            part = f"of which {own:.2f} goes" if own >= 0 else f"{-own:.2f} higher"
            lines.append(f"  {part} with the terms that replies hold{'' if own >= 0 else ' hidden'}")
        if debiased is not None:
            lines.append("  debiased, by axis:")
        by_axis = (debiased or bias)["by_axis"] or {}
        known = [(axis, value) for axis, value in by_axis.items() if value is not None]
        lines += [f"  {axis:<22} {value:6.2f}" for axis, value in sorted(known, key=lambda item: -item[1])]
        refusals = results[self.name].get("refusals", {}).get("refusals")
        if refusals and refusals["num"]:
            lines.append(f"Refusals  {refusals['share']:6.1%}  of {refusals['num_replies']:,} replies")
        return lines

    def figures(self, results: Mapping[str, Any]) -> list[Figure]:
        """Full Gen Bias debiased and plain, its parts by style cluster, and parroting."""
        from hb_metrics.measurements.generation.figures_of_run import generation_figures

        return generation_figures(results[self.name])

    def gate_names(self, settings: "Settings") -> tuple[str, ...]:
        """Full Gen Bias plain and debiased, and parroting."""
        return (*self.tasks, "parroting_replies")

    def overview_figures(self, runs: Sequence[Mapping[str, Any]]) -> list[list[Figure]]:
        """Gen Bias of each run over all terms, by style cluster and by axis: debiased, if all runs can be."""
        from hb_metrics.measurements.generation.figures_of_run import compared_figures

        return compared_figures([run.get(self.name) for run in runs])

    def figure_settings(self, results: Mapping[str, Any]) -> list[str]:
        """The style classifier, and how replies were made."""
        from hb_metrics.measurements.generation.figures_of_run import reply_settings
        from hb_metrics.runs.run_record import classifier_name

        return [f"styles classified by {classifier_name(results['run'], 'style_classifier')}", *reply_settings(results)]

    def variant(self, results: Mapping[str, Any]) -> list[str]:
        """The style classifier, the control tag, and the cue if it is not the prompt."""
        from hb_metrics.runs.run_record import cue_of, public_name, tag_of

        cue = [] if cue_of(results) == "prompt" else [f"cue {cue_of(results)}"]
        return [public_name(results["run"]["style_classifier"]), *filter(None, [tag_of(results)]), *cue]

    def card_sentences(self, results: Mapping[str, Any]) -> list[str]:
        """Which classifier gave the styles, and how many replies there are."""
        from hb_metrics.measurements.generation.figures_of_run import leakage_sentence
        from hb_metrics.runs.run_record import classifier_name

        run, counts = results["run"], results[self.name]
        notes = "".join(f"; {note}" for note in run["style_classifier"]["notes"])
        unclosed = counts.get("num_unclosed_reasoning", 0)
        leakage = counts.get("identity_leakage")
        own = [] if leakage is None else [leakage_sentence(leakage)]
        return [
            f"Styles classified by {classifier_name(run, 'style_classifier')}{notes}.",
            *own,
            f"{counts['num_replies']:,} replies to {counts['num_prompts']:,} prompts; cut at their greatest length: "
            f"{count(counts['num_truncated_replies'])}; empty, and left out: {counts['num_empty_replies']:,}"
            + (f"; none, since a thought was not over: {unclosed:,}." if unclosed else "."),
        ]

    def report(self, results: Mapping[str, Any]) -> Report:
        """Gen Bias, terms by style, styles and frequency, and reply checks."""
        from hb_metrics.measurements.generation.report import generation_report

        return generation_report(results, self.folder)

    def overview(self, runs: "Sequence[Run]", names: Sequence[str]) -> Section | None:
        """Tables in the form of the paper's Tables 8 to 10."""
        from hb_metrics.display.rendering import render
        from hb_metrics.measurements.generation.overview import overview, overview_plots

        if sum(self.name in run.results for run in runs) < 2:
            return None
        compared = overview([run.results for run in runs], names)
        html = render(self.folder / "overview.html.jinja", {"overview": compared})
        return Section("overview-generation", "Generation bias", html, overview_plots(compared))

    def tuned(self, runs: "Sequence[Run]", names: Sequence[str], labels: "Path | None") -> Section | None:
        """Full Gen Bias beside the ceiling of the labels, and bias values along the directions of other replies."""
        from hb_metrics.display.rendering import render
        from hb_metrics.measurements.generation.tuned import (
            HEADER,
            labels_ceiling,
            other_model_notes,
            tuned_notes,
            tuned_rows,
        )
        from hb_metrics.obedience.values import has_directions
        from hb_metrics.runs.run_record import tag_of

        measured = [(run, name) for run, name in zip(runs, names, strict=True) if self.name in run.results]
        kept, called = [run for run, _ in measured], [name for _, name in measured]
        if len(kept) < 2:
            return None
        if labels is None:
            tuned = any(tag_of(run.results) or run.results["run"]["generation"].get("tuned_with") for run in kept)
            if not tuned or not has_directions(kept[0].folder):
                return None
        ceiling = None if labels is None else labels_ceiling(labels)
        rows = tuned_rows(kept, called, labels or kept[0].folder, ceiling)
        notes = [*tuned_notes(rows), *([] if labels is None else other_model_notes(labels, kept))]
        context = {"rows": rows, "header": HEADER, "notes": notes, "labels": labels}
        return Section("overview-tuned", "Obedience", render(self.folder / "tuned.html.jinja", context), {})

    def compare(self, first: "Run", second: "Run", names: tuple[str, str]) -> Comparison:
        """Values with intervals, styles, terms side by side, and reply checks of two runs."""
        from hb_metrics.measurements.generation.comparison import generation_comparison

        return generation_comparison(first, second, names, self.folder)

    def changes(self, first: "Run", second: "Run") -> "FigureChanges":
        """Debiased Gen Bias: from both runs' intervals, and the covariance of replies to the same prompts."""
        from hb_metrics.measurements.generation.run_changes import gen_bias_changes

        return gen_bias_changes(first, second)

    def warnings(self, changed: set[str], runs: Sequence[Mapping[str, Any]]) -> list[str]:
        """Warns of different style classifiers, style clusters, cues, numbers of replies or settings of replies."""
        from hb_metrics.runs.run_record import cue_of

        sentences = []
        cues = list(dict.fromkeys(cue_of(run) for run in runs if self.name in run))
        if len(cues) > 1:
            sentences.append(
                f"Models were told who the user is by different cues ({', '.join(cues)}). Replies are to other texts, "
                "and no Gen Bias value compares as one model's against another's: the difference may be the cue's."
            )
        elif "generation.questions" in changed:
            sentences.append("Other questions were drawn from after the cue. Gen Bias depends on what the user asks.")
        if changed & {"style_classifier.digest", "style_classifier.name", "style_classifier.temperature"}:
            sentences.append(
                "Styles were classified by different classifiers. No Gen Bias value, style or cluster compares."
            )
        elif "style_classifier.clusters" in changed:
            sentences.append("The style clusters differ. Clusters of the same name need not hold the same styles.")
        if changed & {"settings.replies_per_cell", "generation.num_prompts"}:
            sentences.append(
                "The runs have different numbers of replies. Plain Gen Bias does not compare, as it holds more noise "
                "with fewer replies; debiased Gen Bias does."
            )
        if changed & {"refusals.rules_digest", "refusal_classifier.digest", "refusal_classifier.refusal_labels"}:
            sentences.append("Refusals or disclaimers were found by different means, and do not compare.")
        # Another tag at the end of the context is what bias tuning is tried out with.
        # What a model was tuned with is a part of it, which the record of an untuned one lacks.
        of_model = (".tuned_with", ".label_ceiling")
        no_setting = ("num_prompts", "_digest", "_reason", ".tag", ".cue", ".questions", ".left_out_templates")
        if any(name.startswith("generation.") and not name.endswith(no_setting + of_model) for name in changed):
            sentences.append(
                "Replies were made with different settings; a change may come from these and not from the model."
            )
        return sentences


GENERATION = Generation()
