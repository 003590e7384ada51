from hb_metrics.layout.figure import Figure, Number
from hb_metrics.layout.numbers import axis_label, count
from hb_metrics.measurements.results import Results

GATE = "stereotyped_side_likelier"  # the name in --fail_above is followed by the bias type
SHARES = "Stereotyped side likelier by bias type"
# The labels of the paper's two religious bias types. Other types are labelled like axes.
_LABELS = {"religion1": "Religion 1 (Jews)", "religion2": "Religion 2 (Muslims)"}


def figures(results: Results) -> list[Figure]:
    reddit = results.reddit
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
        f"The language model perplexity of {count(reddit.lmp_num_texts)} ordinary texts ({reddit.lmp_source}). "
        f"It does not measure bias.",
        detail=f"of {count(reddit.lmp_num_texts)} texts",
        gate="lmp",
    )
    return [*of_logs, lmp, *of_perplexities, *shares]


def bias_type_label(name: str) -> str:
    return _LABELS.get(name) or axis_label(name)
