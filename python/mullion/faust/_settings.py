"""The settings of Faust's ``App``, by name: all are accepted, and those without effect are noted.

::

    faust.App("site", value_serializer="raw", stream_buffer_maxsize=16_368)
                      determines how values are read
                                              no effect: explain() lists it, once

``app.conf`` has each setting under its name, with Faust's own default, and may be changed until the program runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo
from typing import Any, Final, final

from mullion._util.checks import did_you_mean
from mullion.errors import InvalidArgumentError

log = logging.getLogger("mullion")

DEFAULTS: Final[Mapping[str, Any]] = {
    "autodiscover": False,
    "datadir": None,
    "tabledir": "tables",
    "debug": False,
    "env_prefix": None,
    "id_format": "{id}-v{self.version}",
    "origin": None,
    "timezone": UTC,
    "version": 1,
    "agent_supervisor": None,
    "cython_optimizations": False,
    "blocking_timeout": None,
    "broker": None,
    "broker_consumer": None,
    "broker_producer": None,
    "broker_api_version": "auto",
    "broker_check_crcs": True,
    "broker_client_id": "faust",
    "broker_commit_every": 10_000,
    "broker_commit_interval": 2.8,
    "broker_commit_livelock_soft_timeout": 300.0,
    "broker_credentials": None,
    "broker_heartbeat_interval": 3.0,
    "broker_max_poll_interval": 1000.0,
    "broker_max_poll_records": None,
    "broker_rebalance_timeout": 60.0,
    "broker_request_timeout": 90.0,
    "broker_session_timeout": 60.0,
    "ssl_context": None,
    "consumer_api_version": None,
    "consumer_max_fetch_size": 1_048_576,
    "consumer_auto_offset_reset": "earliest",
    "consumer_group_instance_id": None,
    "consumer_metadata_max_age_ms": 300_000,
    "consumer_connections_max_idle_ms": 540_000,
    "key_serializer": "raw",
    "value_serializer": "json",
    "logging_config": None,
    "loghandlers": None,
    "producer_acks": -1,
    "producer_api_version": None,
    "producer_compression_type": None,
    "producer_linger": None,
    "producer_linger_ms": 0,
    "producer_max_batch_size": 16_384,
    "producer_max_request_size": 1_000_000,
    "producer_partitioner": None,
    "producer_request_timeout": 1200.0,
    "producer_threaded": False,
    "producer_metadata_max_age_ms": 300_000,
    "producer_connections_max_idle_ms": 540_000,
    "recovery_consistency_check": True,
    "store_check_exists": True,
    "crash_app_on_aerospike_exception": True,
    "aerospike_retries_on_exception": 60,
    "aerospike_sleep_seconds_between_retries_on_exception": 1,
    "reply_create_topic": False,
    "reply_expires": 86_400.0,
    "reply_to": None,
    "reply_to_prefix": "f-reply-",
    "processing_guarantee": "at_least_once",
    "stream_ack_cancelled_tasks": True,
    "stream_ack_exceptions": True,
    "stream_buffer_maxsize": 4096,
    "stream_processing_timeout": 300.0,
    "stream_publish_on_commit": False,
    "stream_recovery_delay": 0.0,
    "stream_wait_empty": True,
    "store": "memory://",
    "table_cleanup_interval": 30.0,
    "table_key_index_size": 1000,
    "table_standby_replicas": 1,
    "topic_allow_declare": True,
    "topic_disable_leader": False,
    "topic_partitions": 8,
    "topic_replication_factor": 1,
    "cache": "memory://",
    "web": "aiohttp://",
    "web_bind": None,
    "web_application_options": None,
    "web_cors_options": None,
    "web_enabled": True,
    "web_stats_enabled": None,
    "web_graph_enabled": None,
    "web_router_enabled": True,
    "web_tables_enabled": True,
    "web_metrics_enabled": False,
    "web_host": None,
    "web_in_thread": False,
    "web_port": 6066,
    "web_ssl_context": None,
    "web_transport": "tcp:",
    "canonical_url": None,
    "worker_redirect_stdouts": True,
    "worker_redirect_stdouts_level": "WARN",
    "url": None,
    **dict.fromkeys(
        (
            *("Agent", "ConsumerScheduler", "Event", "Schema", "Stream", "Table", "SetTable", "GlobalTable"),
            *("SetGlobalTable", "TableManager", "Serializers", "Worker", "PartitionAssignor", "LeaderAssignor"),
            *("Router", "Topic", "HttpClient", "Monitor"),
            # Arguments of Faust's App that are not settings.
            *("monitor", "config_source", "loop", "beacon"),
        )
    ),
}
"""All settings with Faust's defaults; ``None`` where Faust's default is a class of Faust."""

DECIDING: Final = frozenset(
    (
        *("autodiscover", "broker", "broker_credentials", "key_serializer", "origin", "processing_guarantee"),
        *("ssl_context", "timezone", "value_serializer"),
    )
)
"""The settings that have an effect."""

READABLE: Final = frozenset(("debug", "store", "topic_partitions", "version"))
"""Settings that programs read, or whose purpose is met in another way: they need no note."""


@final
class Settings:
    """The value of ``app.conf``: each setting under its name.

    A name that is not a setting of Faust is accepted with a warning. Raises :class:`InvalidArgumentError` for an
    invalid value.
    """

    def __init__(self, name: str, settings: Mapping[str, Any], changed: Callable[[str, Any], None]) -> None:
        attributes = self.__dict__
        attributes["id"] = attributes["name"] = name
        attributes["_changed"] = changed
        attributes["_given"] = {}
        attributes.update(DEFAULTS)
        for setting, value in settings.items():
            self._require(setting, value)
            attributes[setting] = value
            attributes["_given"][setting] = value

    def __setattr__(self, setting: str, value: Any) -> None:
        self._require(setting, value)
        self.__dict__[setting] = value
        self.__dict__["_given"][setting] = value
        self.__dict__["_changed"](setting, value)

    @property
    def without_meaning(self) -> list[str]:
        """The settings that the program sets and that have no effect, sorted by name."""
        settings: Mapping[str, Any] = self.__dict__["_given"]
        return sorted(name for name in settings if name not in DECIDING | READABLE)

    def _require(self, setting: str, value: Any) -> None:
        if setting not in DEFAULTS:
            log.warning(
                "%s: %r is not a setting of faust-streaming, and has no effect.%s",
                self.__dict__["name"],
                setting,
                did_you_mean(setting, list(DEFAULTS)),
            )
        if setting == "processing_guarantee":
            guarantee = getattr(value, "value", value)
            if guarantee not in (None, "at_least_once", "exactly_once"):
                raise InvalidArgumentError(
                    f"processing_guarantee={value!r} is neither 'at_least_once' nor 'exactly_once'. Leave it out: "
                    "tables are kept exactly once either way."
                )
        if setting == "timezone" and not isinstance(value, tzinfo):
            raise InvalidArgumentError(
                f"timezone={value!r} ({type(value).__name__}) is not a timezone. Write "
                "zoneinfo.ZoneInfo('Europe/Vienna')."
            )

    def __getattr__(self, setting: str) -> Any:
        raise AttributeError(f"{setting!r} is not a setting of an App.{did_you_mean(setting, list(DEFAULTS))}")

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.__dict__["_given"].items())
        return f"<Settings: {self.__dict__['id']}{', ' * bool(settings)}{settings}>"

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        self.__dict__.update(attributes)

    def __getstate__(self) -> dict[str, Any]:
        # Credentials and users' classes stay in the process that started the program.
        plain_values = {
            name: self.__dict__[name] for name in ("id", "name", *DEFAULTS) if _is_plain(self.__dict__[name])
        }
        return {**DEFAULTS, **plain_values, "_given": {}, "_changed": _ignore}


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bool, tzinfo))


def _ignore(setting: str, value: Any) -> None:
    """Does nothing: settings have no effect in a worker."""
