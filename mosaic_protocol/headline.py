"""The numbers by which people judge a run: what workers call them, and what every listing shows of them."""

from __future__ import annotations

RETURN_TAG = "charts/episodic_return"
LENGTH_TAG = "charts/episodic_length"
SPS_TAG = "charts/SPS"
HEADLINE_TAGS = (RETURN_TAG, LENGTH_TAG, SPS_TAG)
"""A run's headline holds the newest value of each."""

MEAN_RETURN = "mean_return"
"""Stands beside them in a headline: the mean of the newest :data:`RECENT_EPISODES` returns. One return says little."""
RECENT_EPISODES = 100
