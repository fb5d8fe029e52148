"""The newest stored time of a brief, for formats that must carry a time of their own."""

from __future__ import annotations

from datetime import datetime

from pipeline.brief.document import Brief


def newest_time(brief: Brief) -> datetime:
    """To the second. Never the clock's: the same rows give the same bytes at any time."""
    provenance = brief.provenance
    times = [provenance.created_at, provenance.ended_at]
    times += [epoch.ended_at for epoch in provenance.epochs]
    times += [note.at for finding in brief.findings for note in finding.notes]
    # All of one length and in UTC, so that text sorts as time does.
    newest = max(time for time in times if time)
    return datetime.strptime(newest, "%Y-%m-%dT%H:%M:%S.%f%z").replace(microsecond=0)
