import pytest

from hb_dataset.versions import NEXT, read_version


@pytest.fixture(scope="session")
def vocabulary():
    return read_version(NEXT)
