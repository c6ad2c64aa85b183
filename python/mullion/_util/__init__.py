"""Helpers without Spark: checks, lengths of time, calendars, files, versions, conversions."""
