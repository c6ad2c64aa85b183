"""Joins of two DataFrames by time: rows in the same window, and the row nearest in time."""
