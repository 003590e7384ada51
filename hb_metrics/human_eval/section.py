from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from hb_metrics.human_eval.analysis import FEW_RATERS, LAYOUT
from hb_metrics.human_eval.pairs import REASONS
from hb_metrics.layout import paper
from hb_metrics.layout.numbers import share
from hb_metrics.layout.parts import Section
from hb_metrics.layout.rendering import render
from hb_metrics.run.run_folder import read_json


def read_results(path: Path, digests: Collection[str]) -> dict[str, Any]:
    results = read_json(path)
    problem = None
    if results.get("layout") != LAYOUT or "raters" not in results:
        problem = "contains no human evaluation; pass the file that `human-eval analyse` wrote"
    elif not {run["run"] for run in results["runs"]} <= set(digests):
        names = " and ".join(run["name"] for run in results["runs"])
        problem = f"compares {names}, but at least one of them is missing from these runs; pass both of them"
    if problem is not None:
        raise ValueError(f"'{path}' {problem}")
    return results


def human_evaluation_section(results: Mapping[str, Any]) -> Section:
    questions = results["questions"]
    printed = []
    for model, of_model in paper.PRINTED["human_evaluation"].items():
        printed.append((model, [share(of_model.get(question["id"]), 0) for question in questions]))
    context = {
        "results": results,
        "before": results["runs"][0]["name"],
        "after": results["runs"][1]["name"],
        "num_pairs": max(question["num_pairs"] for question in questions),
        "sentences": answers(results),
        "questions": [(question, _cell(question)) for question in questions],
        "printed": printed,
        "left_out": [(REASONS[name], number) for name, number in results["left_out"].items() if number],
        "classifiers": [run["offensiveness_classifier"] for run in results["runs"]],
        "few": results["num_raters"] < FEW_RATERS,
    }
    return Section("human", "Human evaluation", render("human_eval/section.html.jinja", context), {})


def answers(results: Mapping[str, Any]) -> list[str]:
    before, after = (run["name"] for run in results["runs"])
    sentences = []
    for question in results["questions"]:
        if question["win_rate"] is None:
            sentences.append(f"{question['title']}: there are no ratings.")
            continue
        chosen = f"{question['title']}: {after} was chosen over {before} in {share(question['win_rate'])} of ratings"
        if question["interval"] is None:
            sentences.append(f"{chosen}; there is no interval ({question['interval_reason']}).")
            continue
        low, high = question["interval"]
        verdict = "beyond chance" if low > 0.5 or high < 0.5 else "not beyond chance"
        sentences.append(f"{chosen} ({_range(low, high)}). The difference from 50% is {verdict}.")
    return sentences


def _cell(figures: Mapping[str, Any]) -> dict[str, str]:
    details = f"{figures['num_wins']:,} of {figures['num_ratings']:,}"
    interval = _range(*figures["interval"]) if figures["interval"] else ""
    return {"rate": share(figures["win_rate"]), "interval": interval, "details": details}


def _range(low: float, high: float) -> str:
    return f"{share(low)} to {share(high)}"
