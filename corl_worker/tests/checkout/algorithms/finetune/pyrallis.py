"""As much of pyrallis as the scripts beside it need: ``--name=YAML``, and ``--config_path=FILE`` beneath."""

# mypy: ignore-errors

import functools
import sys
import typing
from pathlib import Path

import yaml


def wrap():
    def around(function):
        @functools.wraps(function)
        def run():
            kind = next(iter(typing.get_type_hints(function).values()))
            words = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:])
            given = {name: yaml.safe_load(text) for name, text in words.items()}
            file = given.pop("config_path", None)
            beneath = yaml.safe_load(Path(file).read_text()) if file else {}
            return function(kind(**{**beneath, **given}))

        return run

    return around
