"""The interface to the JVM: py4j in :mod:`mullion._bridge.jvm`, Spark Connect in :mod:`mullion._bridge.connect`."""
