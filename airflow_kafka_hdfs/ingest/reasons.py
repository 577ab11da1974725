"""Why planning did what it did: the codes of plan entries and of held topics, for records, logs and metrics."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why a partition's range of a plan is what it is."""

    RESUMED = "resumed"
    """Goes on at the watermark, holes first."""
    NO_DATA = "no_data"
    """Everything up to the last stable offset is decided."""
    HELD_BY_OPEN_PLAN = "held_by_open_plan"
    """What is undecided is left to the plan of another run that may be at work."""

    BOOTSTRAP_EARLIEST = "bootstrap_earliest"
    """First seen: starts at the log start, as `bootstrap` says."""
    BOOTSTRAP_LATEST = "bootstrap_latest"
    """First seen: starts at the last stable offset; what is there already was never promised."""
    BOOTSTRAP_TIME = "bootstrap_time"
    """First seen: starts at the first record of a point in time."""
    BOOTSTRAP_LOOKBACK = "bootstrap_lookback"
    """First seen: starts at the first record of a span back from the plan's clock."""
    BOOTSTRAP_SKIP = "bootstrap_skip"
    """First seen and left alone, as `bootstrap` says; it stays unknown."""
    NEW_TOPIC = "new_topic"
    """Showed up under an unchanged `topics` argument: starts at its log start, so that nothing of it is missed."""
    NEW_PARTITION = "new_partition"
    """A further partition of a known topic: starts at its log start."""
    RECREATED_EARLIEST = "topic_recreated_earliest"
    """The topic has a new id: starts at the log start, as `on_topic_recreated` says."""
    RECREATED_LATEST = "topic_recreated_latest"
    """The topic has a new id: starts at the last stable offset, as `on_topic_recreated` says."""
    RESET = "reset"
    """The start point was moved by a `reset` of this run."""

    RESET_TOO_EARLY = "reset_too_early"
    """Undecided offsets lie below the log start: lost; goes on at the log start."""
    RESET_TOO_EARLY_LATEST = "reset_too_early_latest"
    """As `reset_too_early`, and all else up to the last stable offset was skipped, as `on_out_of_range` says."""
    RESET_TOO_LATE = "reset_too_late"
    """The log was truncated below decided offsets: goes on at its end, coverage below is carried over."""
    RESET_TOO_LATE_EARLIEST = "reset_too_late_earliest"
    """The log was truncated below decided offsets: is read again from its start, as `on_out_of_range` says."""
    SKIPPED_OUT_OF_RANGE = "skipped_out_of_range"
    """Undecided offsets lie below the log start, and `on_out_of_range` says to leave the partition alone."""

    INTERVAL = "interval"
    """Offsets of the interval that are neither covered nor lost."""
    INTERVAL_SETTLED = "interval_settled"
    """All offsets of the interval are covered or lost."""
    INTERVAL_EMPTY = "interval_empty"
    """The partition has no record in the interval."""
    REPLACE = "replace"
    """Offsets that are read again, widened to whole files."""


class HeldReason(StrEnum):
    """Why planning holds a topic back, beside the codes of `ports.kafka.Fault`."""

    TOPIC_RECREATED = "topic_recreated"
    """It has a new id, and `on_topic_recreated` is `fail`."""
    OUT_OF_RANGE = "out_of_range"
    """Undecided offsets lie below the log start, and `on_out_of_range` is `fail`."""
    TRUNCATED = "truncated"
    """Decided offsets lie above the log's end, and nobody said how to go on."""
    RELEASED = "released"
    """This pipeline has given the topic up."""
    DATA_WITHOUT_STATE = "data_without_state"
    """Files with our names stand there, and the log has no word of the topic."""
    NO_SCHEMA = "no_schema"
    """The registry has no schema that `on_schema_change='resolve'` could resolve to."""
    UNUSABLE_SCHEMA = "unusable_schema"
    """The schema can't be parsed, or has fields that clash with the columns of `include_*`."""
