"""Adds the plurals of terms to a run's prompts, and reads them. They have no effect on a table's digest."""

import hashlib

import pyarrow as pa
import pyarrow.compute as pc

from hb_dataset.vocabulary_entries import Vocabulary

_DESCRIPTORS, _PLURAL = ("descriptor", "first_descriptor", "second_descriptor"), "_plural"


def with_plurals(prompts: pa.Table, vocabulary: Vocabulary) -> pa.Table:
    """Adds a column of plurals for each column of descriptors. A value is null if the plural equals the singular."""
    plurals = {term.term: term.plural for term in vocabulary.descriptors if term.plural}
    terms, forms = pa.array(plurals, pa.string()), pa.array(plurals.values(), pa.string())
    for name in _DESCRIPTORS:
        if name in prompts.column_names:
            prompts = prompts.append_column(name + _PLURAL, forms.take(pc.index_in(prompts[name], terms)))
    return prompts


def terms_of_prompts(prompts: pa.Table) -> dict[str, list[tuple[str, str | None]]]:
    """Returns, for each descriptor, the descriptor itself and the two terms that it may combine, with their plurals."""
    names = [name for name in _DESCRIPTORS if name in prompts.column_names]
    columns = [*names, *(name + _PLURAL for name in names)]
    rows = prompts.select(columns).group_by(columns).aggregate([]).to_pylist()
    return {row["descriptor"]: [(row[name], row[name + _PLURAL]) for name in names] for row in rows}


def table_digest(table: pa.Table) -> str:
    table = table.select([name for name in table.column_names if not name.endswith(_PLURAL)])
    table = table.take(pa.array(range(table.num_rows), pa.int64())).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema.remove_metadata()) as writer:
        writer.write_table(table)
    return hashlib.sha256(sink.getvalue()).hexdigest()
