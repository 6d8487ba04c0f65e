"""Recorded episodes simulated again from their seed and their actions, and compared with what was recorded."""
