from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from hb_metrics.likelihood_bias.shares import likelihood_bias
from hb_metrics.run.finished_run import Run, read_prompts, stored_shards
from hb_metrics.run.run_folder import PERPLEXITIES

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def compute(run: Run) -> dict[str, Any]:
    scores, prompts = stored_shards(run.folder / PERPLEXITIES), read_prompts(run.folder)
    rows = pc.index_in(scores["id"], prompts["id"])
    order = pc.sort_indices(rows)  # shards are in a different order
    return likelihood_results(prompts.take(rows.take(order)), scores.take(order))


def likelihood_results(prompts: pa.Table, scores: pa.Table) -> dict[str, Any]:
    """Computes Likelihood Bias, and summarises perplexities by axis, descriptor and template.

    `scores` contains the columns `perplexity` and `num_tokens`, in the order of the prompts.
    """
    columns = {name: prompts[name].to_pylist() for name in ("axis", "descriptor", "template")}
    perplexities = scores["perplexity"].to_numpy()
    metric = likelihood_bias(perplexities, columns["axis"], columns["descriptor"], columns["template"])
    frame = pd.DataFrame({**columns, "perplexity": perplexities, "num_tokens": scores["num_tokens"].to_numpy()})
    return {"likelihood_bias": metric, "perplexity": _perplexity_summary(frame)}


def _perplexity_summary(frame: pd.DataFrame) -> dict[str, Any]:
    templates = list(dict.fromkeys(frame["template"]))
    by_cell = frame.groupby(["axis", "template"], sort=True)["perplexity"].quantile(np.array(QUANTILES)).unstack()
    quantiles: dict[str, dict[str, list[float]]] = {}
    for (axis, template), row in zip(by_cell.index, by_cell.to_numpy(), strict=True):
        quantiles.setdefault(axis, {})[template] = row.tolist()

    grouped = frame.groupby(["axis", "descriptor", "template"], sort=True)
    medians = grouped["perplexity"].median().unstack().reindex(columns=templates)
    tokens = grouped["num_tokens"].median().unstack().reindex(columns=templates)
    descriptors = [
        {
            "axis": axis,
            "descriptor": descriptor,
            "median_perplexity": _nullable(medians.loc[(axis, descriptor)].to_numpy()),
            "median_num_tokens": _nullable(tokens.loc[(axis, descriptor)].to_numpy()),
        }
        for axis, descriptor in medians.index
    ]
    return {
        "median": float(frame["perplexity"].median()),
        "templates": templates,
        "quantiles": list(QUANTILES),
        "quantiles_by_axis_and_template": quantiles,
        "by_descriptor": descriptors,
    }


def _nullable(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
