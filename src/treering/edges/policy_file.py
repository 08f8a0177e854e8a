"""Reading a space's policy file."""

import tomllib
from pathlib import Path

from pydantic import ValidationError

from treering.core.errors import InvalidInput
from treering.core.objects import invalid_fields
from treering.core.policy import Policy


def read_policy(path: Path) -> Policy | None:
    """Read a policy (TOML, the fields of `core.policy.Policy`); `None` where there is no file.

    Raises `InvalidInput` naming the file and each wrong field.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return Policy.model_validate(data)
    except FileNotFoundError:
        return None
    except ValidationError as error:
        problem = invalid_fields(error, known=sorted(Policy.model_fields))
        raise InvalidInput(f"{path}: {problem.message}", hint=problem.hint, details=problem.details) from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read as TOML: {error}.", hint="Correct it, or remove it.") from error
