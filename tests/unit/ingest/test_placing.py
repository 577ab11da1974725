"""A record's folder can be read back, keeps null, empty and "null" apart, and lies below the destination."""

from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.adapters.storage.paths import check_path
from airflow_kafka_hdfs.exceptions import ConfigError, DecodeError
from airflow_kafka_hdfs.ingest.placing import (
    DEFAULT_TEMPLATE,
    Placing,
    field_element,
    parse_fields,
    parse_template,
    read_element,
)
from airflow_kafka_hdfs.ingest.timepath import TimePath, parse_pattern

TIMES = TimePath(parse_pattern("yyyy/MM/dd"), UTC)
DAY = 1391252400000
values = st.none() | st.text(max_size=10) | st.integers() | st.booleans() | st.dates() | st.uuids()


def placing(*fields, topic="events", template=DEFAULT_TEMPLATE, lenient=False):
    return Placing(topic, parse_template(template), parse_fields(fields), TIMES, lenient=lenient)


def folder(value, *fields, **more):
    return placing(*fields, **more).place(value, DAY).folder


@pytest.mark.parametrize(
    ("name", "value", "element"),
    [
        ("string", "def", "string=def"),
        ("int", 12, "int=12"),
        ("boolean", True, "boolean=true"),
        ("boolean", False, "boolean=false"),
        ("string", "", "string="),
        ("string", None, "string=__HIVE_DEFAULT_PARTITION__"),
        ("string", "null", "string=null"),
        ("string", "__HIVE_DEFAULT_PARTITION__", "string=%5F_HIVE_DEFAULT_PARTITION__"),
        ("path", "test/with\\special:chars=and+spaces", "path=test%2Fwith%5Cspecial%3Achars%3Dand%2Bspaces"),
        ("up", "..", "up=%2E."),
        ("rate", "100%", "rate=100%25"),
        ("day", date(2014, 2, 1), "day=2014-02-01"),
        ("id", UUID(int=5), "id=00000000-0000-0000-0000-000000000005"),
        ("a=b", "c", "a%3Db=c"),
    ],
)
@pytest.mark.bug(43, 44)
def test_elements_of_fields(name, value, element):
    assert field_element(name, value) == element
    assert read_element(element)[0] == name


@given(st.text(min_size=1, max_size=10), values, values)
def test_different_values_of_one_type_have_different_folders(name, left, right):
    one, two = field_element(name, left), field_element(name, right)
    if type(left) is type(right):
        assert (one == two) == (left == right)
    elif left is None or right is None:
        assert one != two


@given(st.text(min_size=1, max_size=10), st.none() | st.text(max_size=10))
def test_names_and_texts_are_read_back(name, value):
    assert read_element(field_element(name, value)) == (name, value)


@pytest.mark.parametrize("value", [1.5, [1], {"a": 1}, b"x", Decimal("1.5"), datetime(2014, 2, 1, tzinfo=UTC)])
def test_what_can_not_name_a_folder_is_an_error_with_name_and_type(value):
    with pytest.raises(DecodeError, match=f"bad_field: partition field 'f' is a {type(value).__name__}; allowed: text"):
        field_element("f", value)


def test_a_value_that_no_store_takes_as_a_name_is_an_error():
    assert field_element("f", "x" * 253)
    with pytest.raises(DecodeError, match="has 256 bytes, allowed: 255"):
        field_element("f", "x" * 254)


def test_nested_fields_and_null_parents():
    name = "user.address.city"
    assert folder({"user": {"address": {"city": "NYC"}}}, name) == "events/user.address.city=NYC/2014/02/01"
    null = "events/user.address.city=__HIVE_DEFAULT_PARTITION__/2014/02/01"
    for value in ({"user": {"address": {"city": None}}}, {"user": {"address": None}}, {"user": None}):
        assert folder(value, name) == null
    for value in ({"user": {}}, {}, {"user": 5}):
        with pytest.raises(DecodeError, match="bad_field: partition field 'user.address.city': 'user"):
            folder(value, name)


def test_in_json_a_field_that_is_not_there_is_null():
    assert folder({}, "country", lenient=True) == "events/country=__HIVE_DEFAULT_PARTITION__/2014/02/01"
    with pytest.raises(DecodeError, match="no record"):
        folder(["a"], "country", lenient=True)


@pytest.mark.bug(47)
def test_several_fields_and_other_templates():
    value = {"a": 1, "b": "x"}
    assert folder(value, "a", "b") == "events/a=1/b=x/2014/02/01"
    assert folder(value, "a", template="data/{time}/{topic}-v2/{fields}/") == "data/2014/02/01/events-v2/a=1"
    assert folder(value, template="data/{fields}/{time}") == "data/2014/02/01"
    assert folder(value) == "events/2014/02/01"
    assert placing().place(None, DAY).time.key == "2014-02-01T00:00:00"


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{topic}", r"without \{time\}"),
        ("{topic}/{tiem}", r"did you mean \{time\}"),
        ("{topic}/{}/{time}", "allowed: a relative path"),
        ("/{topic}/{time}", "path element ''"),
        ("{topic}//{time}", "path element ''"),
        ("../{time}", r"path element '\.\.'"),
        ("{topic}/../../{time}", r"path element '\.\.'"),
        ("_x/{time}", "path element '_x'"),
        (".{topic}/{time}", "invisible"),
        ("{topic}/by-{fields}/{time}", "elements of its own"),
        ("{topic}/{time", "a brace stands alone"),
        ("{topic}/a:b/{time}", "can't stand in every store's paths"),
        ("", "empty"),
        (None, "empty"),
    ],
)
def test_templates_that_can_not_work_are_refused(template, said):
    with pytest.raises(ConfigError, match=said):
        parse_template(template)


@pytest.mark.parametrize("names", [["a", "a"], [""], ["a..b"], ["a."], [None], "country"])
def test_names_of_fields_are_checked(names):
    with pytest.raises(ConfigError, match="partition_fields"):
        parse_fields(names)


def test_fields_need_a_place_in_the_template():
    with pytest.raises(ConfigError, match="country have no place in it"):
        placing("country", template="{topic}/{time}")


@given(st.text(min_size=1, max_size=10), values, st.text("ab._/é %=", min_size=1, max_size=10))
def test_nothing_leaves_the_destination(topic, value, name):
    place = Placing(topic, parse_template(DEFAULT_TEMPLATE), (name,), TIMES)
    nested = value
    for part in reversed(name.split(".")):
        nested = {part: nested}
    path = place.place(nested, DAY).folder
    assert check_path("test", path) == path
    assert len(path.split("/")) == 5
    assert not any(element[0] in "._" for element in path.split("/"))
