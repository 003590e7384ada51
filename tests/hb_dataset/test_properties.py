"""Any file of a vocabulary is read or reported."""

import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hb_dataset import FaultsError, read_vocabulary

FILES = {
    "mood.yaml": b"axis: mood\nsource: Doe (2024)\nterms:\n  - term: cheerful\n    note: |\n      a\n      b\n",
    "way.yaml": b'axis: way\nterms:\n- {term: "with a hat", plural: with hats, bucket: after_the_noun}\n',
    "nouns.yaml": b"nouns:\n  - noun: woman\n    plural: women\n    gender: female\n  - noun: kid\n    plural: kids\n",
    "templates.yaml": b'templates:\n  - template: "I know {noun_phrase}."\n    small: true\n',
    "seat_templates.yaml": b'templates:\n  - template: "{plural_noun_phrase} are here."\n',
    "adjective_order.yaml": b"classes:\n  - name: opinion\n    axis: mood\n",
    "left_out_pairs.yaml": b"pairs:\n  - axis: mood\n    because: same\n    terms: [cheerful]\n    other_axis: way\n",
    "left_out_nouns.yaml": b"combinations:\n  - {axis: mood, terms: [cheerful], nouns: [kid], because: same}\n",
}
SIGNS = "&a |*a|!!int |null|- |? |---\n|terms:|term: |<<: |\u00a0|\u2028|\\u2028|\x85"
PIECES = [b"", *(bytes([byte]) for byte in b"\n -:'\"\t{}[]|\x00\xff"), *map(str.encode, SIGNS.split("|"))]
SLIPS = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 6), st.sampled_from(PIECES)), min_size=1, max_size=3)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(FILES)), SLIPS)
def test_a_vocabulary_with_a_slip_is_read_or_reported(tmp_path, name, slips):
    """Either it has no fault, or all are known, sorted, of its files and at lines that they have."""
    files = dict(FILES)
    for start, length, piece in slips:
        files[name] = files[name][:start] + piece + files[name][start + length :]
    for file, content in files.items():
        (tmp_path / file).write_bytes(content)
    try:
        read_vocabulary(tmp_path)
    except FaultsError as error:
        check_faults(str(error), error.faults, files)


def check_faults(message, faults, files):
    assert faults
    assert faults == sorted(faults)
    for fault in faults:
        assert fault.file in (*files, "<axis>.yaml")
        lines = re.split(rb"\r\n|\r|\n", files.get(fault.file, b""))  # as an editor counts them
        assert 1 <= fault.line <= len(lines)
        assert len(fault.message.splitlines()) == 1
    assert message.splitlines()[1:] == [f"  {fault.file}:{fault.line}: {fault.message}" for fault in faults]
