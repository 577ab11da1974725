"""What people say of jobs and datasets: who answers for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.ports.lineage import LoadTransaction
from airflow_kafka_hdfs.ports.lineage_rows import ResponsibilityRow

STEWARD = "technical_steward"
FROM_API = "api"
MAX_PARTIES = 50
_ROLE = re.compile(r"^[a-z][a-z0-9_]{0,39}$")


def set_responsible(
    tx: LoadTransaction, entity_id: str, role: str, parties: Sequence[str], *, by: str, now: datetime
) -> tuple[ResponsibilityRow, ...]:
    """Say who has a role for a job or dataset, in place of whoever had it.

    Args:
        tx: a transaction.
        entity_id: id of the job or dataset.
        role: `technical_steward`, or another word in lower case.
        parties: teams or people; empty takes the role away.
        by: who says so.
        now: when.

    Returns:
        The rows as they are now.

    Raises:
        ConfigError: a role or party that can't be used.
    """
    if not _ROLE.match(role):
        raise ConfigError("role", role, "lower-case letters, digits and underscores, at most 40")
    names = list(dict.fromkeys(party.strip() for party in parties))
    if len(names) > MAX_PARTIES or not all(0 < len(name) <= 200 for name in names):
        raise ConfigError("parties", parties, f"at most {MAX_PARTIES} names of 1 to 200 characters")
    known = {row.party: row for row in tx.rows(ResponsibilityRow, ("entity_id", "role"), [(entity_id, role)])}
    tx.delete(ResponsibilityRow, [(entity_id, role, party) for party in known.keys() - set(names)])
    fresh = [
        ResponsibilityRow(entity_id=entity_id, role=role, party=name, origin=FROM_API, changed_at=now, changed_by=by)
        for name in names
        if name not in known
    ]
    tx.put(fresh)
    kept = [row for party, row in known.items() if party in names]
    return tuple(sorted((*kept, *fresh), key=lambda row: row.party))
