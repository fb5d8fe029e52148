"""The brief as a Word document with headings, tables, links and described pictures."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pipeline.brief import docx_xml
from pipeline.brief.document import Brief
from pipeline.brief.flow_sections import blocks
from pipeline.brief.newest import newest_time
from pipeline.brief.render_json import sha256
from pipeline.brief.render_pdf import timeline_png
from pipeline.brief.visible import visible
from pipeline.brief.zipped import repacked

if TYPE_CHECKING:
    from docx.document import Document

_PROPERTY_CHARS_MAX = 255
"""The library refuses longer ones."""
_UNUSED_PARTS = ("/stylesWithEffects", "/thumbnail", "/customXml")
_FONT = "Cambria"
_SIZES_PT = {"Normal": 10.5, "Heading 1": 21, "Heading 2": 14, "Heading 3": 11.5}


def to_docx(
    brief: Brief, *, recording_href: str | None, frame_bytes: Callable[[str], bytes]
) -> bytes:
    """Pictures are embedded; without a `recording_href` a link's fragment is shown as text."""
    import docx
    from docx.oxml import parse_xml
    from docx.oxml.ns import nsdecls

    document = docx.Document()
    _clear(document)
    _prepare(document, brief)
    parts = _Parts(document, brief, frame_bytes)
    body = docx_xml.Body(parts.link, parts.frame, parts.drawing)
    written = "".join(map(body.xml, blocks(brief, recording_href=recording_href)))
    parsed = parse_xml(f"<w:body {nsdecls('w', 'r', 'wp', 'a', 'pic')}>{written}</w:body>")
    end = document.element.body.sectPr
    for element in list(parsed):
        end.addprevious(element)
    made = io.BytesIO()
    document.save(made)
    return repacked(made.getvalue())


class _Parts:
    """What the body points to: addresses and pictures, each once."""

    def __init__(
        self, document: Document, brief: Brief, frame_bytes: Callable[[str], bytes]
    ) -> None:
        self._part = document.part
        self._brief = brief
        self._frame_bytes = frame_bytes
        self._links: dict[str, str] = {}
        self._frames: dict[str, tuple[str, int, int]] = {}

    def link(self, href: str) -> str:
        from docx.opc.constants import RELATIONSHIP_TYPE

        if href not in self._links:
            self._links[href] = self._part.relate_to(
                href, RELATIONSHIP_TYPE.HYPERLINK, is_external=True
            )
        return self._links[href]

    def frame(self, frame_sha256: str) -> tuple[str, int, int]:
        if frame_sha256 not in self._frames:
            name = f"frame-{len(self._frames) + 1}.jpg"
            self._frames[frame_sha256] = self._picture(name, self._frame_bytes(frame_sha256))
        return self._frames[frame_sha256]

    def drawing(self) -> tuple[str, int, int]:
        return self._picture("timeline.png", timeline_png(self._brief))

    def _picture(self, name: str, content: bytes) -> tuple[str, int, int]:
        """Past the library's own search for an equal picture, which reads all of them again."""
        from docx.image.image import Image
        from docx.opc.constants import RELATIONSHIP_TYPE
        from docx.opc.packuri import PackURI
        from docx.parts.image import ImagePart

        image = Image.from_blob(content)
        part = ImagePart(PackURI(f"/word/media/{name}"), image.content_type, content, image)
        id = self._part.relate_to(part, RELATIONSHIP_TYPE.IMAGE)
        return id, image.px_width, image.px_height


def _clear(document: Document) -> None:
    """What the library's template holds and this document has no use for."""
    from docx.enum.style import WD_STYLE_TYPE

    for rels in (document.part.rels, document.part.package.rels):
        for id in [id for id, rel in rels.items() if rel.reltype.endswith(_UNUSED_PARTS)]:
            del rels[id]
    for style in [style for style in document.styles if style.type == WD_STYLE_TYPE.TABLE]:
        if style.name != "Normal Table":
            style.delete()


def _prepare(document: Document, brief: Brief) -> None:
    """Page, styles, footer and properties; the times are stored ones."""
    from docx.shared import Mm, Pt, RGBColor

    section = document.sections[0]
    section.page_width, section.page_height = Mm(210), Mm(297)
    section.left_margin = section.right_margin = Mm((210 - docx_xml.TEXT_WIDTH_MM) / 2)
    section.top_margin, section.bottom_margin = Mm(18), Mm(20)
    for name, size_pt in _SIZES_PT.items():
        style: Any = document.styles[name]
        style.font.name, style.font.size = _FONT, Pt(size_pt)
        style.font.color.rgb = RGBColor.from_string(docx_xml.INK)
        # A heading's font is the theme's until that is taken away.
        fonts = style.element.rPr.rFonts.attrib
        for key in [key for key in fonts if key.endswith("Theme")]:
            del fonts[key]
    normal: Any = document.styles["Normal"]
    normal.paragraph_format.space_after = Pt(5)
    _foot(section.footer.paragraphs[0], sha256(brief))
    properties = document.core_properties
    properties.title = visible(brief.header.name)[:_PROPERTY_CHARS_MAX]
    properties.author = properties.last_modified_by = "OmnAI"
    properties.comments = f"Brief SHA-256 {sha256(brief)}"
    properties.language = "en"
    properties.created = properties.modified = newest_time(brief).replace(tzinfo=None)


def _foot(line: Any, digest: str) -> None:
    """The digest and `Page 2 of 9`, counted by whoever opens the document."""
    from docx.oxml import parse_xml
    from docx.oxml.ns import nsdecls
    from docx.shared import Pt

    counted = (
        '<w:fldSimple {names} w:instr="{field}"><w:r><w:rPr><w:sz w:val="13"/></w:rPr>'
        "<w:t>1</w:t></w:r></w:fldSimple>"
    )
    for text, field in ((f"Brief SHA-256 {digest} · Page ", "PAGE"), (" of ", "NUMPAGES")):
        line.add_run(text).font.size = Pt(6.5)
        line._p.append(parse_xml(counted.format(names=nsdecls("w"), field=field)))
