"""The systems of ``kafka_to_kafka.py``, each a script that runs in its own process."""
