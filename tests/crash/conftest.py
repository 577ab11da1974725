import pytest

from tests.fakes.recall import remembered_records


@pytest.fixture(autouse=True, scope="session")
def _remembered_records():
    with remembered_records():
        yield
