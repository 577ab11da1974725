"""Instants find the folder that people expect, in every zone, and folders know their first moment."""

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.exceptions import ConfigError, DecodeError
from airflow_kafka_hdfs.ingest.choices import PATTERNS, Granularity
from airflow_kafka_hdfs.ingest.timepath import TimePath, load_zone, parse_pattern

LA = "America/Los_Angeles"
HIVE = "'year='yyyy/'month='MM/'day='dd/'hour='HH"


def folder(millis: int, pattern: str, zone: str = "UTC"):
    return TimePath(parse_pattern(pattern), load_zone(zone)).folder(millis)


@pytest.mark.parametrize(
    ("millis", "pattern", "zone", "path"),
    [
        pytest.param(1391252400000, HIVE, LA, "year=2014/month=02/day=01/hour=03", id="named folders"),
        pytest.param(1391252400000, "yyyy/MM/dd/HH", LA, "2014/02/01/03", id="hourly"),
        pytest.param(1391252400000, "yyyy/MM/dd", LA, "2014/02/01", id="daily"),
        pytest.param(1706411853000, HIVE, "America/Santiago", "year=2024/month=01/day=28/hour=00", id="Santiago"),
        pytest.param(
            1427961600000,
            "'year'=YYYY/'month'=M/'day'=d/'hour'=H/",
            LA,
            "year=2015/month=4/day=2/hour=1",
            id="folders of one hour, slash at the end dropped",
        ),
        pytest.param(12, "yyyy/MM/dd/HH", LA, "1969/12/31/16", id="1969 local"),
        pytest.param(12, "yyyy/MM/dd/HH", "UTC", "1970/01/01/00", id="1970 UTC"),
        pytest.param(1388541600000, "yyyy/MM/dd/HH", "Europe/Amsterdam", "2014/01/01/03", id="Amsterdam"),
        pytest.param(
            1405911096000, "'dt='yyyy-MM-dd/'hr='HH/'min='mm", "UTC", "dt=2014-07-21/hr=02/min=51", id="quotes"
        ),
        pytest.param(1405911096000, "'hr='HH-yyyy-MM-dd", "Asia/Kolkata", "hr=08-2014-07-21", id="Kolkata"),
        pytest.param(1446366600000, HIVE, LA, "year=2015/month=11/day=01/hour=01", id="repeated hour, first pass"),
        pytest.param(1446370200000, HIVE, LA, "year=2015/month=11/day=01/hour=01", id="repeated hour, second pass"),
        pytest.param(1546257600000, "YYYY/MM/dd", "UTC", "2018/12/31", id="2018", marks=pytest.mark.bug(52)),
        pytest.param(1735560000000, "YYYY/MM/DD", "UTC", "2024/12/30", id="2024"),
        pytest.param(1420099200000, "yyyy/MM/dd", LA, "2015/01/01", id="new year, first"),
        pytest.param(1420185600000, "yyyy/MM/dd", LA, "2015/01/02", id="new year, second"),
        pytest.param(1420272000000, "yyyy/MM/dd", LA, "2015/01/03", id="new year, third"),
        pytest.param(0, "yyyyMMdd", "UTC", "19700101", id="units without separator"),
        pytest.param(0, "u/M/d", "UTC", "1970/1/1", id="unpadded"),
        pytest.param(0, "'of the year 'yyyy, MM", "UTC", "of the year 1970, 01", id="quoted words"),
    ],
)
def test_vectors_of_the_peers(millis, pattern, zone, path):
    assert folder(millis, pattern, zone).path == path


def test_folders_of_several_hours_as_peers_have_them_are_no_part_of_a_pattern():
    """Peers cut local days into durations; ours are units of the calendar."""
    assert {g.value for g in Granularity} == {"minutely", "hourly", "daily", "monthly", "yearly"}


@pytest.mark.parametrize(
    ("granularity", "pattern", "path"),
    [
        (Granularity.MINUTELY, "yyyy/MM/dd/HH/mm", "2014/07/21/02/51"),
        (Granularity.HOURLY, "yyyy/MM/dd/HH", "2014/07/21/02"),
        (Granularity.DAILY, "yyyy/MM/dd", "2014/07/21"),
        (Granularity.MONTHLY, "yyyy/MM", "2014/07"),
        (Granularity.YEARLY, "yyyy", "2014"),
    ],
)
def test_a_granularity_alone_gives_the_whole_date(granularity, pattern, path):
    """Gobblin writes the hour alone (`14`), so that all days fall together."""
    assert PATTERNS[granularity] == pattern
    assert parse_pattern(pattern).granularity is granularity
    assert folder(1405911096000, pattern).path == path


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        pytest.param("year=YYYY/month=MM", "letter 'e'", marks=pytest.mark.bug(46)),  # quotes eaten by a shell
        ("xxxx/MM/dd", "letter 'x': it is the week-year"),
        ("yyyy/ww", "letter 'w'"),
        ("yyyy/MM/dd/hh", "letter 'h': hours of a half day"),
        ("yyyy/MM/dd/HH/mm/ss", "letter 's'"),
        ("yyyy/MMM/dd", "names of months"),
        ("yyyy/DDD", "days of the year"),
        ("yy/MM", "fold centuries"),
        ("yyyyy", "stands 5 times"),
        ("HH", "not the year"),  # all days would fall together
        ("yyyy/dd", "not the month"),
        ("'all'", "no unit of time"),
        ("yyyy/'MM", "quote at position 6 is never closed"),
        ("", "empty"),
        ("/", "empty"),
        ("/yyyy", "path element ''"),
        ("yyyy//MM", "path element ''"),
        ("../yyyy", "path element '..'"),
        ("'_'yyyy", "path element '_2000'"),
        (".yyyy", "path element '.2000'"),
        ("yyyy-MM-dd HH:mm", "character ':'"),
        ("yyyy\\MM", "character '\\\\\\\\'"),
        ("yyyy/é", "letter 'é'"),
        ("yyyy/'é'", "character 'é'"),
        ("yyyy/''/MM", 'character "\'"'),
        ("yyyy/'o''clock'/MM", 'character "\'"'),
    ],
)
def test_patterns_that_would_mislead_are_refused_by_name(pattern, said):
    with pytest.raises(ConfigError, match=said) as caught:
        parse_pattern(pattern)
    assert caught.value.key == "path_pattern"
    assert "single quotes" in str(caught.value)


def test_no_pattern_at_all_is_refused():
    with pytest.raises(ConfigError, match="empty"):
        parse_pattern(None)


@pytest.mark.parametrize("name", ["Mars/X", "", "America", "../etc/passwd", "europe/Amsterdm", None, 7])
@pytest.mark.bug(49)
def test_unknown_zones_are_configuration_errors(name):
    with pytest.raises(ConfigError, match="timezone: got .*IANA names"):
        load_zone(name)


def test_a_mistyped_zone_is_told_the_nearest_names():
    with pytest.raises(ConfigError, match="nearest: .*America/Los_Angeles"):
        load_zone("America/Los_Angles")


def test_instants_that_no_calendar_has_are_bad_times_not_crashes():
    for millis in (-(2**63), 2**63 - 1, 253402300800000, -62135596800001):
        with pytest.raises(DecodeError, match="bad_time: .*outside the years 1 to 9999"):
            folder(millis, "yyyy/MM/dd/HH", LA)


@pytest.mark.parametrize(
    ("millis", "pattern", "zone", "key"),
    [
        pytest.param(1446370200000, HIVE, LA, "2015-11-01T08:00:00", id="repeated hour starts with its first pass"),
        pytest.param(1425808800000, "yyyy/MM/dd", LA, "2015-03-08T08:00:00", id="day of 23 hours"),
        pytest.param(1504450000000, "yyyy/MM/dd", "America/Sao_Paulo", "2017-09-03T03:00:00", id="plain day"),
        pytest.param(1508050000000, "yyyy/MM/dd", "America/Sao_Paulo", "2017-10-15T03:00:00", id="midnight left out"),
        pytest.param(1475336000000, "yyyy/MM/dd/HH", "Australia/Lord_Howe", "2016-10-01T15:30:00", id="half hour gap"),
        pytest.param(-1601730000000, "yyyy/MM/dd", "America/Toronto", "1919-03-31T04:30:00", id="gap over midnight"),
        pytest.param(1388541600000, "yyyy", "Europe/Amsterdam", "2013-12-31T23:00:00", id="year"),
    ],
)
def test_the_first_moment_of_a_folder(millis, pattern, zone, key):
    assert folder(millis, pattern, zone).key == key


ZONES = ["UTC", LA, "America/Sao_Paulo", "Australia/Lord_Howe", "America/Toronto", "Europe/Amsterdam", "Asia/Kathmandu"]
ZONES += ["Africa/Monrovia", "Pacific/Apia", "Africa/Casablanca", "Europe/Dublin", "Antarctica/Troll"]
instants = st.integers(-3_000_000_000_000, 4_000_000_000_000)
patterns = st.sampled_from(list(PATTERNS.values()))


@given(instants, patterns, st.sampled_from(ZONES))
def test_a_folder_begins_at_its_first_moment(millis, pattern, zone):
    times = TimePath(parse_pattern(pattern), load_zone(zone))
    found = times.folder(millis)
    start = round(found.start.timestamp() * 1000)
    assert start <= millis
    assert times.folder(start) is found
    assert times.folder(start - 1).path != found.path


@given(instants, patterns, st.sampled_from(ZONES))
def test_remembered_steps_agree_with_the_wall_clock(millis, pattern, zone):
    times = TimePath(parse_pattern(pattern), load_zone(zone))
    around = [millis + shift * 61_000 for shift in range(-40, 40)]
    random.Random(millis).shuffle(around)
    for instant in around:
        local = datetime.fromtimestamp(0, tz=UTC) + timedelta(milliseconds=instant)
        start, end, shared = times.around(instant)
        assert start <= instant < end
        assert shared is times.folder(instant) is times.folder(start) is times.folder(end - 1)
        assert times.folder(instant).path == parse_pattern(pattern).format(local.astimezone(ZoneInfo(zone)))


@given(st.lists(instants, min_size=2, max_size=20), st.sampled_from(["yyyy/MM/dd/HH", HIVE, "yyyyMMdd-HHmm", "yyyy"]))
def test_the_order_of_paths_is_the_order_of_time(times, pattern):
    assert parse_pattern(pattern).keeps_order
    paths = [folder(millis, pattern).path for millis in sorted(times)]
    assert paths == sorted(paths)


def test_patterns_without_that_order_say_so():
    assert not parse_pattern("yyyy/M/d").keeps_order
    assert not parse_pattern("dd-MM-yyyy").keeps_order


def test_the_memory_of_folders_is_bounded():
    times = TimePath(parse_pattern("yyyy/MM/dd/HH"), UTC)
    for step in range(30_000):
        times.folder(step * 900_000)
    assert len(times._steps) <= 10_000
    assert len(times._folders) <= 10_000
