"""The words that announce a value, in English, German, Dutch and French.

Patterns are matched against folded text: lower case, no accents. Each label has a kind and a
strength; a kind that starts with "not_" claims its value so that no other label takes it.
"""

# ruff: noqa: E501 - the words stand in rows

from __future__ import annotations

import re
from dataclasses import dataclass

from lakequeue.simulator.reading.text import Cell, Document, Line

# "number" in all its short forms, with the dots, hyphens and colons people put around it.
_NO = r"(?:numbers?|numero|nummer|num\.?|no\.?|nos?\.?|nr\.?|n°\.?|n\.|#|id\b|code)"
_SEP = r"[ .\-/:]{0,3}"
_DAT = r"(?:date|datum|dat\.)"

_LABELS: tuple[tuple[str, float, str], ...] = (
    # --- the document's own number
    ("number", 0.97, rf"(?:tax |vat |our )?invoice{_SEP}(?:{_NO}|reference|ref\.?)"),
    ("number", 0.95, rf"(?:inv|bill|receipt|credit ?(?:note|memo)){_SEP}{_NO}"),
    ("number", 0.93, rf"{_NO} of (?:the )?invoice"),
    ("number", 0.97, rf"re(?:chnungs?|ch\.?|\.)?[ \-/]{{0,3}}(?:\w+[\-/]{{1,2}})?{_NO}"),
    (
        "number",
        0.95,
        rf"(?:rg|beleg|faktura|dokument(?:en)?|gutschrifts?|storno(?:rechnungs?)?|quittungs?)"
        rf"[. \-/]{{0,2}}{_NO}",
    ),
    ("number", 0.97, rf"(?:credit)?factuur{_SEP}(?:{_NO}|kenmerk)"),
    ("number", 0.95, rf"(?:credit ?nota|nota|bon|kassabon|document){_SEP}{_NO}"),
    ("number", 0.97, rf"(?:{_NO} (?:de |du |d')?(?:la )?(?:facture|l'avoir|avoir|recu|piece))"),
    ("number", 0.97, rf"facture{_SEP}(?:proforma )?{_NO}"),
    ("number", 0.95, rf"(?:avoir|recu|note de credit|piece|note d'honoraires){_SEP}{_NO}"),
    ("number", 0.9, r"(?:ref(?:erence)?\.? (?:de )?(?:la )?facture|invoice ref(?:erence)?)"),
    ("number", 0.85, rf"(?:document|statement|voucher|transaction){_SEP}{_NO}"),
    (
        "number",
        0.9,
        rf"(?:quote|quotation|estimate|offer|angebots?|offerte|devis|proforma|bestelbon)"
        rf"[ \-]?{_SEP}{_NO}",
    ),
    ("number_or_word", 0.8, r"(?:tax |vat |commercial |sales |pro[- ]?forma )?invoice"),
    ("number_or_word", 0.8, r"(?:(?:credit|proforma)? ?(?:note|memo)|receipt)"),
    ("number_or_word", 0.8, r"(?:schluss|abschlags|teil|storno|korrektur|sammel)?rechnung"),
    (
        "number_or_word",
        0.8,
        r"(?:gutschrift|quittung|credit ?factuur|factuur|credit ?nota|kwitantie)",
    ),
    ("number_or_word", 0.8, r"(?:facture(?: proforma| d'avoir)?|avoir|recu|note de credit)"),
    ("number_alone", 0.55, rf"(?:{_NO}|reference|referentie|referenz)"),
    # --- dates
    (
        "date",
        0.97,
        rf"(?:invoice|bill(?:ing)?|issue|issuing|receipt|credit ?(?:note|memo)) ?{_DAT}",
    ),
    ("date", 0.96, rf"{_DAT} (?:of )?(?:the )?(?:invoice|issued?|billing)"),
    ("date", 0.9, r"(?:issued(?: on)?|invoiced on|dated)"),
    ("date", 0.85, r"(?:tax point(?: date)?|document date|statement date|transaction date)"),
    (
        "date",
        0.97,
        r"(?:rechnungs?|ausstellungs?|beleg|faktura|gutschrifts?|re\.?|rg\.?)[ \-]?(?:datum|dat\.)",
    ),
    ("date", 0.96, r"datum der (?:rechnung|ausstellung)"),
    ("date", 0.9, r"(?:ausgestellt am|erstellt am|rechnung vom)"),
    ("date", 0.97, r"(?:credit)?factuur[ \-]?(?:datum|dat\.)|datum (?:van )?(?:de )?factuur"),
    (
        "date",
        0.95,
        r"(?:uitgiftedatum|datum (?:van )?uitgifte|documentdatum|notadatum|factuur d\.?d\.?)",
    ),
    ("date", 0.9, r"(?:opgemaakt op|uitgereikt op|gefactureerd op)"),
    ("date", 0.97, r"date (?:de )?(?:la |l')?(?:facture|facturation|avoir)"),
    ("date", 0.96, r"date d'(?:emission|etablissement|edition)"),
    ("date", 0.9, r"(?:emise? le|etablie? le|facture(?:e)? (?:le|du)|edite(?:e)? le|en date du)"),
    ("date_alone", 0.75, rf"{_DAT}"),
    # --- due dates
    ("due_date", 0.97, rf"(?:payment )?due(?: {_DAT})|{_DAT} (?:of )?(?:payment )?due"),
    (
        "due_date",
        0.9,
        r"(?:payment due(?: by| on)?|due(?: by| on)|pay(?:able)?(?: in full)?(?: by| before)|"
        r"payment (?:deadline|by))",
    ),
    ("due_date", 0.75, r"(?:total )?amount due (?:on|by)|due"),
    (
        "due_date",
        0.97,
        r"(?:falligkeits?[ \-]?(?:datum|termin|tag)?|fallig(?: am| bis| zum)?(?::)?)",
    ),
    (
        "due_date",
        0.93,
        r"(?:zahlungsziel|zahlbar bis(?: zum| spatestens)?(?: zum)?|zu zahlen bis(?: zum)?|"
        r"zahlungsfrist|zahlung bis(?: zum)?|zahlungstermin|bis spatestens(?: zum)?|"
        r"zahlungsfallig)",
    ),
    (
        "due_date",
        0.97,
        r"(?:verval(?:datum|dag|t op|t)|uiterste betaal ?datum|uiterlijke betaal ?datum)",
    ),
    (
        "due_date",
        0.9,
        r"(?:(?:gelieve )?(?:te )?betalen (?:voor|uiterlijk)(?: op)?|te voldoen voor|"
        r"betaling (?:voor|uiterlijk)|betaaldatum|uiterlijk(?: op)?|betaaltermijn)",
    ),
    ("due_date", 0.97, r"(?:date d'|date de l')?echeance(?: de paiement| le| au)?"),
    (
        "due_date",
        0.93,
        r"(?:date limite (?:de )?(?:paiement|reglement)|a (?:payer|regler) (?:avant|au plus tard)"
        r"(?: le)?|payable (?:avant|au plus tard|le)(?: le)?|date (?:de )?(?:paiement|reglement)|"
        r"paiement (?:avant|au plus tard)(?: le)?|date d'exigibilite)",
    ),
    (
        "due_date",
        0.8,
        r"(?:uberweisen|uberweisung|begleichen|zahlen|zahlung)(?![a-z]).{0,60}?(?<![a-z])bis"
        r"(?: spatestens)?(?: zum)?|"
        r"(?:pay|payment|settle)(?![a-z]).{0,60}?(?<![a-z])(?:by|before|no later than)|"
        r"(?:over te maken|overmaken|betalen|betaling)(?![a-z]).{0,60}?(?<![a-z])"
        r"(?:voor|uiterlijk)(?: op)?|"
        r"(?:payer|regler|reglement|paiement)(?![a-z]).{0,60}?(?<![a-z])(?:avant|au plus tard)(?: le)?",
    ),
    # --- dates and numbers that are something else
    (
        "not_date",
        0.9,
        rf"(?:order|purchase|delivery|ship(?:ping|ped|ment)?|service|supply|booking|contract|"
        rf"print(?:ed)?|start|end|birth|period|expir(?:y|ation)|valid|payment|departure|"
        rf"arrival|travel|check[- ]?(?:in|out))"
        rf"[ \-]?(?:{_DAT}|on|until|from)",
    ),
    (
        "not_date",
        0.9,
        r"(?:date of (?:supply|delivery|service|birth|order|shipment|purchase)|"
        r"(?:billing|service|invoice|statement) period|period|paid on|payment received|"
        r"registered|incorporated|valid until|expires)",
    ),
    (
        "not_date",
        0.9,
        r"(?:liefer|leistungs?|bestell|auftrags?|versand|druck|buchungs?|zahlungs?eingangs?|"
        r"vertrags?|geburts?|kauf|reise|angebots?)[ \-]?(?:datum|dat\.)|"
        r"(?:leistungs?|liefer|abrechnungs?)(?:zeitraum|zeit)|lieferung(?: am| vom)?|bestellung vom|"
        r"auftrag vom|bezahlt am|zeitraum|gultig bis|tag der lieferung",
    ),
    (
        "not_date",
        0.9,
        r"(?:order|bestel|lever|leverings?|verzend|afdruk|betaal|boekings?|aankoop|prestatie)"
        r"[ \-]?(?:datum|dat\.)|periode|geleverd op|betaald op|besteld op|geldig tot",
    ),
    (
        "not_date",
        0.9,
        r"date (?:de |d')?(?:la |l')?(?:commande|livraison|expedition|prestation|impression|vente|"
        r"naissance|achat|intervention|envoi)|periode|livre(?:e)? le|commande(?:e)? (?:du|le)|"
        r"payee? le|regle(?:e)? le|valable jusqu'au",
    ),
    (
        "order_number",
        0.9,
        rf"(?:(?:purchase |sales |your |customer )?order|po|p\.o\.){_SEP}(?:{_NO}|ref(?:erence)?)",
    ),
    (
        "order_number",
        0.9,
        rf"(?:bestell?|auftrags?|order){_SEP}(?:{_NO})|(?:bestellung|auftrag) {_NO}",
    ),
    ("order_number", 0.9, rf"(?:bestel|order|inkoop){_SEP}{_NO}|uw (?:bestelling|order)"),
    (
        "order_number",
        0.9,
        rf"{_NO} (?:de |du )?(?:la )?commande|commande{_SEP}{_NO}|bon de commande(?:{_SEP}{_NO})?",
    ),
    (
        "customer_number",
        0.9,
        rf"(?:customer|client|account|cust\.?|member){_SEP}(?:{_NO}|reference|ref\.?)",
    ),
    (
        "customer_number",
        0.9,
        rf"(?:kunden?|kd\.?|debitoren?|klant|debiteur(?:en)?|relatie|mitglieds?){_SEP}{_NO}",
    ),
    (
        "customer_number",
        0.9,
        rf"{_NO} (?:de )?(?:client|compte)|code client|client {_NO}|ref(?:erence)?\.? client",
    ),
    (
        "not_number",
        0.9,
        rf"(?:vat|tax|gst|company|registration|reg\.|phone|tel\.?|telephone|fax|mobile|"
        rf"account|routing|delivery ?(?:note)?|shipment|tracking|project|contract|job|"
        rf"serial|item|product|page|quote|sort|business|charity|policy|case|ein|abn|"
        rf"siren|siret|kvk|coc|btw|ust|steuer|handelsregister|hrb|liefer(?:schein)?s?|"
        rf"vertrags?|projekt|artikel|konto|telefon|serie|pakbon|rekening|tva|livraison|"
        rf"seite|pagina|lfd\.?|pos\.?|position)[ .\-/]{{0,3}}(?:(?:id|ident|identification)[ .\-]*)?{_NO}",
    ),
    (
        "not_number",
        0.9,
        rf"(?:{_NO} (?:de )?(?:tva|siret|siren|compte|telephone|tel|livraison|contrat|dossier|serie))",
    ),
    (
        "payment_reference",
        0.85,
        r"(?:payment ref(?:erence)?|verwendungszweck|betalingskenmerk|betaalkenmerk|"
        r"reference (?:de )?(?:paiement|virement)|structured communication|communication for your payment|"
        r"gestructureerde mededeling|communication structuree|zahlungsreferenz)",
    ),
    # --- people
    (
        "issuer",
        0.9,
        r"(?:from|seller|vendor|supplier|issued by|issuer|sold by|service provider|payee|biller|"
        r"remit to|merchant)",
    ),
    (
        "issuer",
        0.9,
        r"(?:lieferant|rechnungssteller|absender|verkaufer|leistungserbringer|anbieter|verkauft von)",
    ),
    ("issuer", 0.9, r"(?:leverancier|verkoper|afzender|opdrachtnemer|van)"),
    (
        "issuer",
        0.9,
        r"(?:fournisseur|vendeur|emetteur|prestataire|expediteur|vendu par|emis(?:e)? par|de)",
    ),
    (
        "customer",
        0.9,
        r"(?:bill(?:ed|ing)?[ -]?to(?: address)?|invoiced? to|invoice for|sold to|customer(?: name)?|"
        r"client(?: name)?|buyer|billing (?:address|details)|to|recipient|attn|attention|"
        r"prepared for|issued to|payer|purchaser)",
    ),
    (
        "customer",
        0.9,
        r"(?:rechnungs?(?:empfanger|adresse|anschrift)|rechnung an|kunde(?:nname|nadresse)?|empfanger|"
        r"kaufer|auftraggeber|leistungsempfanger|besteller|an)",
    ),
    (
        "customer",
        0.9,
        r"(?:factuur ?adres|factuur (?:aan|voor)|gefactureerd aan|klant(?:gegevens|naam)?|afnemer|"
        r"opdrachtgever|koper|ontvanger|geadresseerde|aan|t\.a\.v\.)",
    ),
    (
        "customer",
        0.9,
        r"(?:factur(?:ee?r?|e|ation) a|client(?:e)?|destinataire|adresse(?:e)? (?:de )?(?:facturation|a)|"
        r"acheteur|a l'attention de|adresse client|doit|pour le compte de|a)",
    ),
    (
        "not_customer",
        0.9,
        r"(?:ship(?:ped|ping)?[ -]?to|deliver(?:y|ed)?(?: address| to)|shipping address|"
        r"liefer(?:adresse|anschrift)|lieferung an|aflever ?adres|bezorg ?adres|verzend ?adres|versand(?:adresse|anschrift)|lever ?adres|"
        r"adresse (?:de )?livraison|livre(?:e)? a|livraison a)",
    ),
    (
        "terms",
        0.85,
        r"(?:payment terms|terms(?: of payment)?|zahlungs(?:bedingungen|konditionen|ziel|frist)|"
        r"betalings?(?:voorwaarden|conditie|termijn|condities)|betaaltermijn|"
        r"conditions (?:de )?(?:paiement|reglement)|modalites (?:de )?(?:paiement|reglement)|"
        r"delai (?:de )?paiement)",
    ),
)

# A label ends with its word, with its own sign (Nr.123), or where a digit is drawn right behind it.
_END = r"(?:(?<=[.#°])|(?![a-z0-9_])|(?<=[a-z]{6})(?=\d))"
_COMPILED = tuple(
    (kind, strength, re.compile(rf"(?<![a-z0-9_])(?:{pattern}){_END}"))
    for kind, strength, pattern in _LABELS
)

_TABLE_WORDS = re.compile(
    r"(?<![a-z])(?:description|item|items|article|product|qty|quantity|unit(?: price)?|rate|hours|"
    r"line total|unit cost|details|service|"
    r"beschreibung|bezeichnung|artikel|menge|anzahl|einzelpreis|einheit|leistung|pos\.?|position|"
    r"stuckpreis|ep|gp|preis|produkt|"
    r"omschrijving|aantal|stuks|stukprijs|prijs|eenheid|eenheidsprijs|dienst|uren|"
    r"designation|libelle|quantite|qte|prix(?: unitaire)?|p\.?u\.?|unite|prestation|produit)(?![a-z])"
)


SHORT = 4
"""Words up to this length ("to", "van", "due") are labels only before a colon or on their own."""


_SUM_WORDS = re.compile(
    r"(?<![a-z])(?:amount|total|price|betrag|gesamt|summe|bedrag|totaal|montant|faktor)(?![a-z])"
)


@dataclass(frozen=True)
class Label:
    """A label found in a line, from `start` to `end`; at the start of its cell it is stronger."""

    kind: str
    strength: float
    line: Line
    start: int
    end: int

    @property
    def cell(self) -> Cell:
        return self.line.cell_at(self.start)

    @property
    def at_start(self) -> bool:
        before = self.line.folded[self.cell.start : self.start]
        return not re.search(r"[a-z0-9]", before)


def is_table_heading(line: Line) -> bool:
    """Whether a line heads a table of items: two or more cells with words such as quantity."""
    hits = {match[0] for match in _TABLE_WORDS.finditer(line.folded)}
    if hits and len(line.cells) > 2:
        hits.update(match[0] for match in _SUM_WORDS.finditer(line.folded))
    return len(hits) >= 2 and len(line.cells) >= 2 and not re.search(r"\d{2}", line.text)


def find_labels(document: Document) -> list[Label]:
    """All labels of a document in reading order; where two overlap, the longer one stands."""
    return [label for line in document.lines for label in _labels_of(line)]


def _labels_of(line: Line) -> list[Label]:
    if is_table_heading(line):
        return []
    found: list[Label] = []
    for kind, strength, pattern in _COMPILED:
        for match in pattern.finditer(line.folded):
            label = Label(kind, strength, line, match.start(), match.end())
            if _is_code(label):
                continue
            if match.end() - match.start() > SHORT or _stands_alone(label):
                found.append(label)
    found.sort(key=lambda label: (label.start - label.end, -label.strength))
    kept: list[Label] = []
    for label in found:
        rivals = [other for other in kept if label.start < other.end and other.start < label.end]
        # Two meanings of the same words ("Zahlungsziel": a date or terms) both stand.
        if all((other.start, other.end) == (label.start, label.end) for other in rivals):
            kept.append(label)
    return sorted(kept, key=lambda label: label.start)


def _is_code(label: Label) -> bool:
    """Whether a label in capitals with a digit right behind it is a code, such as CUSTREF123."""
    text = label.line.text[label.start : label.end]
    return (
        label.line.text[label.end : label.end + 1].isdigit() and text.isalpha() and text.isupper()
    )


def _stands_alone(label: Label) -> bool:
    cell = label.cell
    if label.kind in ("number_alone", "order_number", "date_alone"):
        return True
    after = label.line.folded[label.end : cell.end].lstrip()
    return label.at_start and (not after or after[0] == ":")
