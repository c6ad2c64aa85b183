"""The command ``mullion``: its entry point, and the commands that all adapters share."""
