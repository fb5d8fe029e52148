"""The brief as one HTML file that asks nothing of the network."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import lru_cache

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from pipeline.brief import facts, figures, wording
from pipeline.brief.document import Brief
from pipeline.brief.links import play_href
from pipeline.brief.render_json import sha256
from pipeline.brief.visible import visible

FRAMES_SHOWN_MAX = 3
"""Pictures shown with a finding; the others are named with their times."""


def to_html(
    brief: Brief, *, recording_href: str | None, frame_bytes: Callable[[str], bytes]
) -> str:
    """Pictures are embedded; without a `recording_href` a link's fragment is shown as text."""

    def play(fragment: str) -> str | None:
        return None if recording_href is None else play_href(recording_href, fragment)

    def picture(frame_sha256: str) -> str:
        return "data:image/jpeg;base64," + base64.b64encode(frame_bytes(frame_sha256)).decode()

    return (
        _environment()
        .get_template("brief.html")
        .render(
            brief=brief,
            brief_sha256=sha256(brief),
            play=play,
            picture=picture,
            frames_shown_max=FRAMES_SHOWN_MAX,
        )
    )


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
    environment.globals.update(facts=facts, figures=figures, wording=wording)
    return environment


def _seen(value: object) -> object:
    """Every printed value passes here, so that none can be forgotten in a template."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
