"""Mullion's own API: windows, several windows, upserts, open panes, savepoints, comparisons."""
