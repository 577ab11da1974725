"""What is the same for all routes of the REST of lineage: texts that no database takes, and what errors tell."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote_to_bytes

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, model_validator
from sqlalchemy.exc import SQLAlchemyError

from airflow_kafka_hdfs.exceptions import KafkaHdfsError

_WAREHOUSE = re.compile(r"^warehouse \S+: ")
_NUL = "\x00"
_REFUSED = "a text can't hold a NUL character"


def _no_nul(request: Request) -> None:
    if _NUL in request.url.path or _NUL.encode() in unquote_to_bytes(request.url.query):
        raise HTTPException(422, _REFUSED)


PLAIN = Depends(_no_nul)
"""For every route: no path and no parameter holds a NUL, which PostgreSQL takes nowhere."""


class Body(BaseModel):
    """The body of a call; the same holds for its texts."""

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        if _holds_nul(value):
            raise ValueError(_REFUSED)
        return value


def _holds_nul(value: Any) -> bool:
    left = [value]
    while left:  # a loop, since people can nest deeper than calls may
        part = left.pop()
        if isinstance(part, str) and _NUL in part:
            return True
        if isinstance(part, dict):
            left += [*part.keys(), *part.values()]
        elif isinstance(part, list):
            left += part
    return False


def public(error: KafkaHdfsError) -> str:
    """What a caller is told of an error: where the warehouse is and what its database says stay in the log."""
    if isinstance(error.__cause__, SQLAlchemyError):
        return "the warehouse could not answer; the log of the API server says why"
    return _WAREHOUSE.sub("warehouse: ", str(error))


def tell_problems(app: FastAPI) -> None:
    """Answer 422 for what can't be used, without what was sent: it may hold characters that no answer can hold."""

    @app.exception_handler(RequestValidationError)
    async def told(request: Request, error: RequestValidationError) -> Response:
        """Where the problems are, and what they are."""
        found = [{"type": one["type"], "loc": list(one["loc"]), "msg": one["msg"]} for one in error.errors()]
        return Response(json.dumps({"detail": found}), 422, media_type="application/json")
