"""Invoices in many layouts, made at random from a seed: for tests of the reading rules.

Each has its right values beside it. Nothing in here is taken from a real document; the words are
the ones that people put on invoices in English, German, Dutch and French.
"""

# ruff: noqa: E501 - the words stand in rows

from __future__ import annotations

import datetime
import io
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from reportlab.lib.pagesizes import A4, LETTER
from reportlab.pdfgen.canvas import Canvas

MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "nl": "januari februari maart april mei juni juli augustus september oktober november december",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
}

WORDS: dict[str, dict[str, list[str]]] = {
    "en": {
        "title": ["INVOICE", "Invoice", "Tax Invoice", "TAX INVOICE"],
        "number": ["Invoice Number", "Invoice No.", "Invoice #", "Invoice no", "Invoice ID", "Inv. No."],
        "date": ["Invoice Date", "Date of issue", "Issue date", "Date", "Invoice date", "Date issued"],
        "due": ["Due Date", "Payment due", "Due date", "Payment due date", "Due", "Pay by"],
        "order": ["Order No.", "PO Number", "Your order number", "Purchase Order"],
        "client": ["Customer No.", "Account number", "Customer ID", "Client number"],
        "delivery": ["Delivery date", "Order date", "Ship date", "Date of supply"],
        "to": ["Bill To", "Billed to", "Invoice to", "Customer", "Client", "Sold to", "Bill to:"],
        "from": ["From", "Seller", "Supplier", "Vendor"],
        "heads": ["Description|Qty|Unit Price|Amount", "Item|Quantity|Rate|Line total",
                  "Description|Hours|Price|Total"],
        "net": ["Subtotal", "Net total", "Total excl. VAT", "Net amount", "Sub-total", "Total net"],
        "tax": ["VAT 20%", "VAT (20%)", "20% VAT", "VAT @ 20%", "VAT"],
        "total": ["Total", "Total due", "Amount due", "Grand Total", "Total amount", "Invoice total",
                  "Total incl. VAT", "Balance due", "TOTAL", "Amount payable", "Total (GBP)"],
        "thanks": ["Thank you for your business.", "Please pay within 30 days of the invoice."],
    },
    "de": {
        "title": ["RECHNUNG", "Rechnung"],
        "number": ["Rechnungsnummer", "Rechnungs-Nr.", "Rechnung Nr.", "Rechnungsnr.", "Rechnungs-Nr",
                   "Re.-Nr.", "Belegnummer", "RG-Nr."],
        "date": ["Rechnungsdatum", "Datum", "Ausstellungsdatum", "Belegdatum"],
        "due": ["Fälligkeitsdatum", "Fällig am", "Zahlbar bis", "Zahlungsziel", "Fälligkeit"],
        "order": ["Bestellnummer", "Auftragsnummer", "Auftrags-Nr.", "Bestell-Nr."],
        "client": ["Kundennummer", "Kunden-Nr.", "Kd.-Nr."],
        "delivery": ["Lieferdatum", "Leistungsdatum", "Bestelldatum"],
        "to": ["Rechnungsempfänger", "Kunde", "Rechnungsadresse", "Rechnung an", "Empfänger"],
        "from": ["Lieferant", "Absender", "Rechnungssteller"],
        "heads": ["Pos. Beschreibung|Menge|Einzelpreis|Gesamt", "Bezeichnung|Anzahl|Preis|Betrag",
                  "Leistung|Menge|E-Preis|Summe"],
        "net": ["Nettobetrag", "Zwischensumme", "Summe netto", "Netto", "Gesamt netto", "Nettosumme"],
        "tax": ["MwSt. 19%", "zzgl. 19% MwSt.", "19 % USt.", "Umsatzsteuer 19 %", "MwSt. (19%)",
                "Mehrwertsteuer 19%", "USt. 19 %"],
        "total": ["Gesamtbetrag", "Rechnungsbetrag", "Gesamtsumme", "Bruttobetrag", "Gesamt", "Endbetrag",
                  "Summe brutto", "Zu zahlender Betrag", "Zahlbetrag", "Total", "Gesamt brutto",
                  "Gesamtbetrag inkl. MwSt."],
        "thanks": ["Vielen Dank für Ihren Auftrag.", "Bitte überweisen Sie innerhalb von 14 Tagen."],
    },
    "nl": {
        "title": ["FACTUUR", "Factuur"],
        "number": ["Factuurnummer", "Factuurnr.", "Factuur nr.", "Factuur nummer", "Factuurnr"],
        "date": ["Factuurdatum", "Datum", "Datum factuur", "Uitgiftedatum"],
        "due": ["Vervaldatum", "Uiterste betaaldatum", "Te betalen voor", "Vervaldag", "Betalen voor"],
        "order": ["Ordernummer", "Bestelnummer", "Uw order nr."],
        "client": ["Klantnummer", "Debiteurnummer", "Klantnr.", "Relatienummer"],
        "delivery": ["Leverdatum", "Besteldatum", "Orderdatum"],
        "to": ["Factuuradres", "Factuur aan", "Klant", "Aan", "Gefactureerd aan", "Klantgegevens"],
        "from": ["Leverancier", "Van", "Afzender"],
        "heads": ["Omschrijving|Aantal|Prijs|Bedrag", "Artikel|Aantal|Stukprijs|Totaal",
                  "Omschrijving|Uren|Tarief|Totaal"],
        "net": ["Subtotaal", "Totaal excl. BTW", "Netto", "Totaal exclusief btw", "Nettobedrag"],
        "tax": ["BTW 21%", "21% BTW", "Btw (21%)", "BTW 21 %", "BTW hoog 21%", "Totaal BTW"],
        "total": ["Totaal", "Totaalbedrag", "Te betalen", "Totaal incl. BTW", "Factuurbedrag", "TOTAAL",
                  "Totaal inclusief btw", "Totaal te betalen", "Eindtotaal", "Te voldoen"],
        "thanks": ["Bedankt voor uw bestelling.", "Gelieve binnen 14 dagen te betalen."],
    },
    "fr": {
        "title": ["FACTURE", "Facture"],
        "number": ["Facture N°", "Numéro de facture", "N° de facture", "Facture n°", "N° facture",
                   "Facture no", "Réf. facture"],
        "date": ["Date de facture", "Date", "Date d'émission", "Date de facturation", "Émise le",
                 "Date de la facture"],
        "due": ["Date d'échéance", "Échéance", "À payer avant le", "Date limite de paiement",
                "Échéance le", "Payable avant le"],
        "order": ["Commande n°", "N° de commande", "Bon de commande"],
        "client": ["N° client", "Code client", "Numéro client", "Réf. client"],
        "delivery": ["Date de livraison", "Date de commande", "Date de la prestation"],
        "to": ["Facturé à", "Client", "Adresse de facturation", "Destinataire", "Adressé à"],
        "from": ["Émetteur", "Fournisseur", "Vendeur", "Prestataire"],
        "heads": ["Désignation|Quantité|Prix unitaire|Montant", "Description|Qté|P.U. HT|Total HT",
                  "Libellé|Qté|Prix|Montant HT"],
        "net": ["Total HT", "Montant HT", "Sous-total", "Total hors taxes", "Total net HT", "Sous-total HT"],
        "tax": ["TVA 20%", "TVA (20 %)", "TVA 20,00 %", "Total TVA", "Montant TVA", "TVA à 20 %"],
        "total": ["Total TTC", "Net à payer", "Montant total TTC", "Total", "Total à payer", "TOTAL TTC",
                  "Montant TTC", "Montant dû", "Total général", "Montant à payer"],
        "thanks": ["Merci de votre confiance.", "Paiement à 30 jours date de facture."],
    },
}  # fmt: skip

FIRMS = {
    "en": ["Bramley Joinery Ltd", "Quayside Print Works Limited", "Orchard Lane Foods PLC",
           "Copperfield Design LLP", "Mossgrove Engineering Ltd", "Redwing Cycles Ltd"],
    "de": ["Kastanien Druckerei GmbH", "Elbtal Werkzeuge AG", "Seeblick Catering UG",
           "Morgenrot Textil GmbH & Co. KG", "Dachbau Fichtner e.K.", "Nordlicht Medien OHG"],
    "nl": ["Tulpenhof Bloemen B.V.", "Kaasmakerij De Linde BV", "Polder Techniek N.V.",
           "Drukkerij Zonneveld VOF", "Grachtenbeheer Stichting Oost", "Veerpont Logistiek B.V."],
    "fr": ["Boulangerie Montclair SARL", "Imprimerie des Lilas SAS", "Menuiserie Durance SA",
           "Cabinet Rivoire EURL", "Transports Belleroche SAS", "Verger du Lac SARL"],
}  # fmt: skip
PLACES = {
    "en": [("14 Tannery Row", "Leeds LS1 4DY"), ("3 Castle Street", "Bath BA1 2QH")],
    "de": [("Ahornstraße 12", "50667 Köln"), ("Hauptstr. 7", "80331 München")],
    "nl": [("Kerkstraat 19", "1017 GC Amsterdam"), ("Havenlaan 4", "3011 XB Rotterdam")],
    "fr": [("8 rue de la Paix", "75002 Paris"), ("21 avenue Jean Jaurès", "31000 Toulouse")],
}
ITEMS = {
    "en": ["Oak shelf, oiled", "Consulting, on site", "Printed brochures A4", "Steel bracket set"],
    "de": ["Regal Eiche geölt", "Beratung vor Ort", "Broschüren DIN A4", "Winkel Stahl, Satz"],
    "nl": ["Plank eiken geolied", "Advies op locatie", "Brochures A4", "Stalen beugel, set"],
    "fr": ["Étagère en chêne", "Conseil sur site", "Brochures A4", "Équerre en acier"],
}


@dataclass
class Invoice:
    """A generated document with its right values."""

    seed: int
    pdf: bytes
    expected: dict[str, Any]
    features: list[str] = field(default_factory=list)


class Maker:
    """Draws one invoice; every choice comes from the seed."""

    def __init__(self, seed: int, language: str) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.language = language
        self.words = WORDS[language]
        self.features: list[str] = []

    def pick(self, name: str) -> str:
        word = self.random.choice(self.words[name])
        self.features.append(f"{name}={word}")
        return word

    def choose(self, name: str, *options: Any) -> Any:
        option = self.random.choice(options)
        self.features.append(f"{name}={option}")
        return option

    def make(self) -> Invoice:
        r = self.random
        self.buffer = io.BytesIO()
        american = self.language == "en" and r.random() < 0.3
        size = LETTER if american else A4
        self.canvas = Canvas(self.buffer, pagesize=size, invariant=1)
        self.width, self.y = size[0], size[1] - 50
        self.currency = "USD" if american else {"en": "GBP"}.get(self.language, "EUR")
        if self.language == "en" and not american and r.random() < 0.3:
            self.currency = "EUR"
        self.features.append(self.currency)
        self.american = american
        self.number_style = (
            "1,234.56" if self.language == "en"
            else self.choose("digits", "1.234,56", "1 234,56" if self.language == "fr" else "1.234,56",
                             "1234,56")
        )  # fmt: skip
        self.money_style = self.choose(
            "money", "before", "after", "code", "none" if r.random() < 0.3 else "before"
        )
        self.font = self.choose("font", "Helvetica", "Times-Roman", "Courier")
        self.size = self.choose("size", 9, 10, 11)
        self.canvas.setFont(self.font, self.size)
        date = datetime.date(2019, 1, 1) + datetime.timedelta(days=r.randrange(2400))
        due = date + datetime.timedelta(days=r.choice([14, 21, 30, 60]))
        style = self.date_style()
        number = self.number(date)
        rate = 20 if self.language in ("en", "fr") else 19 if self.language == "de" else 21
        issuer, customer = r.sample(FIRMS[self.language], 2)
        expected: dict[str, Any] = {
            "invoice_number": number,
            "invoice_date": date.isoformat(),
            "due_date": due.isoformat() if r.random() < 0.75 else None,
            "currency": self.currency,
            "issuer": issuer,
            "customer": customer,
        }
        self.head(issuer, customer)
        self.facts(expected, style(date), style(due) if expected["due_date"] else None,
                   style(date - datetime.timedelta(days=r.randrange(3, 20))))  # fmt: skip
        net = self.items()
        tax = round(net * rate / 100 + 1e-9, 2)
        expected |= {"net_amount": net, "tax_amount": tax, "total_amount": round(net + tax, 2)}
        self.sums(net, tax, expected["total_amount"])
        self.foot()
        self.canvas.showPage()
        self.canvas.save()
        return Invoice(self.seed, self.buffer.getvalue(), expected, self.features)

    # --- values

    def number(self, date: datetime.date) -> str:
        n = self.random.randrange(1, 9999)
        return str(
            self.choose(
                "number",
                f"{n:06d}",
                f"INV-{date.year}-{n:04d}",
                f"{date.year}{n:05d}",
                f"{date.year}/{n:03d}",
                f"R{n:05d}",
                f"{date.year}-{n:04d}",
                f"F{date.year}.{n:03d}",
                f"{date.year % 100}-{n:05d}",
            )
        )

    def date_style(self) -> Callable[[datetime.date], str]:
        months = MONTHS[self.language].split()
        if self.language == "en":
            numeric = "%m/%d/%Y" if self.american else "%d/%m/%Y"
            options = ["iso", numeric, "long", "short"]
        else:
            options = ["iso", "%d.%m.%Y" if self.language == "de" else "%d/%m/%Y",
                       "%d-%m-%Y" if self.language == "nl" else "%d.%m.%Y", "long"]  # fmt: skip
        style = self.choose("date style", *options)

        def write(date: datetime.date) -> str:
            month = months[date.month - 1]
            if style == "iso":
                return date.isoformat()
            if style == "short":
                return f"{date.day} {month[:3]} {date.year}"
            if style == "long":
                if self.language == "en" and self.american:
                    return f"{month} {date.day}, {date.year}"
                day = f"{date.day}." if self.language == "de" else f"{date.day}"
                return f"{day} {month} {date.year}"
            return date.strftime(style)

        return write

    def digits(self, value: float) -> str:
        text = f"{value:,.2f}"
        if self.number_style == "1,234.56":
            return text
        if self.number_style == "1234,56":
            return text.replace(",", "").replace(".", ",")
        group = "." if self.number_style.startswith("1.") else " "
        return text.replace(",", "_").replace(".", ",").replace("_", group)

    def money(self, value: float) -> str:
        symbol = {"USD": "$", "GBP": "£", "EUR": "€"}[self.currency]
        match self.money_style:
            case "before":
                gap = "" if self.language == "en" else " "
                return f"{symbol}{gap}{self.digits(value)}"
            case "after":
                return f"{self.digits(value)} {symbol}"
            case "code":
                return f"{self.digits(value)} {self.currency}"
        return self.digits(value)

    # --- parts of the page

    def text(self, x: float, text: str, right: bool = False, bold: bool = False) -> None:
        font = {
            "Helvetica": "Helvetica-Bold",
            "Times-Roman": "Times-Bold",
            "Courier": "Courier-Bold",
        }
        self.canvas.setFont(font[self.font] if bold else self.font, self.size)
        (self.canvas.drawRightString if right else self.canvas.drawString)(x, self.y, text)

    def down(self, lines: float = 1.0) -> None:
        self.y -= lines * (self.size + 4)

    def block(self, x: float, texts: list[str], right: bool = False) -> None:
        start = self.y
        for text in texts:
            self.text(x, text, right)
            self.down()
        self.lowest = min(getattr(self, "lowest", start), self.y)
        self.y = start

    def head(self, issuer: str, customer: str) -> None:
        r = self.random
        place, other = r.sample(PLACES[self.language], 2)
        self.title_has_number = False
        style = self.choose("head", "plain", "title first", "labelled", "right", "sender line")
        self.lowest = self.y
        if style == "title first":
            self.text(50, self.pick("title"), bold=True)
            self.down(2)
        if style == "sender line":
            self.text(50, f"{issuer} - {place[0]} - {place[1]}")
            self.down(2)
            self.block(50, [customer, *other])
        else:
            x, right = (self.width - 50, True) if style == "right" else (50, False)
            label = [self.pick("from")] if style == "labelled" else []
            self.block(x, [*label, issuer, *place], right)
            if style == "labelled" and r.random() < 0.5:
                self.block(320, [self.pick("to"), customer, *other])
            else:
                if style != "right":
                    self.y = self.lowest
                    self.down()
                label = [self.pick("to")] if r.random() < 0.8 else []
                self.block(50, [*label, customer, *other])
        self.y = self.lowest
        self.down(r.choice([1, 2]))
        if style != "title first":
            self.text(50, self.pick("title"), bold=True)
            self.down(2)

    def facts(self, expected: dict[str, Any], date: str, due: str | None, other: str) -> None:
        r = self.random
        rows = [(self.pick("number"), expected["invoice_number"]), (self.pick("date"), date)]
        if due:
            rows.append((self.pick("due"), due))
        if r.random() < 0.4:
            rows.append((self.pick("order"), f"PO-{r.randrange(10000, 99999)}"))
        if r.random() < 0.5:
            rows.append((self.pick("client"), f"{r.randrange(1000, 99999)}"))
        if r.random() < 0.3:
            rows.append((self.pick("delivery"), other))
        if r.random() < 0.4:
            first, *rest = rows
            r.shuffle(rest)
            rows = [first, *rest]
        layout = self.choose(
            "facts", "inline", "columns", "right", "headings", "stacked", "two by two"
        )
        colon = self.choose("colon", ":", "")
        if layout == "inline":
            for label, value in rows:
                self.text(50, f"{label}{colon or ':'} {value}")
                self.down()
        elif layout in ("columns", "right"):
            x, y = (50, 190) if layout == "columns" else (330, self.width - 50)
            for label, value in rows:
                self.text(x, label + colon)
                self.text(y, value, right=layout == "right")
                self.down()
        elif layout == "headings":
            for start in range(0, len(rows), 4):
                for index, (label, _) in enumerate(rows[start : start + 4]):
                    self.text(50 + 128 * index, label, bold=True)
                self.down(r.choice([1, 1.3]))
                for index, (_, value) in enumerate(rows[start : start + 4]):
                    self.text(50 + 128 * index, value)
                self.down(1.5)
        elif layout == "stacked":
            for label, value in rows:
                self.text(50, label)
                self.down()
                self.text(50, value, bold=True)
                self.down(1.6)
        else:
            for start in range(0, len(rows), 2):
                for index, (label, value) in enumerate(rows[start : start + 2]):
                    self.text(50 + 260 * index, label + colon)
                    self.text(170 + 260 * index, value)
                self.down()
        self.down(1.5)

    def items(self) -> float:
        r = self.random
        xs = (50, 330, 430, self.width - 50)
        for index, head in enumerate(self.pick("heads").split("|")):
            self.text(xs[index], head, right=index > 0, bold=True)
        self.down(1.3)
        net = 0.0
        for item in r.sample(ITEMS[self.language], r.randrange(1, 4)):
            count, price = r.randrange(1, 40), r.randrange(500, 99900) / 100
            total = round(count * price, 2)
            net = round(net + total, 2)
            for index, text in enumerate((item, str(count), self.money(price), self.money(total))):
                self.text(xs[index], text, right=index > 0)
            self.down()
        self.down()
        return net

    def sums(self, net: float, tax: float, total: float) -> None:
        rows = [(self.pick("net"), net), (self.pick("tax"), tax), (self.pick("total"), total)]
        layout = self.choose("sums", "right", "far", "left", "table")
        colon = self.choose("sums colon", ":", "")
        if layout == "table":
            for index, (label, _) in enumerate(rows):
                self.text(60 + 160 * index, label, bold=True)
            self.down(1.2)
            for index, (_, value) in enumerate(rows):
                self.text(60 + 160 * index, self.money(value))
            self.down()
        for label, value in rows if layout != "table" else []:
            if layout == "left":
                self.text(50, f"{label}{colon or ':'} {self.money(value)}")
            else:
                x = 330 if layout == "right" else 50
                self.text(x, label + colon)
                self.text(self.width - 50, self.money(value), right=True)
            self.down(1.2)
        self.down()

    def foot(self) -> None:
        r = self.random
        self.text(50, self.pick("thanks"))
        self.down(2)
        if r.random() < 0.5:
            self.text(50, "IBAN NL91 ABNA 0417 1643 00   BIC ABNANL2A   Tel. +31 20 123 45 67")


LANGUAGES = ("en", "de", "nl", "fr")


def make_invoice(seed: int) -> Invoice:
    """The invoice of a seed; the language goes round."""
    return Maker(seed, LANGUAGES[seed % len(LANGUAGES)]).make()
