"""The public names of faust-streaming: its modules, and the names that Mullion does not support."""
