"""Bursts of output through tiers: route `stage` against other ways, with emulated tiers and simulated at scale."""
