"""A script that only prints how many threads it was given."""

import json
import os

import torch

told = {name: value for name, value in os.environ.items() if name.endswith(("_NUM_THREADS", "_MAXIMUM_THREADS"))}
print(json.dumps({"torch": torch.get_num_threads(), **told}), flush=True)
