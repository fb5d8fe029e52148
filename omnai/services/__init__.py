"""The PostgreSQL and Valkey that OmnAI starts by itself, for the user who calls it."""

from omnai.services.embedded import EmbeddedServices
from omnai.services.errors import ServicesError
from omnai.services.status import ServicesStatus, ServiceState, ServiceStatus

__all__ = ["EmbeddedServices", "ServiceState", "ServiceStatus", "ServicesError", "ServicesStatus"]
