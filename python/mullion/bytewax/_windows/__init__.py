"""Windows of one key, decided without Spark: clocks, windowers, what windows hold, and the events that come of it.

Times are whole microseconds since the epoch. What is public, as datetimes, is in ``interfaces``; ``keyed`` puts a
clock, a windower and contents together, and is the only one that the rest of the package calls.
"""
