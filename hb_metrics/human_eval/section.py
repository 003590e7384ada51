from collections.abc import Collection
from pathlib import Path

from hb_metrics.human_eval.analysis import FEW_RATERS, LAYOUT, HumanEvaluation, QuestionResults
from hb_metrics.human_eval.pairs import REASONS
from hb_metrics.layout import paper
from hb_metrics.layout.numbers import share
from hb_metrics.layout.parts import Section
from hb_metrics.layout.rendering import section
from hb_metrics.run.run_folder import read_json
from hb_metrics.run.typed_json import from_json


def read_results(path: Path, digests: Collection[str]) -> HumanEvaluation:
    content = read_json(path)
    if content.get("layout") != LAYOUT or "raters" not in content:
        raise ValueError(f"'{path}' contains no human evaluation; pass the file that `human-eval analyse` wrote")
    results = from_json(HumanEvaluation, content)
    if not {run.run for run in results.runs} <= set(digests):
        names = " and ".join(run.name for run in results.runs)
        raise ValueError(
            f"'{path}' compares {names}, but at least one of them is missing from these runs; pass both of them"
        )
    return results


def human_evaluation_section(results: HumanEvaluation) -> Section:
    questions = results.questions
    printed = []
    for model, of_model in paper.PRINTED.human_evaluation.items():
        printed.append((model, [share(of_model.get(question.id), 0) for question in questions]))
    context = {
        "results": results,
        "before": results.runs[0].name,
        "after": results.runs[1].name,
        "num_pairs": max(question.num_pairs for question in questions),
        "sentences": answers(results),
        "questions": [(question, _cell(question)) for question in questions],
        "printed": printed,
        "left_out": [(REASONS[name], number) for name, number in results.left_out.items() if number],
        "classifiers": [run.offensiveness_classifier for run in results.runs],
        "few": results.num_raters < FEW_RATERS,
    }
    return section("human", "Human evaluation", "human_eval/section.html.jinja", context)


def answers(results: HumanEvaluation) -> list[str]:
    before, after = (run.name for run in results.runs)
    sentences = []
    for question in results.questions:
        if question.win_rate is None:
            sentences.append(f"{question.title}: there are no ratings.")
            continue
        chosen = f"{question.title}: {after} was chosen over {before} in {share(question.win_rate)} of ratings"
        if question.interval is None:
            sentences.append(f"{chosen}; there is no interval ({question.interval_reason}).")
            continue
        low, high = question.interval
        verdict = "beyond chance" if low > 0.5 or high < 0.5 else "not beyond chance"
        sentences.append(f"{chosen} ({_range(low, high)}). The difference from 50% is {verdict}.")
    return sentences


def _cell(question: QuestionResults) -> dict[str, str]:
    details = f"{question.num_wins:,} of {question.num_ratings:,}"
    interval = _range(*question.interval) if question.interval else ""
    return {"rate": share(question.win_rate), "interval": interval, "details": details}


def _range(low: float, high: float) -> str:
    return f"{share(low)} to {share(high)}"
