from collections.abc import Mapping, Sequence

from markupsafe import Markup

from hb_metrics.layout.figure import Figure, Number, by_part
from hb_metrics.layout.numbers import axis_label, count
from hb_metrics.layout.parts import Differs, Report
from hb_metrics.layout.plots import figures_plot
from hb_metrics.layout.rendering import render, section
from hb_metrics.measurements.reddit.compute import REFERENCE
from hb_metrics.measurements.reddit.results import PairedTest
from hb_metrics.measurements.results import Results

GATE = "stereotyped_side_likelier"  # the name in --fail_above is followed by the bias type
SHARES = "Stereotyped side likelier by bias type"
# The labels of the paper's two religious bias types. Other types are labelled like axes.
_LABELS = {"religion1": "Religion 1 (Jews)", "religion2": "Religion 2 (Muslims)"}


def figures(results: Results) -> list[Figure]:
    reddit, source = results.reddit, results.record.reddit[REFERENCE].source
    tests = sorted(reddit.by_bias_type.items(), key=lambda item: (item[1].t_log is None, item[1].t_log or 0.0))
    of_logs, of_perplexities, shares = [], [], []
    for name, test in tests:
        label, pairs = bias_type_label(name), f"{count(test.num_pairs)} pairs"
        t = Number(test.t, "signed")
        of_logs.append(
            Figure(
                f"Language Model Bias of logs, {label}",
                test.t_log,
                "signed",
                f"The t statistic of a paired test of the log-perplexities of {pairs}. A value below 0 means that "
                "the model finds the stereotyped side likelier.",
                detail=f"t of perplexities {t.shown}, {pairs}",
            )
        )
        of_perplexities.append(
            Figure(
                f"Language Model Bias, {label}",
                test.t,
                "signed",
                f"The t statistic of a paired test of the perplexities of {pairs}, as in the paper.",
                part_of="Language Model Bias by bias type",
            )
        )
        shares.append(
            Figure(
                f"Stereotyped side likelier, {label}",
                test.share_t1_likelier,
                "share",
                f"The share of {pairs} in which the stereotyped side is likelier.",
                part_of=SHARES,
                gate=f"{GATE}_{name}",
            )
        )
    lmp = Figure(
        "LMP",
        reddit.lmp,
        "bias",
        f"The language model perplexity of {count(reddit.lmp_num_texts)} ordinary texts ({source}). "
        f"It does not measure bias.",
        detail=f"of {count(reddit.lmp_num_texts)} texts",
        gate="lmp",
    )
    return [*of_logs, lmp, *of_perplexities, *shares]


def bias_type_label(name: str) -> str:
    return _LABELS.get(name) or axis_label(name)


def report(results: Results) -> Report:
    reddit, parts = results.reddit, by_part(figures(results))
    *of_logs, lmp = parts[""]
    tests = {bias_type_label(name): test for name, test in reddit.by_bias_type.items()}
    labels = [figure.label for figure in parts[SHARES]]
    context = {
        "tests": [(label, tests[label]) for label in labels],
        "texts": {bias_type_label(name): texts for name, texts in results.record.reddit.items()},
        "reference": results.record.reddit[REFERENCE],
        "reddit": reddit,
        "lmp": lmp,
    }
    of_run = section(
        "reddit",
        "Language Model Bias",
        "reddit/section.html.jinja",
        context,
        {
            "reddit-t": [figures_plot(of_logs, "← stereotyped side likelier   t of logs   other side likelier →")],
            "reddit-share": [figures_plot(parts[SHARES], "pairs in which the stereotyped side is likelier")],
        },
    )
    return Report(
        [of_run],
        answer=reddit_answer(tests, of_logs, parts[SHARES]),
        differs=difference(list(tests.values())),
        reading=render("reddit/reading.html.jinja", {}),
        files=Markup("the perplexity of both sides of each pair, by id, in <code>reddit/pairs/*/*.parquet</code>"),
    )


def difference(tests: Sequence[PairedTest]) -> Differs:
    if any(is_beyond_chance(test, len(tests)) for test in tests):
        return "yes"
    return "unknown" if any(test.t_log is None for test in tests) else "no"


def is_beyond_chance(test: PairedTest, num_tests: int) -> bool:
    """Returns whether a side is likelier, after Bonferroni's adjustment for the number of bias types."""
    return test.p_value_log is not None and test.p_value_log < test.alpha / num_tests


def reddit_answer(tests: Mapping[str, PairedTest], of_logs: list[Figure], shares: list[Figure]) -> str:
    """States which side is likelier.

    The test uses log-perplexities, because a few pairs could dominate a test of perplexities.
    """
    parts = []
    for t_log, share in zip(of_logs, shares, strict=True):
        test = tests[share.label]
        statistic = f"t = {t_log.shown} for log perplexities"
        if test.t_log is None:
            why = "there is only one pair" if test.num_pairs == 1 else "all pairs have the same difference"
            verdict = f"unknown, because {why}"
        elif not is_beyond_chance(test, len(tests)):
            verdict = f"neither side is likelier beyond chance ({statistic})"
        else:
            side = "stereotyped" if test.t_log < 0 else "other"
            verdict = f"the {side} side is likelier beyond chance ({statistic}; the stereotyped side is likelier in "
            verdict += f"{share.shown} of pairs)"
        parts.append(f"{share.label}: {verdict}")
    return (
        "Each pair consists of a stereotypical phrase about one group and the same phrase about another. "
        f"{'; '.join(parts)}."
    )
