"""The brief as one HTML file that asks nothing of the network."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import lru_cache

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from pipeline.brief import facts, figures, sentences, wording
from pipeline.brief.document import Brief, FindingEntry
from pipeline.brief.links import player
from pipeline.brief.picture_choice import FRAMES_SHOWN_MAX, stills
from pipeline.brief.render_json import sha256
from pipeline.brief.timeline_svg import to_svg
from pipeline.brief.visible import visible

Picture = Callable[[str], str]
"""The address of the frame with this SHA-256."""

Tools = Callable[[FindingEntry], Markup]
"""What a page adds to a finding."""


def to_html(
    brief: Brief, *, recording_href: str | None, frame_bytes: Callable[[str], bytes]
) -> str:
    """Pictures are embedded; without a `recording_href` a link's fragment is shown as text."""

    def picture(frame_sha256: str) -> str:
        return "data:image/jpeg;base64," + base64.b64encode(frame_bytes(frame_sha256)).decode()

    body = to_html_body(brief, recording_href=recording_href, picture=picture)
    return _environment().get_template("brief.html").render(brief=brief, body=body)


def to_html_body(
    brief: Brief,
    *,
    recording_href: str | None,
    picture: Picture,
    tools: Tools = lambda finding: Markup(),
) -> Markup:
    """What stands in the document's body, for a page that brings its own head and style.

    `tools` are put at the end of each finding.
    """
    written = (
        _environment()
        .get_template("brief_body.html")
        .render(
            brief=brief,
            brief_sha256=sha256(brief),
            entries={finding.ref: finding for finding in brief.findings},
            drawing=to_svg(brief.timeline),
            plays=player(brief, recording_href),
            picture=picture,
            stills=stills,
            tools=tools,
            frames_shown_max=FRAMES_SHOWN_MAX,
        )
    )
    return Markup(written)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pipeline.brief"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        finalize=_seen,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["visible"] = visible
    environment.globals.update(facts=facts, figures=figures, sentences=sentences, wording=wording)
    return environment


def _seen(value: object) -> object:
    """Every printed value passes here, so that none can be forgotten in a template."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
