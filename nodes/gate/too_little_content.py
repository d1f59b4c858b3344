"""Decide whether a summary is long enough to replace a conversation. An acknowledgment ("Understood.") is not.

The length of a text is counted in units. A unit is a word, or, in scripts counted by characters, two Chinese,
Japanese or Korean characters, or four characters of Thai, Lao, Burmese or Khmer.
"""

from html import unescape

from langgraph_compaction.checkpoint.patterns import IGNORE_CASE, Anchored, Pattern

MIN_UNITS = 3
"""Minimum length, in units, of a summary that replaces a conversation of 30 units or more."""

MIN_UNSHARED_UNITS = 10
"""Number of distinct units from which a summary passes even if it shares no term with the conversation, because it
may be written in another language."""

MIN_UNITS_AFTER_ACKNOWLEDGMENT = 24
"""Minimum length, in units, of a summary that begins with an acknowledgment; a shorter summary is rejected."""

_UNITS_PER_SUMMARY_UNIT = 10
"""Number of units of a conversation that require one unit of summary, if the conversation has fewer than 30."""

_MIN_WORDS_TO_SHARE = 20
"""If a conversation has at least this number of distinct words without digits, a very short summary must share a term
with it; a shorter conversation may have no word that a summary would repeat."""

TAG = Pattern(r"<[^<>\n]*+>")
_HAN = "⺀-〇぀-ヿ㐀-鿿豈-﫿\U00020000-\U0003ffff"
_HANGUL = "가-힣"
_ALPHABETS = "\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff"
_PACKED = Pattern(f"[{_HAN}{_HANGUL}]")
_SLOW = Pattern(f"[{_ALPHABETS}]")
_WORD = Pattern(rf"[^\W_{_HAN}{_HANGUL}{_ALPHABETS}]++(?:['’][^\W\d_{_HAN}{_HANGUL}{_ALPHABETS}]++)*+")
_PAIRED = Pattern(f"(?=([ァ-ヺ㐀-鿿]{{2}}|[{_HANGUL}]{{2}}|[{_ALPHABETS}]{{4}}))")
"""Pattern of overlapping pieces (two or four characters) of text in scripts that write no spaces between words, to be
compared like words. Hiragana is left out, because most of it is grammatical endings."""

_STEM, _SHORTEST = 5, 4
"""`_STEM` is the number of leading characters by which words are compared, so that most endings do not matter;
`_SHORTEST` is the minimum length of a word without digits that is compared at all."""

_ACKNOWLEDGED = Anchored(
    r"\W*+(?:"
    r"(?:acknowledged|understood|noted|roger(?: that)?|copy that|got it|will do|i (?:see|understand)|okay|ok|alright"
    r"|all right|sure(?: thing)?|certainly|of course|absolutely|thanks?(?: you)?|very well|consider it done"
    r"|понял[аи]?|понятно|ясно|хорошо|принято|ладно|договорились|зрозуміло|зрозумів|добре|гаразд|разбрах|добре"
    r"|entendido|de acuerdo|vale|claro|perfecto|comprendido|recibido|muy bien|hecho|d['’]accord"
    r"|entendu|compris|bien (?:reçu|compris|noté)|c['’]est (?:noté|compris|entendu)|très bien|noté|parfait"
    r"|verstanden|alles klar|in ordnung|einverstanden|wird gemacht|gerne?|zur kenntnis genommen|begrepen|akkoord"
    r"|komt in orde|begrijp ik|capito|va bene|ricevuto|certo|d['’]accordo|entendi(?:do)?|combinado|está bem|certo"
    r"|tudo bem|zrozumiałe[mś]|zrozumiałam|jasne|dobrze|rozumiem|oczywiście|przyjąłem|rozumím|dobře|jasně|rozumiem"
    r"|rozumeno|înțeles|am înțeles|bine|desigur|értem|rendben|megértettem|förstått|uppfattat|okej|jag förstår"
    r"|forstået|forstått|det er i orden|selvä|ymmärrän|ymmärretty|hyvä on|anladım|anlaşıldı|tamam|peki|elbette"
    r"|κατάλαβα|εντάξει|ελήφθη|βεβαίως|đã hiểu|vâng|dạ|được rồi|tôi hiểu|mengerti|baik(?:lah)?|siap|dimengerti"
    r"|saya (?:mengerti|faham)|faham|naintindihan|sige|nimeelewa|sawa|תודה|הבנתי|בסדר|מובן|קיבלתי"
    r"|حسن[اًا]{0,5}+|فهمت|مفهوم|تم(?: الاستلام| الفهم)?|علم|متوجه شدم|باشه|چشم|فهمیدم|ٹھیک ہے|سمجھ گیا"
    r"|समझ (?:गया|गई)|ठीक है|जी हाँ|हाँ|अच्छा|বুঝেছি|ঠিক আছে|புரிந்தது|సరే|అర్థమైంది)(?![^\W_])"
    r"|(?:好的?|收到|明白|了解|知道|没问题|遵命|行|可以|当然)(?:了|啦)?"
    r"|(?:承知|了解|かしこまり|わかり|分かり|はい)(?:し|いたし|致し)?(?:ました|です)?"
    r"|알겠습니다|알겠어요|네|예|확인했습니다|이해했습니다"
    r"|(?:เข้าใจ|รับทราบ|ได้|ตกลง|โอเค|យល់ហើយ|ເຂົ້າໃຈ|နားလည်ပါပြီ)(?:แล้ว|เลย|ครับ|ค่ะ|คะ|ແລ້ວ){0,5}+)",
    IGNORE_CASE,
)
_END = Anchored(r"[ \t]*+(?:[,.!;…\-–—。！，、～،।۔፣։]|\Z|\n)|(?<=[\u0e00-\u17ff]) ")
"""The end of an acknowledgment that is a sentence of its own; an acknowledgment before a colon is a heading."""


def is_too_short(summary: str, conversation: str) -> bool:
    """Whether a summary is too short for the conversation that it replaces, or only an acknowledgment.

    `conversation` is the text that the summarizer was shown, with its tags and HTML entities. A summary of fewer than
    `MIN_UNITS` units passes only if it repeats a token with a digit, and one of fewer than `MIN_UNSHARED_UNITS`
    distinct units only if it shares a term with the conversation.
    """
    plain, size = unescape(TAG.sub(" ", conversation)), units(summary)
    opening = _ACKNOWLEDGED.match(summary)
    if size < MIN_UNITS_AFTER_ACKNOWLEDGMENT and opening and _END.match(summary, opening.end()):
        return True
    if size - _repeated(summary) >= MIN_UNSHARED_UNITS:
        return False
    known = terms(plain)
    shared = known & terms(summary)
    if size < min(MIN_UNITS, units(plain) // _UNITS_PER_SUMMARY_UNIT):
        return not any(map(has_digit, shared))
    return not shared and sum(not has_digit(term) for term in known) >= _MIN_WORDS_TO_SHARE


def units(text: str) -> float:
    """Return the length of a text in units."""
    return len(_WORD.findall(text)) + len(_PACKED.findall(text)) / 2 + len(_SLOW.findall(text)) / 4


def terms(text: str) -> set[str]:
    """Return the terms that a text and its summary may share: tokens with digits, stems, pieces of unspaced text."""
    return set(all_terms(text))


def all_terms(text: str) -> list[str]:
    """Return the terms of a text with repetitions, in no particular order."""
    words = [
        word[:_STEM] if word.isalpha() else word
        for word in _WORD.findall(text.casefold())
        if len(word) >= _SHORTEST or has_digit(word)
    ]
    return [*words, *_PAIRED.findall(text)]


def _repeated(text: str) -> int:
    """Return how many words of a text repeat an earlier word."""
    words = _WORD.findall(text.casefold())
    return len(words) - len(set(words))


def has_digit(term: str) -> bool:
    """Whether a term has a digit."""
    return any(map(str.isdigit, term))
