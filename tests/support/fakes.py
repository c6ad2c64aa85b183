"""Stand-ins for what lives in the JVM or in Spark Connect."""

from __future__ import annotations


class JavaError:
    """A Java exception as py4j shows it."""

    def __init__(self, name: str, message: str = "", condition: str = "", cause: JavaError | None = None) -> None:
        self.name = name
        self.message = message
        self.word = condition
        self.cause = cause

    def getClass(self) -> JavaError:
        return self

    def getName(self) -> str:
        return self.name

    def getMessage(self) -> str:
        return self.message

    def getCause(self) -> JavaError | None:
        return self.cause

    def trace(self) -> str:
        return f"{self.toString()}\n\tat somewhere"

    def toString(self) -> str:
        return f"{self.name}: {self.message}"

    def condition(self) -> str:
        return self.word


def of_connect(name: str) -> object:
    """An object of a class of Spark Connect, whose modules may not be importable here."""
    return type(name, (), {"__module__": f"pyspark.sql.connect.{name.lower()}"})()
