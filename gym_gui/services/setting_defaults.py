"""What a setting is where a run left it alone: the default in its worker's schema, by the worker's type."""

from __future__ import annotations

import time
from collections.abc import Mapping

from gym_gui.services.run_labels import Scalar, flat_settings
from mosaic_protocol.settings_schema import parameters
from mosaic_protocol.worker_manifest import discover
from mosaic_protocol.worker_settings import schema_of

_FRESH_SECONDS = 60.0
"""Manifests are read again after so long: a filter may look at ten thousand runs."""
_known: tuple[float, dict[str, dict[str, Scalar]]] = (-_FRESH_SECONDS, {})


def setting_defaults(worker_type: str) -> Mapping[str, Scalar]:
    """The defaults of a worker's parameters; {} for a worker without a schema in a file. Safe in any thread."""
    global _known  # noqa: PLW0603 - one assignment of a new pair: readers see the old one or the new one
    read_at, found = _known
    if time.monotonic() - read_at >= _FRESH_SECONDS:
        found = {manifest.type: _defaults(schema_of(manifest) or {}) for manifest in discover().workers.values()}
        _known = (time.monotonic(), found)
    return found.get(worker_type, {})


def _defaults(schema: Mapping[str, object]) -> dict[str, Scalar]:
    given = {name: one["default"] for name, one in parameters(schema).items() if one.get("default") is not None}
    return flat_settings({"metadata": {"worker": {"config": {"params": given}}}})
