"""Avro datums as bytes: walk them, place them in time, put them into container blocks, decode none of them."""
