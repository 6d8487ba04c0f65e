"""Opens what a run calls: its server or the local model, with ledger, cache and budget."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from llm_worker.client.budget import Budget
from llm_worker.client.cache import ResponseCache
from llm_worker.client.caller import Caller
from llm_worker.client.endpoint import ChatEndpoint
from llm_worker.client.keys import find_key
from llm_worker.client.ledger import FOLDER, Ledger
from llm_worker.local.model import MODEL_NAME, LocalModel
from llm_worker.settings import LLMSettings
from mosaic_protocol.paths import MosaicPaths

_LOG = "local-model.log"


def open_caller(settings: LLMSettings, run_dir: Path | None, parent: Path | None, living: ExitStack) -> Caller:
    """``run_dir``: where the ledger is kept; None for a checkpoint that acts, which has none. ``parent``: the folder of
    the run that is resumed. What is opened is closed with ``living``. Raises UsageError."""
    ledger = Ledger(run_dir, parent) if run_dir is not None else None
    base_url, key, origin = settings.base_url, "", ""
    root = MosaicPaths.from_environment().root
    if settings.is_local:
        folder = run_dir / FOLDER if run_dir is not None else root / "cache" / FOLDER
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        local = living.enter_context(LocalModel(folder / _LOG))
        base_url, key, origin = local.url, local.key, f"local:{MODEL_NAME}"
    else:
        key = find_key(settings.key_env, base_url)
    endpoint = ChatEndpoint(base_url, key, timeout=settings.timeout, attempts=settings.attempts)
    cache = ResponseCache(root / "cache" / FOLDER / "replies.sqlite3") if settings.uses_cache else None
    budget = Budget(settings.max_calls, settings.max_tokens, settings.max_money, settings.price)
    caller = Caller(endpoint, ledger, cache, budget, origin)
    living.callback(caller.close)
    return caller
