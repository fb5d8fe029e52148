"""What can go wrong with the embedded services; facts are attributes."""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import OmnaiError


class ServicesError(OmnaiError):
    """The embedded PostgreSQL and Valkey cannot be used."""

    code = "services_unavailable"


class ServiceMissing(ServicesError):
    """The server's program is not installed."""

    code = "service_missing"

    def __init__(self, package: str, program: str) -> None:
        self.package = package
        super().__init__(
            f"The program {program} of the package {package} is not installed. "
            "Set OmnAI up again, or set the database and queue addresses to servers of your own."
        )


class ServiceFailed(ServicesError):
    """The server did not start."""

    code = "service_failed"

    def __init__(self, name: str, reason: str, *, log: str = "") -> None:
        self.name = name
        self.log = log
        super().__init__(f"{name}: {reason}" + (f"\n{log}" if log else ""))


class DataOfAnotherVersion(ServicesError):
    """The database folder was made by another major version of PostgreSQL."""

    code = "database_of_another_version"

    def __init__(self, data: Path, *, found: str, expected: str) -> None:
        self.data = data
        self.found = found
        self.expected = expected
        super().__init__(
            f"{data} was made by PostgreSQL {found}, and this release brings PostgreSQL "
            f"{expected}. Nothing was changed. Move the folder away to begin with an empty "
            "database, or dump it with the release that made it and restore it here."
        )


class RootUnusable(ServicesError):
    """The services folder cannot be used."""

    code = "services_folder_unusable"

    def __init__(self, root: Path, reason: str) -> None:
        self.root = root
        super().__init__(f"The services folder {root} cannot be used: {reason}")


class ServicesBusy(ServicesError):
    """Another command is starting or stopping the services and does not finish."""

    code = "services_busy"
