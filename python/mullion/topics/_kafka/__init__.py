"""Topics in Kafka, with JSON values: ``kafka://host:port``."""
