"""Blocks as WordprocessingML: the one place where text of a Word document is escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from xml.sax.saxutils import escape, quoteattr

from pipeline.brief import sentences
from pipeline.brief.flow import (
    Block,
    Bullets,
    Drawing,
    Facts,
    Heading,
    Paragraph,
    Pictures,
    Run,
    Runs,
    Table,
    Tone,
    plain,
)
from pipeline.brief.isolated import begins_right_to_left, has_right_to_left
from pipeline.brief.visible import visible

INK, SOFT, LINK, RULE, AMBER, PANEL = "1D1B16", "5C5A55", "1D4E89", "D9D5CB", "8A5A00", "F6F3EC"
CODE_FONT = "Courier New"
TEXT_WIDTH_MM = 170
_NAME_WIDTH_MM = 36
_SINGLE_PICTURE_MM = 70
_PICTURE_MM = 54
_LEFT_TO_RIGHT_MARK = "\u200e"
_TWIPS_PER_MM = 1440 / 25.4
_EMU_PER_MM = 36_000

# Sizes in half points.
_SIZES = {Tone.LEAD: 23, Tone.SOFT: 17, Tone.WARNING: 19}
_COLORS = {Tone.SOFT: SOFT}


def _left_rule(eighths_pt: int, color: str) -> str:
    return f'<w:left w:val="single" w:sz="{eighths_pt}" w:space="8" w:color="{color}"/>'


_INDENT = '<w:ind w:left="180"/>'
_BORDERS = {
    Tone.LABEL: "<w:keepNext/>",
    Tone.WARNING: f"<w:pBdr>{_left_rule(18, AMBER)}</w:pBdr>"
    f'<w:shd w:val="clear" w:color="auto" w:fill="{PANEL}"/>',
    Tone.QUOTE: f"<w:pBdr>{_left_rule(12, RULE)}</w:pBdr>",
}
_SIZE_CODE, _SIZE_CELL = 15, 18

LinkId = Callable[[str], str]
"""The relationship of an address outside the document."""
PictureId = Callable[[str], tuple[str, int, int]]
"""The relationship of the frame with this SHA-256, its width and height in pixels."""


_Filled = tuple[str, bool]
"""What stands in a cell, and whether it is read from right to left."""


class Body:
    """Makes the body's XML, block by block; what it points to comes from the two functions."""

    def __init__(
        self, link_id: LinkId, frame_id: PictureId, drawing_id: Callable[[], tuple[str, int, int]]
    ) -> None:
        self._link_id = link_id
        self._frame_id = frame_id
        self._drawing_id = drawing_id
        self._bookmarks = 0
        self._pictures = 0

    def xml(self, block: Block) -> str:
        match block:
            case Heading():
                return self._heading(block)
            case Paragraph():
                return self._paragraph(block)
            case Bullets():
                style = '<w:pStyle w:val="ListBullet"/>'
                return "".join(
                    _line(
                        self._runs(item, _SIZES.get(block.tone), _bullet_color(block.tone)), style
                    )
                    for item in block.items
                )
            case Facts():
                return self._facts(block)
            case Table():
                return self._table(block)
            case Pictures():
                return self._frames(block)
            case Drawing():
                return _line(self._picture(self._drawing_id(), TEXT_WIDTH_MM, block.alt))

    def _heading(self, heading: Heading) -> str:
        runs = self._runs(heading.runs, None, None)
        if heading.anchor is not None:
            self._bookmarks += 1
            name = quoteattr(_bookmark(heading.anchor))
            runs = (
                f'<w:bookmarkStart w:id="{self._bookmarks}" w:name={name}/>{runs}'
                f'<w:bookmarkEnd w:id="{self._bookmarks}"/>'
            )
        return _line(runs, f'<w:pStyle w:val="Heading{heading.level}"/>')

    def _paragraph(self, paragraph: Paragraph) -> str:
        tone = paragraph.tone
        runs = self._runs(paragraph.runs, _SIZES.get(tone), _COLORS.get(tone))
        after = _INDENT if tone in (Tone.WARNING, Tone.QUOTE) else ""
        return _line(runs, _BORDERS.get(tone, ""), after, is_rtl=_is_rtl(paragraph.runs))

    def _facts(self, facts: Facts) -> str:
        rows = (
            (
                self._filled(plain(name), _SIZE_CELL, SOFT),
                self._filled(value, _SIZE_CELL + 1, None),
            )
            for name, value in facts.rows
        )
        widths = (_NAME_WIDTH_MM, TEXT_WIDTH_MM - _NAME_WIDTH_MM)
        return _grid(widths, rows, frozenset(), has_head=False)

    def _table(self, table: Table) -> str:
        whole = sum(table.widths)
        widths = tuple(TEXT_WIDTH_MM * width / whole for width in table.widths)
        head = tuple(self._filled(plain(name), _SIZE_CELL - 2, SOFT) for name in table.head)
        rows = (tuple(self._filled(cell, _SIZE_CELL, None) for cell in row) for row in table.rows)
        return _grid(widths, (head, *rows), table.numeric, has_head=True)

    def _frames(self, pictures: Pictures) -> str:
        count = len(pictures.stills)
        width_mm = _SINGLE_PICTURE_MM if count == 1 else _PICTURE_MM
        shown = (
            self._picture(self._frame_id(still.sha256), width_mm, sentences.frame_alt(still.text))
            for still in pictures.stills
        )
        space = '<w:r><w:t xml:space="preserve"> </w:t></w:r>'
        moments = " · ".join(still.text for still in pictures.stills)
        below = self._runs(plain(moments), _SIZES[Tone.SOFT], SOFT)
        return _line(space.join(shown), "<w:keepNext/>") + _line(below)

    def _picture(self, picture: tuple[str, int, int], width_mm: float, alt: str) -> str:
        id, width_px, height_px = picture
        self._pictures += 1
        number = self._pictures
        width = round(width_mm * _EMU_PER_MM)
        size = f'cx="{width}" cy="{width * height_px // width_px}"'
        return (
            '<w:r><w:drawing><wp:inline distT="0" distB="0" distL="0" distR="0">'
            f"<wp:extent {size}/>"
            f'<wp:docPr id="{number}" name="Picture {number}" descr={quoteattr(alt)}/>'
            '<wp:cNvGraphicFramePr><a:graphicFrameLocks noChangeAspect="1"/>'
            "</wp:cNvGraphicFramePr><a:graphic><a:graphicData "
            'uri="http://schemas.openxmlformats.org/drawingml/2006/picture"><pic:pic>'
            f'<pic:nvPicPr><pic:cNvPr id="{number}" name="Picture {number}"/><pic:cNvPicPr/>'
            f'</pic:nvPicPr><pic:blipFill><a:blip r:embed="{id}"/><a:stretch><a:fillRect/>'
            f'</a:stretch></pic:blipFill><pic:spPr><a:xfrm><a:off x="0" y="0"/><a:ext {size}/>'
            '</a:xfrm><a:prstGeom prst="rect"><a:avLst/></a:prstGeom></pic:spPr></pic:pic>'
            "</a:graphicData></a:graphic></wp:inline></w:drawing></w:r>"
        )

    def _filled(self, runs: Runs, size: int, color: str | None) -> _Filled:
        return self._runs(runs, size, color), _is_rtl(runs)

    def _runs(self, runs: Runs, size: int | None, color: str | None) -> str:
        return "".join(self._run(run, size, color) for run in runs)

    def _run(self, run: Run, size: int | None, color: str | None) -> str:
        if run.href is not None:
            id = quoteattr(self._link_id(run.href))
            return f"<w:hyperlink r:id={id}>{_text(run, size, LINK, is_link=True)}</w:hyperlink>"
        if run.target is not None:
            name = quoteattr(_bookmark(run.target))
            return f"<w:hyperlink w:anchor={name}>{_text(run, size, LINK)}</w:hyperlink>"
        return _text(run, size, color)


def _text(run: Run, size: int | None, color: str | None, *, is_link: bool = False) -> str:
    """One run; its properties stand in the order that the schema asks for."""
    properties = []
    if run.is_code:
        fonts = f'w:ascii="{CODE_FONT}" w:hAnsi="{CODE_FONT}" w:cs="{CODE_FONT}"'
        properties.append(f"<w:rFonts {fonts}/>")
        size = _SIZE_CODE
    if run.is_strong:
        properties.append("<w:b/><w:bCs/>")
    elif run.is_soft:
        properties.append('<w:b w:val="0"/><w:bCs w:val="0"/>')
        color = SOFT
    if color is not None:
        properties.append(f'<w:color w:val="{color}"/>')
    if size is not None:
        properties.append(f'<w:sz w:val="{size}"/><w:szCs w:val="{size}"/>')
    if is_link:
        properties.append('<w:u w:val="single"/>')
    if has_right_to_left(run.text):
        properties.append("<w:rtl/>")
    lines = visible(run.text).replace("\t", " ").split("\n")
    if has_right_to_left(run.text):
        # Else figures and brackets that follow would be read from right to left too.
        lines[-1] += _LEFT_TO_RIGHT_MARK
    content = "<w:br/>".join(
        f'<w:t xml:space="preserve">{escape(line)}</w:t>' if line else "" for line in lines
    )
    return f"<w:r><w:rPr>{''.join(properties)}</w:rPr>{content}</w:r>"


def _line(runs: str, before: str = "", after: str = "", *, is_rtl: bool = False) -> str:
    """A paragraph; its properties stand before and after the direction, as the schema asks for."""
    direction = "<w:bidi/>" if is_rtl else ""
    return f"<w:p><w:pPr>{before}{direction}{after}</w:pPr>{runs}</w:p>"


def _is_rtl(runs: Runs) -> bool:
    """Only where all of it was written by one; else the fixed words decide."""
    return len(runs) == 1 and begins_right_to_left(runs[0].text)


def _grid(
    widths_mm: Sequence[float],
    rows: Iterable[Sequence[_Filled]],
    numeric: frozenset[int],
    *,
    has_head: bool,
) -> str:
    """A table and an empty line, without which Word would join it to the next one."""
    widths = [round(width * _TWIPS_PER_MM) for width in widths_mm]
    rule = f'w:val="single" w:sz="4" w:space="0" w:color="{RULE}"'
    borders = (
        f"<w:tblBorders><w:bottom {rule}/><w:insideH {rule}/></w:tblBorders>" if has_head else ""
    )
    made = [
        f'<w:tbl><w:tblPr><w:tblW w:w="{sum(widths)}" w:type="dxa"/>{borders}'
        '<w:tblLayout w:type="fixed"/></w:tblPr>'
        f"<w:tblGrid>{''.join(f'<w:gridCol w:w={quoteattr(str(w))}/>' for w in widths)}</w:tblGrid>"
    ]
    for number, row in enumerate(rows):
        is_head = has_head and number == 0
        head = "<w:tblHeader/>" if is_head else ""
        cells = "".join(
            _cell(filled, widths[column], is_right=column in numeric)
            for column, filled in enumerate(row)
        )
        made.append(f"<w:tr><w:trPr><w:cantSplit/>{head}</w:trPr>{cells}</w:tr>")
    made.append("</w:tbl>")
    return "".join(made) + _line(
        "", after='<w:spacing w:after="0" w:line="120" w:lineRule="exact"/>'
    )


def _cell(filled: _Filled, width: int, *, is_right: bool) -> str:
    runs, is_rtl = filled
    align = '<w:jc w:val="right"/>' if is_right else ""
    line = _line(runs, after=f'<w:spacing w:before="20" w:after="20"/>{align}', is_rtl=is_rtl)
    return f'<w:tc><w:tcPr><w:tcW w:w="{width}" w:type="dxa"/></w:tcPr>{line}</w:tc>'


def _bullet_color(tone: Tone) -> str | None:
    return AMBER if tone is Tone.WARNING else _COLORS.get(tone)


def _bookmark(anchor: str) -> str:
    """Names of bookmarks have no hyphen."""
    return anchor.replace("-", "_")
