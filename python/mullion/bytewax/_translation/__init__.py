"""The translation of window steps for the JVM, and the report of what runs where."""
