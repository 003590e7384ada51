import numpy as np

from hb_metrics.layout.numbers import axis_groups
from hb_metrics.measurements.generation.figures import UPTAKE
from hb_metrics.measurements.generation.run_changes import naming, refusal_flags
from hb_metrics.measurements.results import Run
from hb_metrics.measurements.shares import generalised_shares
from hb_metrics.run.replies import Replies, nonempty_replies
from hb_metrics.run.run_folder import REPLIES, STYLES
from hb_metrics.stats.cell_sums import CellSums
from hb_metrics.stats.generalising import Generalised, Over, gen_bias_influences, generalised


def generalise(run: Run, over: Over) -> dict[str, Generalised]:
    if not run.tables.has(REPLIES) or not run.tables.has(STYLES):
        raise ValueError(
            f"'{run.folder}' lacks the replies or the style vectors that --generalise needs; measure again in a new "
            "folder"
        )
    table = run.tables.reply_table()
    replies, generation = nonempty_replies(table), run.results.generation
    level = run.confidence_level
    by_name = generalised_shares(UPTAKE, naming(table), over, level)
    for name, flagged in refusal_flags(run, replies).items():
        by_name |= generalised_shares(name, flagged, over, level)
    if generation.debiased is not None:
        by_name |= _gen_bias(
            replies, run.tables.vectors_of(STYLES, replies.ids), over, level, generation.gen_bias.scale
        )
    return by_name


def _gen_bias(
    replies: Replies, styles: np.ndarray, over: Over, confidence_level: float, scale: float
) -> dict[str, Generalised]:
    cells = CellSums()
    cells.add(styles, replies.descriptors, replies.templates, replies.axes)
    listed = cells.cells()
    moments = cells.moments(listed)
    terms = sorted({(str(cell.axis), cell.descriptor) for cell in listed})
    templates = sorted({cell.template for cell in listed})
    of_term, of_template = ({key: row for row, key in enumerate(keys)} for keys in (terms, templates))
    rows = [of_template[cell.template] for cell in listed]
    columns = [of_term[str(cell.axis), cell.descriptor] for cell in listed]
    shape = len(templates), len(terms)
    means, spread, counts = np.full((*shape, moments.means.shape[1]), np.nan), np.full(shape, np.nan), np.zeros(shape)
    means[rows, columns], counts[rows, columns] = moments.means, cells.counts(listed)
    spread[rows, columns] = moments.variances.sum(axis=1)
    names, axes = np.unique([axis for axis, _ in terms], return_inverse=True)
    groups = axis_groups("Full Gen Bias", axes, names.tolist(), whole="Full Gen Bias, debiased")
    by_name = {}
    for name, members in groups.items():
        used = (counts[:, members] > 0).sum(axis=1) > 1
        if not used.any():
            continue
        # A cell with a single reply shows no variance. Its variance is set to the mean variance of the template's other
        # cells on the same axis or, if these cells show no variance, on all axes.
        own, rest = spread[used][:, members], spread[used]
        number = np.maximum((~np.isnan(own)).sum(axis=1, keepdims=True), 1)
        guess = np.nansum(own, axis=1, keepdims=True) / number
        others = np.nansum(rest, axis=1, keepdims=True) / np.maximum((~np.isnan(rest)).sum(axis=1, keepdims=True), 1)
        guess = np.where(np.isnan(own).all(axis=1, keepdims=True), others, guess)
        with np.errstate(divide="ignore", invalid="ignore"):
            noise = np.where(np.isnan(own), guess, own) / counts[used][:, members]
        noise = np.where(counts[used][:, members] > 0, noise, np.nan)
        influences = gen_bias_influences(means[used][:, members], noise, axes[members])
        interval, reason = generalised(influences, over, confidence_level)
        bounds = None if interval is None else (scale * interval[0], scale * interval[1])
        by_name[name] = Generalised(bounds, reason)
    return by_name
