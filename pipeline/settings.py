"""Settings of this installation, read once from `OMNAI_…` variables; unknown names are refused."""

from __future__ import annotations

import difflib
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from urllib.parse import urlsplit

from pipeline.errors import Problem, SettingsRefused
from pipeline.night import Night, read_window, read_zone

PREFIX = "OMNAI_"

SECRETS = ("OMNAI_DATABASE_URL", "OMNAI_REDIS_URL", "OMNAI_SECRET_KEY", "OMNAI_API_KEY")
"""May also be given as a file, `…_FILE`."""

_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
"""No part of a prefix is empty or begins with a dot."""

RESERVED_PREFIXES = ("OMNAI_TEST_", "OMNAI_VENV")
"""Read by the test suite and the scripts, not by the product."""


@dataclass(frozen=True, kw_only=True)
class MediaLimits:
    """What the media process may use; each has a reason beside its number."""

    memory_bytes: int = 3 * 1024**3
    """Address space. The libraries map about 0.6 GiB; an 8K picture takes 0.2 GiB a copy."""
    cpu_s: int = 8 * 3600
    """Processor time: twelve hours of 720p at half as slow as the slowest decode measured."""
    silence_s: float = 60.0
    """Longest wall time without a message: one source second of the heaviest admitted picture."""
    scan_s: float = 540.0
    """Most wall time before the first unit is begun: 64 GiB at 120 MB/s, and within a worker's own
    limit for `prepare`, so that the reason is told."""
    second_s: float = 110.0
    """Most wall time for one source second, signs of life or not; within a worker's own limit for
    `unit`, so that the reason is told."""
    duration_s: int = 12 * 3600
    """Most source seconds with content: a long capital-markets day."""
    span_s: int = 24 * 3600
    """Most source time from first to last, gaps included."""
    edge_px: int = 8192
    """Largest width or height of a decoded picture."""
    frame_pixels: int = 40_000_000
    """Most pixels of a decoded picture: 8K with room."""
    streams: int = 64
    """Most streams in a container."""
    packets_per_s: int = 20_000
    """Most packets a second of a chosen stream. Screens are recorded at 1,000 pictures a second,
    and the shortest blocks of FLAC at 192 kHz make 12,000 packets."""
    metadata_chars: int = 16 * 1024**2
    """Most characters of titles, comments and chapters: covers travel in comments as text, and
    every reader holds all of it in memory."""
    file_bytes: int = 64 * 1024**3
    """Largest recording."""


@dataclass(frozen=True, kw_only=True)
class PhaseLimits:
    """Longest a running epoch may go without progress, by what it is doing, in seconds."""

    claim: float = 60.0
    """From the claim until the loop begins: it opens nothing yet."""
    prepare: float = 600.0
    """The prompt, the media process and its first pass over the file's time stamps."""
    unit: float = 120.0
    """One source second. Longer than the loop waits for a database that restarts."""
    drain: float = 120.0
    """One synthetic second."""
    publish: float = 600.0
    """A brief from the rows of a long day."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One installation's settings."""

    data_dir: Path = Path("var")
    """Where blobs, frames and the embedded services live."""
    blobs: str | None = None
    """`s3://bucket/prefix` for recordings and frames; none is the data folder. Credentials are
    found as boto3 finds them."""
    s3_endpoint: str | None = None
    """An S3-compatible service's own URL, asked with the bucket in the path; none is Amazon's."""
    database_url: str | None = field(default=None, repr=False)
    """SQLAlchemy URL of PostgreSQL; none starts the embedded server."""
    redis_url: str | None = field(default=None, repr=False)
    """Redis-protocol server; none starts the embedded one."""
    host_name: str = field(default_factory=socket.gethostname)
    """This worker host's name, part of its slots' names."""
    frame_ring: int = 128
    """Encoded frames kept for the look-back: the engine's longest memory is 101 units."""
    engine: str = "rehearsal"
    """The engine that this worker loads, and that a job gets where it names none."""
    model_snapshot: Path | None = None
    """Folder of the model's snapshot; none is `model` in the data folder."""
    model_allow_unverified: bool = False
    """Load model files that nobody has verified yet; for the first verification only."""
    decoder: str = "fast"
    """`official` or `fast`, which a worker takes only where it is shown to say the same when it
    starts: a talkative three-hour recording takes the official loop more than six hours."""
    gpu: str | None = None
    """UUID or index of the GPU that this worker owns; none is the first one."""
    slot: int = 0
    """Which of this host's worker slots this is, from 0."""
    stale_s: float = 90.0
    """An epoch without a sign of life for so long is lost: many stamps would fit into it."""
    phase_limits: PhaseLimits = PhaseLimits()
    bind: str = "127.0.0.1:8321"
    """Address and port of the API; other machines reach it only where the operator says so."""
    waiters_max: int = 32
    """Requests that may wait for a job's change at once; others are answered at once."""
    intake_max: int = 16
    """Uploads and their probes that the API is busy with at once: each reads a file as a whole."""
    intake_waiting_max: int = 128
    """Uploads that wait up to a minute for that, each on a thread; others are told to come back."""
    secret_key: str | None = field(default=None, repr=False)
    """Signs browser sessions; none keeps one in a file under the data folder."""
    api_url: str = "http://127.0.0.1:8321"
    """Where this machine's client commands find the API."""
    api_key: str | None = field(default=None, repr=False)
    """Their key."""
    fetch_urls: bool = False
    """Whether a job may name a link, which `omnai ingest` then fetches; the operator turns it on
    for the API and for that process alike."""
    log_format: str = "text"
    """`text` for people at a terminal, `json` for programs that collect the lines."""
    metrics_open: bool = False
    """Whether `/metrics` needs no key: only where the network lets nobody but Prometheus reach it.
    It tells hosts, GPUs and how much is done when."""
    night: str | None = None
    """When work may begin, as `19:30-06:30`; none is always. The API and every worker need it."""
    night_zone: str | None = None
    """IANA name of the zone whose clocks the window is read by; given with it and only then."""
    night_weekends: bool = True
    """Whether Saturdays and Sundays are open throughout: nobody needs the GPU for anything else."""
    night_hard_end: bool = False
    """Whether what runs when the window closes ends then, in part; else it runs to its end."""
    free_bytes_min: int = 2 * 1024**3
    """Below so much room on the data folder's disk nothing more is taken in or begun; 0 never
    looks. A GiB for PostgreSQL's log at its usual `max_wal_size`, and one for the frames of a
    twelve-hour night: 43,200 of 24 kB, were one kept of every second (the sample's have 12)."""
    keep_jobs_days: int | None = None
    """After so many days an ended job is deleted; none keeps jobs for ever."""
    keep_recordings_days: int | None = None
    """After so many days a recording without jobs is deleted; none keeps them for ever."""
    media: MediaLimits = MediaLimits()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Raises SettingsRefused naming every variable that is unknown or malformed."""
        environment = os.environ if environment is None else environment
        given = {
            name: value
            for name, value in environment.items()
            if name.startswith(PREFIX) and not name.startswith(RESERVED_PREFIXES)
        }
        problems: list[Problem] = []
        top: dict[str, object] = {}
        media: dict[str, object] = {}
        for name, text in sorted(_with_files(given, problems).items()):
            target = media if name in _MEDIA else top
            reader = _MEDIA.get(name) or _TOP.get(name)
            if reader is None:
                problems.append(_unknown(name))
                continue
            key, parse, accepted = reader
            try:
                target[key] = parse(text)
            except ValueError:
                problems.append(
                    Problem(
                        code="setting_malformed",
                        where=name,
                        message=f"not {accepted}; the value is not shown in case it is secret",
                    )
                )
        problems += _of_the_night(top, given)
        if problems:
            raise SettingsRefused(*problems)
        return cls(**top, media=MediaLimits(**media))  # type: ignore[arg-type]

    @property
    def model_folder(self) -> Path:
        """Where the model's files are, or will be."""
        return self.model_snapshot or self.data_dir / "model"

    @property
    def window(self) -> Night | None:
        """When a job may begin; none is always."""
        if self.night is None or self.night_zone is None:
            return None
        opens, closes = read_window(self.night)
        return Night(
            opens=opens,
            closes=closes,
            zone=read_zone(self.night_zone),
            has_weekends=self.night_weekends,
        )

    def to_environment(self) -> dict[str, str]:
        """The variables that give these settings again, for a process of ours."""
        variables: dict[str, str] = {}
        for setting in fields(self):
            value = getattr(self, setting.name)
            name = f"{PREFIX}{setting.name.upper()}"
            if isinstance(value, MediaLimits):
                for limit in fields(value):
                    variables[f"{name}_{limit.name.upper()}"] = str(getattr(value, limit.name))
            elif isinstance(value, PhaseLimits):
                limits = ((limit.name, getattr(value, limit.name)) for limit in fields(value))
                variables[name] = ",".join(f"{phase}={seconds}" for phase, seconds in limits)
            elif value is not None:
                variables[name] = str(value)
        return variables


def _with_files(given: Mapping[str, str], problems: list[Problem]) -> dict[str, str]:
    """Secrets may come as `NAME_FILE`, the path of a file, as container platforms give them."""
    read: dict[str, str] = {}
    for name, value in given.items():
        base = name.removesuffix("_FILE")
        if base == name or base not in SECRETS:
            read.setdefault(name, value)
        elif base in given:
            problems.append(
                Problem(code="setting_twice", where=name, message=f"{base} is set too; set one")
            )
        else:
            try:
                read[base] = Path(value).read_text().strip()
            except (OSError, UnicodeDecodeError) as error:
                message = f"the file cannot be read ({type(error).__name__})"
                problems.append(Problem(code="setting_unreadable", where=name, message=message))
    return read


def _of_the_night(read: Mapping[str, object], given: Mapping[str, str]) -> Iterator[Problem]:
    """A window without its zone, or the other way round; what is malformed is told elsewhere."""
    pairs = (
        ("OMNAI_NIGHT", "OMNAI_NIGHT_ZONE", "an IANA name such as Europe/Berlin"),
        ("OMNAI_NIGHT_ZONE", "OMNAI_NIGHT", "a window such as 19:30-06:30"),
    )
    for name, other, accepted in pairs:
        if name in given and other not in given:
            message = f"it needs {other} too: {accepted}"
            yield Problem(code="setting_incomplete", where=name, message=message)
    if read.get("night_hard_end") and "OMNAI_NIGHT" not in given:
        message = "without OMNAI_NIGHT there is no window that could end"
        yield Problem(code="setting_incomplete", where="OMNAI_NIGHT_HARD_END", message=message)


def _window(text: str) -> str:
    read_window(text)
    return text.strip()


def _zone(text: str) -> str:
    return read_zone(text).key


def _positive_int(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise ValueError
    return value


def _positive_float(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError
    return value


def _url(*schemes: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if not text.startswith(tuple(f"{scheme}://" for scheme in schemes)):
            raise ValueError
        return text

    return parse


def _bucket(text: str) -> str:
    if _BUCKET.fullmatch(text.strip().rstrip("/")) is None:
        raise ValueError
    return text.strip().rstrip("/")


def _endpoint(text: str) -> str:
    parts = urlsplit(text.strip())
    is_plain = not (parts.username or parts.password or parts.query or parts.fragment)
    if parts.scheme not in ("http", "https") or not parts.hostname or not is_plain:
        raise ValueError
    return text.strip().rstrip("/")


def _whole(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError
    return value


def _days(text: str) -> int:
    value = int(text)
    if not 1 <= value <= KEPT_DAYS_MAX:
        raise ValueError
    return value


def _phase_limits(text: str) -> PhaseLimits:
    known = {limit.name for limit in fields(PhaseLimits)}
    given: dict[str, float] = {}
    for part in text.split(","):
        phase, _, seconds = (piece.strip() for piece in part.partition("="))
        if phase not in known or phase in given:
            raise ValueError
        given[phase] = _positive_float(seconds)
    return PhaseLimits(**given)


def _address(text: str) -> str:
    host, _, port = text.strip().rpartition(":")
    if not host or not 0 < int(port) < 65536:
        raise ValueError
    return text.strip()


def _secret(text: str) -> str:
    if len(text) < SECRET_CHARS_MIN:
        raise ValueError
    return text


def _yes_or_no(text: str) -> bool:
    given = text.strip().lower()
    if given not in ("yes", "no", "true", "false", "1", "0"):
        raise ValueError
    return given in ("yes", "true", "1")


def _log_format(text: str) -> str:
    given = text.strip().lower()
    if given not in ("text", "json"):
        raise ValueError
    return given


def _one_of(*accepted: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.strip() not in accepted:
            raise ValueError
        return text.strip()

    return parse


def _name(text: str) -> str:
    if not text.strip():
        raise ValueError
    return text.strip()


KEPT_DAYS_MAX = 36_500
"""A century; a longer time is for ever, which is said by giving none."""

SECRET_CHARS_MIN = 32
"""A shorter key can be guessed from one signed cookie."""

_Reader = tuple[str, Callable[[str], object], str]

_DAYS = f"a whole number of days from 1 to {KEPT_DAYS_MAX}; leave it out to keep for ever"

_TOP: dict[str, _Reader] = {
    "OMNAI_DATA_DIR": ("data_dir", lambda text: Path(_name(text)), "a folder"),
    "OMNAI_BLOBS": ("blobs", _bucket, "a bucket with or without a prefix, as s3://bucket/prefix"),
    "OMNAI_S3_ENDPOINT": (
        "s3_endpoint",
        _endpoint,
        "a URL that begins with http:// or https://, without a user",
    ),
    "OMNAI_DATABASE_URL": (
        "database_url",
        _url("postgresql+psycopg"),
        "a URL that begins with postgresql+psycopg://",
    ),
    "OMNAI_REDIS_URL": (
        "redis_url",
        _url("redis", "rediss", "unix"),
        "a URL that begins with redis://, rediss:// or unix://",
    ),
    "OMNAI_HOST_NAME": ("host_name", _name, "a name"),
    "OMNAI_FRAME_RING": ("frame_ring", _positive_int, "a whole number above 0"),
    "OMNAI_ENGINE": ("engine", _name, "a name"),
    "OMNAI_MODEL_SNAPSHOT": ("model_snapshot", lambda text: Path(_name(text)), "a folder"),
    "OMNAI_MODEL_ALLOW_UNVERIFIED": ("model_allow_unverified", _yes_or_no, "yes or no"),
    "OMNAI_DECODER": ("decoder", _one_of("official", "fast"), "official or fast"),
    "OMNAI_GPU": ("gpu", _name, "a GPU's UUID or index"),
    "OMNAI_SLOT": ("slot", _whole, "a whole number from 0"),
    "OMNAI_STALE_S": ("stale_s", _positive_float, "a number above 0"),
    "OMNAI_BIND": ("bind", _address, "an address and port, such as 127.0.0.1:8321"),
    "OMNAI_WAITERS_MAX": ("waiters_max", _positive_int, "a whole number above 0"),
    "OMNAI_INTAKE_MAX": ("intake_max", _positive_int, "a whole number above 0"),
    "OMNAI_INTAKE_WAITING_MAX": ("intake_waiting_max", _whole, "a whole number from 0"),
    "OMNAI_SECRET_KEY": ("secret_key", _secret, f"at least {SECRET_CHARS_MIN} characters"),
    "OMNAI_API_URL": (
        "api_url",
        _url("http", "https"),
        "a URL that begins with http:// or https://",
    ),
    "OMNAI_API_KEY": ("api_key", _name, "a key"),
    "OMNAI_FETCH_URLS": ("fetch_urls", _yes_or_no, "yes or no"),
    "OMNAI_LOG_FORMAT": ("log_format", _log_format, "text or json"),
    "OMNAI_METRICS_OPEN": ("metrics_open", _yes_or_no, "yes or no"),
    "OMNAI_NIGHT": ("night", _window, "a window of two different times, such as 19:30-06:30"),
    "OMNAI_NIGHT_ZONE": ("night_zone", _zone, "an IANA name of a zone, such as Europe/Berlin"),
    "OMNAI_NIGHT_WEEKENDS": ("night_weekends", _yes_or_no, "yes or no"),
    "OMNAI_NIGHT_HARD_END": ("night_hard_end", _yes_or_no, "yes or no"),
    "OMNAI_FREE_BYTES_MIN": ("free_bytes_min", _whole, "a whole number from 0"),
    "OMNAI_KEEP_JOBS_DAYS": ("keep_jobs_days", _days, _DAYS),
    "OMNAI_KEEP_RECORDINGS_DAYS": ("keep_recordings_days", _days, _DAYS),
    "OMNAI_PHASE_LIMITS": (
        "phase_limits",
        _phase_limits,
        "phases with seconds above 0, such as unit=120,drain=120; phases: "
        + ", ".join(limit.name for limit in fields(PhaseLimits)),
    ),
}
_MEDIA: dict[str, _Reader] = {
    f"OMNAI_MEDIA_{limit.name.upper()}": (
        (limit.name, _positive_float, "a number above 0")
        if isinstance(limit.default, float)
        else (limit.name, _positive_int, "a whole number above 0")
    )
    for limit in fields(MediaLimits)
}


def _unknown(name: str) -> Problem:
    near = difflib.get_close_matches(name, [*_TOP, *_MEDIA], n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join([*_TOP, *_MEDIA])}"
    return Problem(code="setting_unknown", where=name, message=f"no such setting; {hint}")
