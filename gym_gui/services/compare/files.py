"""A comparison as a file, in the format that its name asks for."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from gym_gui.services.charts import files
from gym_gui.services.charts.panels import arranged
from gym_gui.services.compare import page, report
from gym_gui.services.compare.comparison import Comparison
from gym_gui.services.compare.figures import sheet
from gym_gui.services.compare.origin import origin_of

FORMATS = (".html", *files.PICTURES, ".csv", ".tex", ".json")


def content(found: Comparison, file: Path, about: page.About) -> bytes:
    """Raises NoPngError."""
    match file.suffix.lower():
        case ".html":
            return page.document(found, origin_of(found), about).encode()
        case ".csv":
            return csv_text(found).encode()
        case ".tex":
            return report.latex(found).encode()
        case ".json":
            return (json.dumps(report.as_object(found), indent=1, allow_nan=False) + "\n").encode()
        case suffix:
            return files.picture(arranged(sheet(found)), suffix)


def csv_text(found: Comparison) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(report.COLUMNS)
    writer.writerows(report.rows(found))
    return text.getvalue()
