"""What sections of the settings are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict


class Section(BaseModel):
    """A table of the settings: nothing in it changes once it is read, and nothing is in it that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


def _one_text(value: object) -> object:
    """Lists may be written as TOML has them, or as the environment must: comma-separated."""
    return ",".join(map(str, value)) if isinstance(value, list) else value


Addresses = Annotated[str, BeforeValidator(_one_text)]
