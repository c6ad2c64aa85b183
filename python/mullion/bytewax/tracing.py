"""Tracing, as in ``bytewax.tracing``: accepted without effect. Use Spark's log, metrics and web UI."""

from __future__ import annotations

import logging
from dataclasses import dataclass

__all__ = ["JaegerConfig", "OtlpTracingConfig", "TracingConfig", "setup_tracing"]

log = logging.getLogger("mullion")


@dataclass(frozen=True)
class TracingConfig:
    """The settings of a tracer."""


@dataclass(frozen=True)
class JaegerConfig(TracingConfig):
    """The settings of Jaeger."""

    service_name: str
    endpoint: str | None = None
    sampling_ratio: float = 1.0


@dataclass(frozen=True)
class OtlpTracingConfig(TracingConfig):
    """The settings of an OpenTelemetry collector."""

    service_name: str
    url: str | None = None
    sampling_ratio: float = 1.0


class _Tracer:
    """A tracer that does nothing."""


def setup_tracing(tracing_config: TracingConfig | None = None, log_level: str | None = None) -> _Tracer:
    """Returns a tracer that does nothing, and logs a warning if ``tracing_config`` names one."""
    if tracing_config is not None:
        log.warning("%r has no effect: dataflows run on Spark. See Spark's web UI and its metrics.", tracing_config)
    return _Tracer()
