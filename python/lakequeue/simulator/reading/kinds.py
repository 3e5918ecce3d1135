"""What kind of document this is, by its headings and its vocabulary."""

# ruff: noqa: E501 - the words stand in rows

from __future__ import annotations

import re

from lakequeue.simulator.reading.text import Document

# kind: (words of a heading, words of the text)
_KINDS: dict[str, tuple[str, str]] = {
    "credit_note": (
        r"credit ?(?:note|memo)|gutschrift|storno(?:rechnung)?|rechnungskorrektur|credit ?(?:nota|factuur)|"
        r"(?:facture d')?avoir|note de credit",
        r"credit ?note|gutschrift|creditnota|creditfactuur|facture d'avoir|numero d'avoir|avoir n°",
    ),
    "reminder": (
        r"(?:payment )?reminder|(?:\d\. )?(?:mahnung|zahlungserinnerung)|(?:betalings)?herinnering|aanmaning|"
        r"relance|(?:lettre de )?rappel|mise en demeure|overdue notice",
        r"mahnung|zahlungserinnerung|aanmaning|betalingsherinnering|mise en demeure|overdue",
    ),
    "quote": (
        r"quot(?:e|ation)|estimate|angebot|kostenvoranschlag|offerte|devis|proposal",
        r"valid until|gultig bis|geldig tot|valable jusqu'au|angebotsnummer|offertenummer|devis n°|quote number",
    ),
    "purchase_order": (
        r"purchase order|bestellung|auftragsbestatigung|order confirmation|bestelbon|inkooporder|"
        r"orderbevestiging|bon de commande|confirmation de commande",
        r"",
    ),
    "delivery_note": (
        r"delivery note|packing (?:slip|list)|lieferschein|pakbon|leveringsbon|afleverbon|bon de livraison",
        r"",
    ),
    "receipt": (
        r"(?:sales |payment |cash )?receipt|quittung|kassenbon|kassenbeleg|kassabon|kwitantie|betaalbewijs|"
        r"recu(?: de paiement)?|ticket(?: de caisse)?|bewirtungsbeleg",
        r"cashier|wechselgeld|wisselgeld|rendu monnaie|change due|bediener|kasse|amount tendered|card ending",
    ),
    "bank_statement": (
        r"(?:bank |account )statement|kontoauszug|rekeningafschrift|bankafschrift|releve de compte",
        r"opening balance|closing balance|kontostand|beginsaldo|eindsaldo|solde (?:initial|final)",
    ),
    "invoice": (
        r"(?:tax |vat |commercial |sales |pro[- ]?forma |final |original )*invoice|bill|"
        r"(?:schluss|abschlags|teil|sammel|proforma)?[- ]?rechnung|(?:verzamel|pro-?forma )?factuur|"
        r"facture(?: (?:proforma|d'acompte|de solde))?|nota|honorarnote|note d'honoraires",
        r"invoice (?:number|no|date|#|total)|rechnungs?[- ]?(?:nummer|nr|datum|betrag)|factuur(?:nummer|datum|bedrag)|"
        r"(?:n°|numero) (?:de )?(?:la )?facture|date de (?:la )?facture|facture n°|bill to|amount due|balance due|zahlbar|"
        r"te betalen|net a payer|total ttc|zwischensumme|subtotal|subtotaal|sous-total",
    ),
    "contract": (
        r"(?:\w+[ -]){0,4}(?:agreement|contract|lease)|(?:\w+)?(?:vertrag|vereinbarung)|"
        r"(?:\w+[ -]){0,2}(?:overeenkomst|contract)|contrat(?: (?:de|d'|du).*)?|convention|bail",
        r"hereinafter|whereas|the parties|witness whereof|governing law|terminat(?:e|ion)|nachfolgend|"
        r"vertragspartei(?:en)?|auftragnehmer|auftraggeber|kundigung|gerichtsstand|hierna|partijen|"
        r"opdrachtnemer|opzegging|ci-apres|les parties|resiliation|droit applicable|cocontractant",
    ),
    "notice": (
        r"(?:public |proposed )?(?:notice|rules?)(?: (?:of|to|for) .*)?|bekanntmachung|kennisgeving|avis(?: public)?|"
        r"federal register",
        r"federal register|cfr|proposed rulemaking|agency:|summary:|effective date",
    ),
    "report": (
        r"(?:\w+[ -]){0,4}report|(?:\w+[ -]){0,2}\w*bericht|(?:\w+[ -]){0,3}(?:verslag|rapport)|"
        r"rapport.*|plan directeur.*|etude.*|white ?paper|study|gutachten|table of contents|inhaltsverzeichnis|"
        r"inhoudsopgave|table des matieres|executive summary|annual .*|jahresabschluss|jaarrekening",
        r"executive summary|table of contents|introduction|conclusions?|methodology|figure \d|table \d|chapter|"
        r"inhaltsverzeichnis|zusammenfassung|einleitung|kapitel|abbildung|tabelle|inhoudsopgave|"
        r"samenvatting|inleiding|hoofdstuk|conclusie|figuur|sommaire|resume|chapitre|tableau|annexe",
    ),
    "letter": (
        r"",
        r"dear (?:sir|madam|mr|mrs|ms|dr|\w+)|yours (?:sincerely|faithfully)|kind regards|sincerely|"
        r"sehr geehrte|mit freundlichen grussen|geachte|met vriendelijke groet|hoogachtend|"
        r"madame, monsieur|cher|chere|veuillez agreer|cordialement|salutations",
    ),
}
_HEADINGS = {
    k: re.compile(rf"\W*(?:{heading})\W*") for k, (heading, _) in _KINDS.items() if heading
}
_STARTS = {
    k: re.compile(rf"\W*(?:{heading})(?:\W+(?:no|nr|n°|#|vom|du|van)?\W*[a-z]{{0,5}}[-/.\d].*)$")
    for k, (heading, _) in _KINDS.items()
    if heading
}
_TEXTS = {
    k: re.compile(rf"(?<![a-z])(?:{text})(?![a-z])") for k, (_, text) in _KINDS.items() if text
}
INVOICE_LIKE = ("invoice", "credit_note", "receipt")
TRADE = (*INVOICE_LIKE, "quote", "purchase_order", "delivery_note", "reminder")


def find_kind(document: Document) -> tuple[str, float]:
    """The kind with the most evidence and how much stands behind it."""
    scores: dict[str, float] = dict.fromkeys(_KINDS, 0.0)
    for line in document.lines[:40]:
        for cell in line.cells:
            weight = 3.0 if line.number < 25 and line.page == document.first_page else 1.0
            for kind, pattern in _HEADINGS.items():
                if pattern.fullmatch(cell.folded):
                    scores[kind] = max(scores[kind], weight)
                elif _STARTS[kind].match(cell.folded):
                    scores[kind] = max(scores[kind], weight - 0.4)
    for kind, pattern in _TEXTS.items():
        words = {match[0] for match in pattern.finditer(document.folded)}
        scores[kind] += 0.7 * min(5, len(words))
    if scores["credit_note"] >= 3:
        scores["credit_note"] += scores["invoice"] * 0.5
    if scores["reminder"] >= 3 or scores["quote"] >= 3.5 or scores["receipt"] >= 3:
        scores["invoice"] *= 0.6
    if scores["invoice"] >= 3:
        # "Bon de commande" or "Lieferschein" on an invoice names what it refers to.
        scores["purchase_order"] *= 0.5
        scores["delivery_note"] *= 0.5
    best = max(scores, key=scores.__getitem__)
    if scores[best] < 0.7:
        return "other", 0.3
    rival = max(score for kind, score in scores.items() if kind != best)
    lead = (scores[best] - rival) / scores[best]
    return best, round(min(0.98, 0.45 + 0.08 * min(4.0, scores[best]) + 0.25 * lead), 2)
