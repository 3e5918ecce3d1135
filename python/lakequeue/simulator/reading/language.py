"""Which language a text is in: by script, else by its commonest small and business words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache

_WORDS: dict[str, str] = {
    "en": "the of and to in is for this that with your you are be by on at from we our not or as "
    "invoice date due amount number payment bill ship customer total quantity price terms please "
    "bank account balance thank receipt order item unit description subtotal tax vat issued "
    "paid days before report agreement between dear company",
    "de": "der die das und ist von mit fur den dem des ein eine im zu auf nicht wir sie ihre uns "
    "bei zum zur als auch werden rechnung rechnungsnummer rechnungsdatum betrag gesamtbetrag "
    "mwst ust menge kunde kundennummer zahlbar tage netto brutto summe preis fallig bitte "
    "beschreibung bezeichnung lieferung steuernummer umsatzsteuer zwischensumme geehrte damen "
    "einzelpreis gesamt anzahl zahlung vertrag bericht bankverbindung lieferdatum",
    "nl": "de het een en van is voor met op aan dat niet wij uw u ons onze wordt bij te zijn "
    "factuur factuurnummer factuurdatum vervaldatum btw aantal omschrijving bedrag totaal "
    "klant klantnummer prijs betalen dagen binnen subtotaal excl incl gelieve betaling "
    "stuk ordernummer bankrekening kvk geachte overeenkomst verslag tussen artikel",
    "fr": "le la les des et est de du un une pour dans par sur avec vous votre nous notre au aux "
    "ce cette que qui facture numero client echeance montant tva ttc ht quantite designation "
    "prix unitaire paiement reglement payer jours adresse total siret siren societe "
    "contrat rapport entre commande livraison madame monsieur sous",
    "es": "el los las que por para con una del se su factura fecha importe cliente cantidad precio "
    "iva pago vencimiento numero base imponible descripcion",
    "it": "il lo gli che per con una del della sono fattura data importo cliente quantita prezzo "
    "iva pagamento scadenza numero imponibile descrizione totale",
    "pt": "os as que para com uma do da dos nao fatura data valor cliente quantidade preco iva "
    "pagamento vencimento numero descricao",
}
_VOCABULARY = {language: frozenset(words.split()) for language, words in _WORDS.items()}

_SCRIPTS = (
    ("HIRAGANA", "ja"),
    ("KATAKANA", "ja"),
    ("HANGUL", "ko"),
    ("CJK", "zh"),
    ("ARABIC", "ar"),
    ("HEBREW", "he"),
    ("CYRILLIC", "ru"),
    ("GREEK", "el"),
    ("THAI", "th"),
    ("DEVANAGARI", "hi"),
)
_SAMPLE = 20_000


@lru_cache(maxsize=8192)
def _script(character: str) -> str:
    name = unicodedata.name(character, "")
    return next((language for prefix, language in _SCRIPTS if name.startswith(prefix)), "")


def detect_language(folded: str) -> tuple[str, float]:
    """Return the language's code and how clear the matter is; "und" where nothing says."""
    sample = folded[:_SAMPLE]
    scripts = Counter(_script(character) for character in sample if character.isalpha())
    letters = scripts.total()
    if not letters:
        return "und", 0.0
    foreign = {code: count for code, count in scripts.items() if code}
    if foreign and sum(foreign.values()) > 0.3 * letters:
        code = (
            "ja" if foreign.get("ja", 0) > 0.05 * letters else max(foreign, key=foreign.__getitem__)
        )
        return code, 0.9
    counts = Counter(re.findall(r"[a-z]+", sample))
    # A repeated word tells less each time: a table's heading must not outvote the text.
    scores = {
        language: sum(min(counts[word], 8) ** 0.5 for word in words if word in counts)
        for language, words in _VOCABULARY.items()
    }
    best, second = sorted(scores, key=scores.__getitem__, reverse=True)[:2]
    if scores[best] < 1:
        return "und", 0.1
    lead = (scores[best] - scores[second]) / scores[best]
    certain = min(1.0, scores[best] / 6)
    return best, round(0.4 + 0.3 * certain + 0.29 * min(1.0, lead * 2), 2)
