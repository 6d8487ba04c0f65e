"""``python -m cleanrl_worker.import_checkpoint``: make a checkpoint from a file that CleanRL or another program wrote.

The file's parameters are checked against the network that our script builds for the algorithm and the environment. The
result can be evaluated and warm-start a run; it cannot be resumed, since the file holds no more than parameters. One
JSON object on stdout says what was done; what cannot be done is one sentence on stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import shutil
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from cleanrl_worker.config import PACKAGE
from cleanrl_worker.foreign_names import LAYOUTS, Fitted, fit
from mosaic_protocol.plain_text import one_line
from mosaic_worker.errors import UsageError
from mosaic_worker.policies.acting import arguments_of, load_acting, script_for
from mosaic_worker.policies.answers import refuse, take_over_stdout, tell
from mosaic_worker.state import checkpoints
from mosaic_worker.state.foreign_files import ForeignFile, limit_memory, read_content, read_foreign
from mosaic_worker.state.training_state import TrainingState

_SMALL = {"num_envs": 1, "buffer_size": 1, "learning_starts": 0}
_SETTINGS_OF_NETWORKS = ("n_atoms", "v_min", "v_max", "gamma", "end_e", "exploration_noise")
_LARGEST_SETTING = 1e9
_MOST_ATOMS = 10_000
_MOST_DIFFERENCES = 6
_LONGEST_PROBLEM = 300


class _StateKnown(Exception):
    """Raised out of a script once it has registered what its state consists of."""

    def __init__(self, state: TrainingState) -> None:
        super().__init__()
        self.state = state


class _CuriousSession:
    """Stands for the session of a run that ends before its first step, when all networks are built."""

    def restore(self, state: TrainingState, *_: Any) -> None:
        raise _StateKnown(state)

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


@dataclass(frozen=True)
class Blueprint:
    """What a new run of an algorithm on an environment would begin with."""

    tensors: dict[str, Any]
    spaces: dict[str, Any]
    args: dict[str, Any]


def blueprint(script: ModuleType, settings: dict[str, Any]) -> Blueprint:
    """Let a script build its networks for an environment. Raises UsageError when it cannot."""
    if not hasattr(script, "make_envs"):
        raise UsageError(_not_for(script))
    args = arguments_of(script, settings)
    known = {field.name for field in dataclasses.fields(args)}
    small = dataclasses.replace(args, **{name: value for name, value in _SMALL.items() if name in known})
    with closing(script.make_envs(small)) as envs:
        spaces = {
            "observation": checkpoints.describe_space(envs.single_observation_space),
            "action": checkpoints.describe_space(envs.single_action_space),
        }
        try:
            script.train(small, envs, _CuriousSession())
        except _StateKnown as found:
            return Blueprint(found.state.module_tensors(), spaces, dataclasses.asdict(args))
    raise UsageError(_not_for(script))


def _not_for(script: ModuleType) -> str:
    return f"files cannot be imported for {script.__name__.rpartition('.')[2]} yet"


def convert(file: Path, algo: str, env_id: str, destination: Path) -> dict[str, Any]:
    """Write the checkpoint; what to report about it. Raises UsageError, and then nothing was written."""
    script = script_for(algo, PACKAGE)
    if algo not in LAYOUTS:
        raise UsageError(f"files cannot be imported for {algo} yet")
    content = read_content(file)
    foreign = read_foreign(file, content)
    sha256 = hashlib.sha256(content).hexdigest()  # of what was read: the file may have changed since
    del content
    plan = blueprint(script, {**_settings(foreign), "env_id": env_id})
    fitted = fit(foreign.tensors, plan.tensors, LAYOUTS[algo])
    if fitted.problems:
        raise UsageError(_difference(file, algo, env_id, fitted.problems))
    fresh = _modules_of(fitted)
    lineage = {"kind": "import", "file": file.name, "sha256": sha256, "fresh": fresh, "notes": _notes(fresh)}
    path = checkpoints.save(
        destination,
        algo=algo,
        env_id=env_id,
        step=0,
        tensors=fitted.tensors,
        args=plan.args,
        spaces=plan.spaces,
        lineage=lineage,
    )
    try:
        load_acting(path, PACKAGE)  # a policy that cannot act is refused now, not when it is used
    except (UsageError, checkpoints.CheckpointError):
        shutil.rmtree(path)
        raise
    told = {"path": str(path), "sha256": checkpoints.read_manifest(path).tensor_sha256}
    parameters = sum(tensor.numel() for tensor in foreign.tensors.values())
    return {**told, "parameters": parameters, "lineage": lineage, "spaces": plan.spaces}


def _settings(foreign: ForeignFile) -> dict[str, Any]:
    """What the file says about the shape of its networks, as far as it can be true."""
    told = {name: foreign.settings[name] for name in _SETTINGS_OF_NETWORKS if _is_sane(foreign.settings.get(name))}
    atoms = foreign.tensors.get("atoms")
    if atoms is not None and atoms.ndim == 1 and len(atoms) > 1:
        told |= {"n_atoms": len(atoms), "v_min": float(atoms[0]), "v_max": float(atoms[-1])}
    if not isinstance(told.get("n_atoms", 2), int) or not 2 <= told.get("n_atoms", 2) <= _MOST_ATOMS:
        raise UsageError(f"the file claims to have {told['n_atoms']} atoms: 2 to {_MOST_ATOMS:,} are possible")
    return told


def _is_sane(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST_SETTING


def _difference(file: Path, algo: str, env_id: str, problems: list[str]) -> str:
    listed = one_line("; ".join(problem[:_LONGEST_PROBLEM] for problem in problems[:_MOST_DIFFERENCES]))
    more = f"; and {len(problems) - _MOST_DIFFERENCES} more" if len(problems) > _MOST_DIFFERENCES else ""
    return f"{file} does not fit {algo} on {env_id}: {listed}{more}"


def _modules_of(fitted: Fitted) -> list[str]:
    """Our modules, or parts of one, that the file says nothing about: agent.critic, critics, normaliser."""
    given = {name for name in fitted.tensors if name not in fitted.fresh}
    found: dict[str, None] = {}
    for name in fitted.fresh:
        whole, _, rest = name.partition(".")
        part = f"{whole}.{rest.partition('.')[0]}"
        found[part if any(other.startswith(f"{whole}.") for other in given) else whole] = None
    return list(found)


def _notes(fresh: list[str]) -> list[str]:
    """What a user of the policy should know."""
    if "normaliser" not in fresh:
        return []
    return ["The file has no statistics of observations: if training normalised them, this policy acts on others now."]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m cleanrl_worker.import_checkpoint", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--algo", required=True)
    parser.add_argument("--env-id", required=True)
    parser.add_argument("--destination", type=Path, required=True, help="directory to write the checkpoint into")
    options = parser.parse_args()
    answers = take_over_stdout()
    limit_memory(options.file)
    try:
        told = convert(options.file, options.algo, options.env_id, options.destination)
    except (UsageError, checkpoints.CheckpointError) as error:
        return refuse(PACKAGE, error)
    except MemoryError:
        return refuse(PACKAGE, f"{options.file} is refused: it asks for more memory than an import may take")
    tell(answers, **told)
    return 0


if __name__ == "__main__":
    sys.exit(main())
