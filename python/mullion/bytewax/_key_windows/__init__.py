"""The windows of one key, independent of Spark: clocks, windowers, contents of windows, and output events.

Times are whole microseconds since the epoch. The public interfaces, with datetimes, are in ``interfaces``. ``keyed``
combines a clock, a windower and contents, and is the entry point for the rest of the package.
"""
