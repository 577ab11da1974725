import pytest


@pytest.fixture(autouse=True, scope="session")
def airflow_home(tmp_path_factory) -> None:
    """Airflow makes its home when it is imported; it belongs to the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_HOME", str(tmp_path_factory.mktemp("airflow-home")))
        import airflow  # noqa: F401

        yield
