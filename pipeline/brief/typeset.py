"""The process that sets pages: `python -m pipeline.brief.typeset FOLDER TEMPLATE FORM TIME`.

Its memory goes back when it ends; the library keeps every picture that it has ever decoded.
"""

from __future__ import annotations

import sys
from pathlib import Path

FONTS = Path(__file__).parent / "fonts"
POINTS_PER_INCH = 200
"""Of a drawing as a picture: sharp on paper."""


def main(folder: str, template: str, form: str, time: str) -> None:
    """Read `template` in `folder` and write `made.pdf` or `made.png` beside it."""
    import typst

    output = f"{folder}/made.{form}"
    source = f"{folder}/{template}"
    try:
        if form == "pdf":
            # PDF/UA: what a screen reader needs is there, or there is no file.
            typst.compile(
                source,
                output,
                root=folder,
                font_paths=[str(FONTS)],
                ignore_system_fonts=True,
                format="pdf",
                pdf_standards=["ua-1"],
                timestamp=int(time),
                package_path=folder,
                package_cache_path=folder,
            )
        else:
            typst.compile(
                source,
                output,
                root=folder,
                font_paths=[str(FONTS)],
                ignore_system_fonts=True,
                format="png",
                ppi=POINTS_PER_INCH,
                package_path=folder,
                package_cache_path=folder,
            )
    except typst.TypstError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
