"""A variant of Bytewax's windowing API, ``seed.windowing``, for definitions that conflict with Bytewax 0.21."""
