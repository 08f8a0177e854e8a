"""Files of documents as their own programs' libraries write them, and PDF files written by hand."""

from email.message import EmailMessage
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile


def pdf_of(*pages, title="", lines_apart=14, gap=30):
    """Return a PDF file. Each page is a text: its lines, with paragraphs apart by empty lines."""
    kids = " ".join(f"{5 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        f"<< /Title ({title}) >>".encode(),
    ]
    for at, page in enumerate(pages):
        stream = _stream(page, lines_apart, gap)
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 800 8000] /Contents %d 0 R"
            b" /Resources << /Font << /F1 3 0 R >> >> >>" % (6 + 2 * at)
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    return _file_of(objects)


def pdf_bomb(depth):
    """Return a PDF file whose page shows a form twice, that shows a form twice, and so on."""
    page = (
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 800 800] /Contents 6 0 R"
        b" /Resources << /Font << /F1 3 0 R >> /XObject << /X 7 0 R >> >> >>"
    )
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [5 0 R] /Count 1 >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Title (Bomb) >>",
        page,
        b"<< /Length 11 >>\nstream\n/X Do /X Do\nendstream",
    ]
    for at in range(depth):
        shown = b"/X Do /X Do" if at < depth - 1 else b"BT /F1 9 Tf 1 0 0 1 40 40 Tm (word) Tj ET"
        objects.append(
            b"<< /Type /XObject /Subtype /Form /BBox [0 0 800 800] /Length %d /Resources"
            b" << /Font << /F1 3 0 R >> /XObject << /X %d 0 R >> >> >>\nstream\n%s\nendstream"
            % (len(shown), 8 + at, shown)
        )
    return _file_of(objects)


def _stream(page, lines_apart, gap):
    parts, y = ["BT /F1 10 Tf"], 7900
    for line in page.split("\n"):
        y -= lines_apart if line else gap - lines_apart
        if line:
            escaped = line.replace("\\", "\\\\").replace("(", r"\(").replace(")", r"\)")
            parts.append(f"1 0 0 1 40 {y} Tm ({escaped}) Tj")
    return " ".join([*parts, "ET"]).encode("cp1252")


def _file_of(objects):
    out, places = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", []
    for at, one in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (at, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer << /Size %d /Root 1 0 R /Info 4 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(out))
    return out + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table + end


def docx_of(text, heading="Findings"):
    from docx import Document

    document = Document()
    document.add_heading("Report", 0)
    document.add_heading(heading, 1)
    for line in text.split("\n"):
        document.add_paragraph(line)
    return _saved(document)


def pptx_of(*slides):
    from pptx import Presentation

    show = Presentation()
    for title, body, notes in slides:
        slide = show.slides.add_slide(show.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = body
        if notes:
            slide.notes_slide.notes_text_frame.text = notes
    return _saved(show)


def xlsx_of(**sheets):
    from openpyxl import Workbook

    book = Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    return _saved(book)


def odt_of(text, heading="Findings"):
    from odf.opendocument import OpenDocumentText
    from odf.text import H, P

    document = OpenDocumentText()
    document.text.addElement(H(outlinelevel=1, text=heading))
    for line in text.split("\n"):
        document.text.addElement(P(text=line))
    return _saved(document)


def ods_of(name, rows):
    from odf.opendocument import OpenDocumentSpreadsheet
    from odf.table import Table, TableCell, TableRow
    from odf.text import P

    document = OpenDocumentSpreadsheet()
    table = Table(name=name)
    for row in rows:
        line = TableRow()
        for value in row:
            formula = {"formula": f"of:{value}"} if value.startswith("=") else {}
            cell = TableCell(valuetype="string", **formula)
            cell.addElement(P(text="" if formula else value))
            line.addElement(cell)
        table.addElement(line)
    document.spreadsheet.addElement(table)
    return _saved(document)


def odp_of(*slides):
    from odf.draw import Frame, Page, TextBox
    from odf.opendocument import OpenDocumentPresentation
    from odf.style import MasterPage, PageLayout
    from odf.text import P

    document = OpenDocumentPresentation()
    layout = PageLayout(name="plain")
    document.automaticstyles.addElement(layout)
    document.masterstyles.addElement(MasterPage(name="plain", pagelayoutname=layout))
    for title, body in slides:
        page = Page(masterpagename="plain")
        for kind, said in (("title", title), ("outline", body)):
            frame, box = Frame(attributes={"class": kind}, width="10cm", height="5cm"), TextBox()
            box.addElement(P(text=said))
            frame.addElement(box)
            page.addElement(frame)
        document.presentation.addElement(page)
    return _saved(document)


def epub_of(text, chapter="Chapter One", title="A Book"):
    paragraphs = "".join(f"<p>{line.replace('&', '&amp;').replace('<', '&lt;')}</p>" for line in text.split("\n"))
    opf = (
        '<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f'<dc:title>{title}</dc:title></metadata><manifest><item id="c" href="one.xhtml"/></manifest>'
        '<spine><itemref idref="c"/></spine></package>'
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OPS/book.opf"/></rootfiles></container>'
    )
    return zip_of(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": container,
            "OPS/book.opf": opf,
            "OPS/one.xhtml": "<!DOCTYPE html><html><head><title>x</title></head>"
            f"<body><h1>{chapter}</h1>{paragraphs}</body></html>",
        }
    )


def eml_of(text, subject="Findings", **headers):
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "Ana <ana@example.org>", "ben@example.org", subject
    mail["Date"] = "Mon, 03 Feb 2025 10:00:00 +0000"
    for name, value in headers.items():
        mail[name.replace("_", "-")] = value
    mail.set_content(text)
    return mail.as_bytes()


def mbox_of(*mails):
    return b"".join(b"From ana@example.org Mon Feb  3 10:00:00 2025\n" + mail + b"\n" for mail in mails)


def zip_of(members, packed=ZIP_DEFLATED):
    out = BytesIO()
    with ZipFile(out, "w", packed) as archive:
        for name, data in members.items():
            archive.writestr(name, data, ZIP_STORED if name == "mimetype" else packed)
    return out.getvalue()


def with_member(data, name, change):
    """Return a zip file with a member changed by `change`."""
    with ZipFile(BytesIO(data)) as archive:
        members = {one: archive.read(one) for one in archive.namelist()}
    return zip_of(members | {name: change(members[name])})


def _saved(document):
    out = BytesIO()
    document.save(out)
    return out.getvalue()


def mhtml_of(
    page, *, address="https://example.org/docs/retries?v=2", encoding="quoted-printable", charset="utf-8", more=()
):
    """Return a page as Chromium saves it as one file. `more` are other parts: their type, address and bytes."""
    from base64 import encodebytes
    from quopri import encodestring

    def part(kind, place, data, how):
        body = {"base64": encodebytes, "quoted-printable": encodestring}.get(how, bytes)(data)
        head = f"Content-Type: {kind}\nContent-Transfer-Encoding: {how}\nContent-Location: {place}\n\n"
        return f"------MultipartBoundary--x\n{head}".encode() + body + b"\n"

    head = (
        f"From: <Saved by Blink>\nSnapshot-Content-Location: {address}\nSubject: =?utf-8?Q?Retries?=\n"
        "Date: Mon, 23 Nov 2026 10:00:00 -0000\nMIME-Version: 1.0\nContent-Type: multipart/related;\n"
        '\ttype="text/html";\n\tboundary="----MultipartBoundary--x"\n\n\n'
    )
    kind = "text/html" + (f"; charset={charset}" if charset else "")
    parts = [part(kind, address, page, encoding), *(part(*one, "base64") for one in more)]
    whole = head.encode() + b"".join(parts) + b"------MultipartBoundary--x--\n"
    return whole.replace(b"\n", b"\r\n")
