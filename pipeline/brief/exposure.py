"""Every holding of the portfolio: where it was found, and what the others were looked for in."""

from __future__ import annotations

from pipeline.brief import wording
from pipeline.brief.coverage import Division
from pipeline.brief.document import Exposure, ExposureLine, FindingEntry, Moment
from pipeline.brief.figures import share
from pipeline.brief.selection import holding_refs
from pipeline.brief.spans import listing, spans_of, total_ms
from pipeline.records import Holding


def expose(
    holdings: tuple[Holding, ...], findings: tuple[FindingEntry, ...], division: Division
) -> Exposure:
    found: dict[str, list[FindingEntry]] = {holding.id: [] for holding in holdings}
    for finding in findings:
        for holding in finding.holdings:
            found[holding.id].append(finding)
    lines = [
        ExposureLine(
            holding=ref,
            findings=tuple(finding.ref for finding in found[id]),
            first=_first(found[id]),
        )
        for id, ref in holding_refs(holdings).items()
    ]
    looked_for_ms = total_ms(division.fed)
    return Exposure(
        with_findings=tuple(line for line in lines if line.findings),
        without_findings=tuple(line for line in lines if not line.findings),
        looked_for_ms=looked_for_ms,
        looked_for_share_pct=share(looked_for_ms, division.base_ms),
        looked_for_in=listing(spans_of(division.fed)),
        caution=wording.NO_FINDING,
    )


def _first(findings: list[FindingEntry]) -> Moment | None:
    if not findings:
        return None
    return Moment(ms=min(finding.source.generated_in.start_ms for finding in findings))
