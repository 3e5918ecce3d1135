"""Make the documents of the tests: `python tests/documents/make.py` writes them beside itself.

All names, numbers and texts are invented. The output is the same on every run, so a change of a
document shows in the repository as a change of its bytes. `expected.json` has the right values.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from reportlab.lib.pagesizes import A4, LETTER
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.lib.utils import simpleSplit
from reportlab.pdfgen.canvas import Canvas

HERE = Path(__file__).parent
LEFT, RIGHT, TOP = 56.0, 540.0, 786.0

Maker = Callable[[], bytes]


class Sheet:
    """A canvas with the few things that letters and invoices need."""

    def __init__(self, title: str, size: tuple[float, float] = A4, **options: Any) -> None:
        self._buffer = io.BytesIO()
        self.canvas = Canvas(self._buffer, pagesize=size, invariant=1, **options)
        self.canvas.setTitle(title)
        self.y = TOP if size == A4 else 740.0

    def font(self, size: float = 10, bold: bool = False) -> Sheet:
        self.canvas.setFont("Helvetica-Bold" if bold else "Helvetica", size)
        return self

    def put(self, x: float, text: str, right: bool = False) -> Sheet:
        (self.canvas.drawRightString if right else self.canvas.drawString)(x, self.y, text)
        return self

    def down(self, by: float = 14) -> Sheet:
        self.y -= by
        return self

    def lines(self, x: float, *texts: str, leading: float = 13) -> Sheet:
        """Lines below each other; the sheet stays where it was."""
        for index, text in enumerate(texts):
            self.canvas.drawString(x, self.y - index * leading, text)
        return self

    def row(self, columns: Sequence[tuple[float, bool]], *texts: str) -> Sheet:
        for (x, right), text in zip(columns, texts, strict=True):
            self.put(x, text, right)
        return self.down(15)

    def rule(self) -> Sheet:
        self.canvas.line(LEFT, self.y + 10, RIGHT, self.y + 10)
        return self

    def paragraph(self, text: str, size: float = 10) -> Sheet:
        self.font(size)
        for line in simpleSplit(text, "Helvetica", size, RIGHT - LEFT):
            self.put(LEFT, line).down(size + 3)
        return self.down(6)

    def next_page(self) -> Sheet:
        self.canvas.showPage()
        self.y = TOP
        return self

    def done(self) -> bytes:
        self.canvas.showPage()
        self.canvas.save()
        return self._buffer.getvalue()


def invoice_en() -> bytes:
    """Labels and values on one line, American dates, sales tax, letter size."""
    s = Sheet("Invoice HM-2024-0317", LETTER)
    s.font(18, True).put(LEFT, "Harbor & Mill Supply Co.").font(22, True).put(
        RIGHT, "INVOICE", True
    )
    s.down(16).font().lines(LEFT, "1180 Canal Street", "Portland, OR 97209", "United States")
    columns = ((380.0, False), (RIGHT, True))
    s.down(14).row(columns, "Invoice Number:", "HM-2024-0317")
    s.row(columns, "Invoice Date:", "03/12/2024").row(columns, "Due Date:", "04/11/2024")
    s.row(columns, "Customer No.:", "C-4471").row(columns, "PO Number:", "PO-88213")
    s.down(10).font(10, True).put(LEFT, "Bill To:").put(300, "Ship To:").down()
    s.font().lines(LEFT, "Juniper Street Bakery LLC", "42 Juniper Street", "Seattle, WA 98101")
    s.lines(300, "Juniper Street Bakery - Kitchen", "7 Dock Road", "Seattle, WA 98134").down(62)
    table = ((LEFT, False), (330.0, True), (430.0, True), (RIGHT, True))
    s.font(10, True).row(table, "Description", "Quantity", "Unit Price", "Amount").rule().font()
    s.row(table, "Flour, stone ground, 50 lb", "24", "$31.50", "$756.00")
    s.row(table, "Sea salt, coarse, 25 lb", "6", "$18.25", "$109.50")
    s.row(table, "Baking parchment, carton", "10", "$42.00", "$420.00").down(8)
    sums = ((430.0, True), (RIGHT, True))
    s.row(sums, "Subtotal", "$1,285.50").row(sums, "Sales Tax (8.5%)", "$109.27")
    s.font(11, True).row(sums, "Total Due", "$1,394.77").down(30)
    s.paragraph("Payment terms: Net 30. Please make checks payable to Harbor & Mill Supply Co.")
    return s.done()


def invoice_de() -> bytes:
    """DIN 5008: sender line, address window, block of references, bank details in the foot."""
    s = Sheet("Rechnung RE-2024-00482")
    s.font(7).put(LEFT, "Tischlerei Birkenhain GmbH · Lindenweg 14 · 04229 Leipzig").down(18)
    s.font().lines(
        LEFT, "Buchhandlung Seitenwind OHG", "Frau Mareike Sontag", "Marktgasse 3", "99084 Erfurt"
    )
    block = ((350.0, False), (RIGHT, True))
    s.row(block, "Rechnungs-Nr.", "RE-2024-00482").row(block, "Rechnungsdatum", "14. März 2024")
    s.row(block, "Kundennummer", "20817").row(block, "Lieferdatum", "08.03.2024")
    s.down(50).font(16, True).put(LEFT, "Rechnung").down(24).font()
    s.paragraph("Für die Lieferung und Montage berechnen wir Ihnen wie vereinbart:")
    table = ((LEFT, False), (90.0, False), (340.0, True), (430.0, True), (RIGHT, True))
    s.font(10, True).row(
        table, "Pos.", "Bezeichnung", "Menge", "Einzelpreis", "Gesamt"
    ).rule().font()
    s.row(table, "1", "Regal Eiche massiv, 2,40 m", "4", "645,00 €", "2.580,00 €")
    s.row(table, "2", "Lesebank, geölt", "2", "389,50 €", "779,00 €")
    s.row(table, "3", "Montage vor Ort", "1", "420,00 €", "420,00 €").down(8)
    sums = ((430.0, True), (RIGHT, True))
    s.row(sums, "Nettobetrag", "3.779,00 €").row(sums, "zzgl. 19 % MwSt.", "718,01 €")
    s.font(11, True).row(sums, "Rechnungsbetrag", "4.497,01 €").down(20)
    s.paragraph("Zahlbar bis zum 13.04.2024 ohne Abzug auf das unten genannte Konto.")
    s.y = 90
    s.font(7.5).lines(
        LEFT, "Tischlerei Birkenhain GmbH", "Lindenweg 14", "04229 Leipzig", leading=10
    )
    s.lines(230, "USt-IdNr. DE811569869", "Steuernummer 231/123/45678", leading=10)
    s.lines(390, "IBAN DE89 3704 0044 0532 0130 00", "BIC COBADEFFXXX", leading=10)
    return s.done()


def invoice_nl() -> bytes:
    """Headings in a row with their values below, sums in a box on the right."""
    s = Sheet("Factuur 2024.0156")
    s.font(20, True).put(LEFT, "FACTUUR").font(10, True).put(
        RIGHT, "Fietsatelier De Spaak B.V.", True
    )
    s.down().font()
    for text in ("Kanaalkade 88", "3511 KD Utrecht", "KvK 30218845", "BTW NL002455799B11"):
        s.put(RIGHT, text, True).down(13)
    s.down(10).lines(LEFT, "Stichting Wijkvervoer Lombok", "Damstraat 21", "3531 BR Utrecht").down(
        66
    )
    heads = ((LEFT, False), (180.0, False), (300.0, False), (420.0, False))
    s.font(9, True).row(heads, "Factuurnummer", "Factuurdatum", "Vervaldatum", "Klantnummer")
    s.font().row(heads, "2024.0156", "5 februari 2024", "6 maart 2024", "K-0931").down(14)
    table = ((LEFT, False), (330.0, True), (420.0, True), (RIGHT, True))
    s.font(10, True).row(table, "Omschrijving", "Aantal", "Stukprijs", "Bedrag").rule().font()
    s.row(table, "Bakfiets onderhoudsbeurt", "12", "€ 79,50", "€ 954,00")
    s.row(table, "Remblokken, set", "24", "€ 14,25", "€ 342,00")
    s.row(table, "Haal- en brengservice", "3", "€ 35,00", "€ 105,00").down(10)
    sums = ((400.0, False), (RIGHT, True))
    s.row(sums, "Totaal excl. btw", "€ 1.401,00").row(sums, "Btw 21%", "€ 294,21")
    s.font(11, True).row(sums, "Te betalen", "€ 1.695,21").down(30)
    s.font().paragraph(
        "Gelieve het bedrag voor de vervaldatum over te maken op NL91 ABNA 0417 1643 00 "
        "onder vermelding van het factuurnummer."
    )
    return s.done()


def invoice_fr() -> bytes:
    """A title with the number in it, amounts with spaces, two rates of tax."""
    s = Sheet("Facture F2024-0093")
    s.font(12, True).put(LEFT, "Atelier Vermillon SARL").down().font(9)
    for text in (
        "17 rue des Tanneurs",
        "69005 Lyon",
        "SIRET 532 817 404 00027",
        "N° TVA FR83404833048",
    ):
        s.put(LEFT, text).down(12)
    s.down(4).font(10, True).put(330, "Facturé à").down().font()
    s.lines(330, "Librairie des Deux Ponts SAS", "4 quai Saint-Antoine", "69002 Lyon").down(56)
    s.font(15, True).put(LEFT, "FACTURE N° F2024-0093").down(22).font()
    s.put(LEFT, "Date d'émission : 18 janvier 2024").down()
    s.put(LEFT, "Date d'échéance : 17 février 2024").down()
    s.put(LEFT, "Référence client : LDP-22").down(26)
    table = ((LEFT, False), (330.0, True), (420.0, True), (RIGHT, True))
    s.font(10, True).row(
        table, "Désignation", "Quantité", "Prix unitaire HT", "Montant HT"
    ).rule().font()
    s.row(table, "Reliure d'art, demi-cuir", "15", "68,00 €", "1 020,00 €")
    s.row(table, "Restauration de couvertures", "8", "45,50 €", "364,00 €")
    s.row(table, "Livres d'occasion (TVA 5,5 %)", "30", "12,00 €", "360,00 €").down(8)
    sums = ((420.0, True), (RIGHT, True))
    s.row(sums, "Total HT", "1 744,00 €").row(sums, "TVA 20 %", "276,80 €")
    s.row(sums, "TVA 5,5 %", "19,80 €")
    s.font(11, True).row(sums, "Total TTC", "2 040,60 €").down(24)
    s.font().put(LEFT, "Conditions de paiement : 30 jours").down()
    s.put(LEFT, "IBAN : FR14 2004 1010 0505 0001 3M02 606").down()
    return s.done()


def credit_note_en() -> bytes:
    """A credit note: negative amounts, British dates."""
    s = Sheet("Credit note CN-0042")
    s.font(14, True).put(LEFT, "Larkspur Lighting Ltd").down(16).font(9)
    s.put(LEFT, "Unit 6, Tannery Yard, Bristol BS1 4QA").down(12)
    s.put(LEFT, "VAT No. GB 123 4567 82").down(40)
    s.font(16, True).put(LEFT, "CREDIT NOTE").down(24).font()
    pairs = ((LEFT, False), (180.0, False))
    s.row(pairs, "Credit note no.", "CN-0042").row(pairs, "Date", "09/05/2024")
    s.row(pairs, "Customer", "Wren & Sparrow Interiors Ltd").down(16)
    table = ((LEFT, False), (400.0, True), (RIGHT, True))
    s.font(10, True).row(table, "Description", "Quantity", "Amount").rule().font()
    s.row(table, "Return of pendant lamps, damaged in transit", "3", "£-240.00").down(8)
    sums = ((430.0, True), (RIGHT, True))
    s.row(sums, "Net", "£-240.00").row(sums, "VAT 20%", "£-48.00")
    s.font(11, True).row(sums, "Total", "£-288.00")
    return s.done()


def contract_en() -> bytes:
    """A contract of two pages."""
    s = Sheet("Maintenance Agreement")
    s.font(16, True).put(LEFT, "Maintenance Agreement").down(30)
    s.paragraph(
        "This agreement is entered into on 2 January 2024 between Northgate Elevators Ltd, "
        "Leeds (the Contractor), and Fenwick House Management Company, York (the Client)."
    )
    clauses = (
        (
            "1. Services",
            "The Contractor inspects and maintains the four lifts at Fenwick House "
            "every month and keeps a record of each visit. Repairs are carried out after approval.",
        ),
        (
            "2. Fees",
            "The Client pays an annual fee in four equal parts, in advance, within thirty "
            "days of each invoice. Spare parts are charged at cost.",
        ),
        (
            "3. Term and termination",
            "The agreement runs for three years. Either party may "
            "terminate it by giving six months' notice in writing, hereinafter the Notice Period.",
        ),
        (
            "4. Liability",
            "The parties are liable for damage that they cause intentionally or by "
            "gross negligence. Nothing in this agreement limits liability for personal injury.",
        ),
        ("5. Governing law", "This agreement is subject to the law of England and Wales."),
    )
    for number, (heading, text) in enumerate(clauses):
        if number == 3:
            s.next_page()
        s.down(8).font(11, True).put(LEFT, heading).down(20)
        s.paragraph(text)
    s.down(40).font().put(LEFT, "For the Contractor").put(300, "For the Client")
    return s.done()


def report_en() -> bytes:
    """A report of twelve pages with running heads and feet."""
    s = Sheet("Annual Water Quality Report")
    s.y = 560
    s.font(24, True).put(LEFT, "Annual Water Quality Report").down(30)
    s.font(14).put(LEFT, "River Ellen Catchment").down(60)
    s.font(11).put(LEFT, "Published on 30 June 2024")
    chapters = (
        "Executive Summary",
        "Introduction",
        "Methodology",
        "Sampling Sites",
        "Nitrate",
        "Phosphate",
        "Dissolved Oxygen",
        "Temperature",
        "Wildlife",
        "Measures Taken",
        "Conclusions",
    )
    for number, chapter in enumerate(chapters, start=1):
        s.next_page().font(8).put(LEFT, "Annual Water Quality Report 2024").down(40)
        s.font(14, True).put(LEFT, f"{number}. {chapter}").down(26)
        for station in range(1, 6):
            s.paragraph(
                f"At station {station} the readings of this chapter were taken on {number + 8} "
                f"occasions. They lie between {number * 3 + station} and {number * 4 + station} "
                "units, which is within the range of the last ten years. The samples were taken "
                "by volunteers after heavy rain and in dry weather and were analysed on the same "
                "day in the laboratory of the catchment board."
            )
        s.y = 40
        s.font(8).put(RIGHT, f"Page {number + 1} of 12", True)
    return s.done()


def letter_nl() -> bytes:
    """A letter."""
    s = Sheet("Brief")
    s.font().lines(LEFT, "Muziekschool Zonnehof", "Parklaan 5", "7311 AB Apeldoorn").down(60)
    s.lines(LEFT, "De heer P. Terpstra", "Boomgaard 12", "7321 CX Apeldoorn").down(70)
    s.put(LEFT, "Apeldoorn, 3 september 2024").down(28)
    s.font(10, True).put(LEFT, "Betreft: inschrijving voor het koor").down(28)
    s.paragraph("Geachte heer Terpstra,")
    s.paragraph(
        "Met veel plezier bevestigen wij uw inschrijving voor het koor. De repetities zijn "
        "op dinsdagavond en beginnen om half acht in de grote zaal van onze school."
    )
    s.paragraph("Wij zien ernaar uit u te ontmoeten.")
    s.paragraph("Met vriendelijke groet,")
    s.paragraph("Anneke de Wit")
    return s.done()


def scan() -> bytes:
    """A picture of a page and no text: grey bars where lines of writing would be."""
    width, height = 120, 170
    rows = bytearray()
    for y in range(height):
        dark = y % 9 < 3 and 15 < y < 150
        rows += bytes(90 if dark and 12 < x < 104 - (y * 7) % 30 else 245 for x in range(width))
    image = zlib.compress(bytes(rows), 9)
    return raw_pdf([
        (f"<< /Type /XObject /Subtype /Image /Width {width} /Height {height} /ColorSpace "
         f"/DeviceGray /BitsPerComponent 8 /Filter /FlateDecode /Length {len(image)} >>", image),
    ], b"q 595 0 0 842 0 0 cm /X Do Q", "/XObject << /X 5 0 R >>")  # fmt: skip


def right_to_left() -> bytes:
    """Arabic and Hebrew beside Latin letters, as Unicode in the text layer of a font."""
    texts = (
        "تقرير سنوي عن جودة المياه",
        "دو\u0646ة التاريخ 2024",
        "דוח שנתי על איכות המים",
        "Lakequeue 2024",
    )
    return unicode_pdf(texts)


def nul_in_text() -> bytes:
    """A text layer with U+0000 and other control characters, which real PDFs have."""
    return unicode_pdf(
        (
            "Meeting notes\x00 of 4 March 2024",
            "Agenda\x00\x01\x02 and minutes\x00",
            "The committee met at noon and agreed on the budget of the year.",
        )
    )


def damaged_readable() -> bytes:
    """The letter with its table of contents broken: readers have to search for the objects."""
    whole = letter_nl()
    return whole[: whole.rindex(b"xref")] + b"xref\n0 3\n0000000000 65535 f \ntrail"


def owner_password() -> bytes:
    """A PDF with restrictions but without a password to open it."""
    lock = StandardEncryption("", ownerPassword="owner", canModify=0, strength=128)
    s = Sheet("Notice", encrypt=lock)
    s.font(14, True).put(LEFT, "Notice to Residents").down(30)
    s.paragraph("The water supply is closed for maintenance on 21 October 2024 from nine to noon.")
    return s.done()


def encrypted() -> bytes:
    """A PDF that needs a password to open."""
    lock = StandardEncryption("secret", ownerPassword="owner", strength=128)
    s = Sheet("Secret", encrypt=lock)
    s.font().put(LEFT, "Nobody reads this without the password.")
    return s.done()


def damaged() -> bytes:
    """The first part of a PDF: no page is complete."""
    return contract_en()[:400]


def raw_pdf(extra: Sequence[tuple[str, bytes | None]], content: bytes, resources: str) -> bytes:
    """A PDF of one page, written by hand; `extra` objects are numbered from 5."""
    objects: list[tuple[str, bytes | None]] = [
        ("<< /Type /Catalog /Pages 2 0 R >>", None),
        ("<< /Type /Pages /Kids [3 0 R] /Count 1 >>", None),
        (f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R "
         f"/Resources << {resources} >> >>", None),
        (f"<< /Length {len(content)} >>", content),
        *extra,
    ]  # fmt: skip
    out = bytearray(b"%PDF-1.7\n")
    offsets = []
    for number, (dictionary, stream) in enumerate(objects, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{dictionary}\n".encode()
        if stream is not None:
            out += b"stream\n" + stream + b"\nendstream\n"
        out += b"endobj\n"
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(f"{offset:010d} 00000 n \n".encode() for offset in offsets)
    out += (
        f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()
    )
    return bytes(out)


def unicode_pdf(texts: Sequence[str]) -> bytes:
    """A PDF whose font maps each code to any Unicode character, embedded or not."""
    characters = sorted(set("".join(texts)))
    code = {character: number for number, character in enumerate(characters, start=33)}
    content = "BT /F 14 Tf 56 780 Td 20 TL\n"
    for text in texts:
        content += "<" + "".join(f"{code[character]:04x}" for character in text) + "> Tj T*\n"
    pairs = "\n".join(f"<{code[c]:04x}> <{c.encode('utf-16-be').hex()}>" for c in characters)
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /U def\n"
        "/CMapType 2 def 1 begincodespacerange <0000> <ffff> endcodespacerange\n"
        f"{len(characters)} beginbfchar\n{pairs}\nendbfchar\nendcmap end end"
    ).encode()
    return raw_pdf(
        [
            ("<< /Type /Font /Subtype /Type0 /BaseFont /DejaVuSans /Encoding /Identity-H "
             "/DescendantFonts [6 0 R] /ToUnicode 7 0 R >>", None),
            ("<< /Type /Font /Subtype /CIDFontType2 /BaseFont /DejaVuSans /DW 600 /CIDSystemInfo "
             "<< /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>", None),
            (f"<< /Length {len(cmap)} >>", cmap),
        ],
        content.encode() + b"ET",
        "/Font << /F 5 0 R >>",
    )  # fmt: skip


DOCUMENTS: dict[str, Maker] = {
    "invoice-en.pdf": invoice_en,
    "invoice-de.pdf": invoice_de,
    "invoice-nl.pdf": invoice_nl,
    "invoice-fr.pdf": invoice_fr,
    "credit-note-en.pdf": credit_note_en,
    "contract-en.pdf": contract_en,
    "report-en.pdf": report_en,
    "letter-nl.pdf": letter_nl,
    "damaged-but-readable.pdf": damaged_readable,
    "no-password-to-open.pdf": owner_password,
    "nul-in-text.pdf": nul_in_text,
    "right-to-left.pdf": right_to_left,
    "scan.pdf": scan,
    "../documents-broken/damaged.pdf": damaged,
    "../documents-broken/empty.pdf": lambda: b"",
    "../documents-broken/encrypted.pdf": encrypted,
    "../documents-broken/not-a-pdf.pdf": lambda: (
        b"Dear reader,\n\nthis is a text file with a wrong name.\n"
    ),
}


def invoice(number: str, date: str, total: float, **others: Any) -> dict[str, Any]:
    """The expected fields of an invoice."""
    return {"invoice_number": number, "invoice_date": date, "total_amount": total, **others}


# ruff: noqa: E501 - one document a line or two
EXPECTED: dict[str, dict[str, Any]] = {
    "invoice-en.pdf": {"document_type": "invoice", "language": "en", "page_count": 1, "fields": invoice(
        "HM-2024-0317", "2024-03-12", 1394.77, due_date="2024-04-11", net_amount=1285.50,
        tax_amount=109.27, currency="USD", issuer="Harbor & Mill Supply Co.",
        customer="Juniper Street Bakery LLC", customer_number="C-4471", order_number="PO-88213")},
    "invoice-de.pdf": {"document_type": "invoice", "language": "de", "page_count": 1, "fields": invoice(
        "RE-2024-00482", "2024-03-14", 4497.01, due_date="2024-04-13", net_amount=3779.00,
        tax_amount=718.01, currency="EUR", issuer="Tischlerei Birkenhain GmbH",
        customer="Buchhandlung Seitenwind OHG", vat_id="DE811569869", customer_number="20817",
        iban="DE89370400440532013000", bic="COBADEFFXXX")},
    "invoice-nl.pdf": {"document_type": "invoice", "language": "nl", "page_count": 1, "fields": invoice(
        "2024.0156", "2024-02-05", 1695.21, due_date="2024-03-06", net_amount=1401.00,
        tax_amount=294.21, currency="EUR", issuer="Fietsatelier De Spaak B.V.",
        customer="Stichting Wijkvervoer Lombok", vat_id="NL002455799B11", customer_number="K-0931",
        iban="NL91ABNA0417164300")},
    "invoice-fr.pdf": {"document_type": "invoice", "language": "fr", "page_count": 1, "fields": invoice(
        "F2024-0093", "2024-01-18", 2040.60, due_date="2024-02-17", net_amount=1744.00,
        tax_amount=296.60, currency="EUR", issuer="Atelier Vermillon SARL",
        customer="Librairie des Deux Ponts SAS", vat_id="FR83404833048",
        iban="FR1420041010050500013M02606")},
    "credit-note-en.pdf": {"document_type": "credit_note", "language": "en", "page_count": 1,
        "fields": invoice("CN-0042", "2024-05-09", -288.00, net_amount=-240.00, tax_amount=-48.00,
        currency="GBP", issuer="Larkspur Lighting Ltd", customer="Wren & Sparrow Interiors Ltd")},
    "contract-en.pdf": {"document_type": "contract", "language": "en", "page_count": 2, "fields": {
        "title": "Maintenance Agreement", "date": "2024-01-02",
        "parties": ["Northgate Elevators Ltd", "Fenwick House Management Company"]}},
    "report-en.pdf": {"document_type": "report", "language": "en", "page_count": 12, "fields": {
        "title": "Annual Water Quality Report", "date": "2024-06-30"}},
    "letter-nl.pdf": {"document_type": "letter", "language": "nl", "page_count": 1, "fields": {
        "date": "2024-09-03", "subject": "inschrijving voor het koor",
        "sender": "Muziekschool Zonnehof", "recipient": "De heer P. Terpstra"}},
    "damaged-but-readable.pdf": {"document_type": "letter", "language": "nl", "page_count": 1,
        "fields": {"date": "2024-09-03"}},
    "no-password-to-open.pdf": {"document_type": "notice", "language": "en", "page_count": 1,
        "fields": {"title": "Notice to Residents", "date": "2024-10-21"}},
    "nul-in-text.pdf": {"language": "en", "page_count": 1, "fields": {"date": "2024-03-04"}},
    "right-to-left.pdf": {"language": "ar", "page_count": 1, "fields": {}},
    "scan.pdf": {"page_count": 1, "fields": {}, "confidence": 0, "notes": ["no text layer"]},
    "../documents-broken/damaged.pdf": {"problem": "document_unreadable"},
    "../documents-broken/empty.pdf": {"problem": "document_empty"},
    "../documents-broken/encrypted.pdf": {"problem": "document_encrypted"},
    "../documents-broken/not-a-pdf.pdf": {"problem": "not_a_pdf"},
}  # fmt: skip


def main(folder: Path = HERE) -> None:
    """Write all documents and what is expected of them."""
    for name, make in DOCUMENTS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(make())
    text = json.dumps(EXPECTED, indent=2, ensure_ascii=False, sort_keys=True)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
