"""Texts of every short length, with one byte that is not ASCII at each place: the tiers look at several at once."""

import pytest

from airflow_kafka_hdfs.ingest.datum.container import encode_bytes, encode_long
from airflow_kafka_hdfs.ingest.datum.packing import Batch
from tests.unit.ingest.datum.test_tiers import FRAME, NOON, pack_in_all, packer

PLACES = [(size, place) for size in range(1, 34) for place in range(size)]


def event_of(text: bytes) -> bytes:
    return FRAME + encode_bytes(text) + b"\x02" + encode_long(NOON)


@pytest.mark.parametrize("byte", [0x80, 0xC0, 0xFF])
def test_a_byte_that_is_no_text_is_found_wherever_it_stands(byte):
    texts = [b"a" * place + bytes([byte]) + b"a" * (size - place - 1) for size, place in PLACES]
    outcome = pack_in_all(packer(), Batch(values=[event_of(text) for text in texts]))
    assert [bad.index for bad in outcome.bad] == list(range(len(texts)))
    assert {bad.reason for bad in outcome.bad} == {"corrupt"}


@pytest.mark.parametrize("letter", ["\u00e9", "\u20ac", "\U0001f600"])
def test_a_letter_beyond_ascii_is_text_wherever_it_stands(letter):
    texts = [("a" * place + letter + "a" * (size - place - 1)).encode() for size, place in PLACES]
    assert pack_in_all(packer(), Batch(values=[event_of(text) for text in texts])).packed == len(texts)


def test_texts_without_such_letters_are_text():
    texts = [b"", *(b"a" * size for size in range(1, 34)), b"\x00\x7f" * 9]
    assert pack_in_all(packer(), Batch(values=[event_of(text) for text in texts])).packed == len(texts)
