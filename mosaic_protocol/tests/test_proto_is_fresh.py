from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_generated_code_matches_trainer_proto() -> None:
    command = [sys.executable, str(ROOT / "tools" / "generate_proto.py"), "--check"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, f"run tools/generate_proto.py\n{result.stdout}{result.stderr}"
