"""The numbers by which people judge a run: what workers call them, and what every listing shows of them."""

from __future__ import annotations

RETURN_TAG = "charts/episodic_return"
LENGTH_TAG = "charts/episodic_length"
SPS_TAG = "charts/SPS"
EPISODES_TAG = "charts/episodes"
"""How many episodes there were so far: of runs whose rows stand for many episodes each."""
CPU_TAG = "system/cpu_seconds"
"""CPU time that the training process has used so far: curves are drawn over it. It stands beside :data:`SPS_TAG`."""
MEMORY_TAG = "system/memory_mb"
"""Main memory that the training process holds, in megabytes; beside :data:`SPS_TAG` too."""
GPU_TAG = "system/gpu_percent"
"""How busy the GPUs of a run are, in per cent, on average over them; beside :data:`SPS_TAG`, where a run has any."""
GPU_MEMORY_TAG = "system/gpu_memory_mb"
"""Memory that is used on the GPUs of a run, in megabytes, together."""
HEADLINE_TAGS = (RETURN_TAG, LENGTH_TAG, SPS_TAG, EPISODES_TAG)
"""A run's headline holds the newest value of each."""

MEAN_RETURN = "mean_return"
"""Stands beside them in a headline: the mean of the newest :data:`RECENT_EPISODES` returns. One return says little."""
RECENT_EPISODES = 100
RECENT_MEANS = {RETURN_TAG: "charts/mean_return", LENGTH_TAG: "charts/mean_length"}
"""Where a row stands for many episodes, its return and its length are their means, and the means of the newest
:data:`RECENT_EPISODES` cannot be had from rows: it has these under other tags as well."""
