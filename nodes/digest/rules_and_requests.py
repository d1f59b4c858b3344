"""Extract what users asked for: the goal, the rules they set, and unanswered requests."""

import math
from collections.abc import Sequence
from functools import lru_cache

from langchain_core.messages import AnyMessage

from langgraph_compaction.checkpoint.patterns import IGNORE_CASE, Anchored, Pattern
from langgraph_compaction.checkpoint.text_cache import cached_by_text

from ..conversation.message_marks import is_real_user
from ..conversation.transcript import Transcript
from ..text.identifiers import identifiers
from ..text.quoting import one_line, without_quotations
from .entry import Entry
from .languages import has_cue, is_foreign, without_cues

STRONG, FIRM, MILD, PLAIN = 3, 2, 1, 0
"""How strictly a sentence sets a rule: `STRONG` is a duty or a ban, `FIRM` a limit or a preference, `MILD` a wish or
a simple order, and `PLAIN` is no rule."""

_SENTENCE_CHARS = 320
"""Number of characters that are kept of a sentence; further characters are cut."""

_STATEMENT_WORDS = 4
"""Smallest number of words of a statement; two Chinese characters count as one word."""

_WRAPPED = Pattern(r"(?<=[a-z,])[ \t]*+\n[ \t]*+(?=[a-z])")
_MONTH = "Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember"
_BREAK = Pattern(
    rf"(?<=[.!?])(?<!\d\.)[\"')\]]*+\s++(?=\S)|(?<=\d\.)[\"')\]]*+\s++(?!(?:{_MONTH})\b|[a-zà-ÿ])(?=\S)"
    r"|(?<=[。！？；।؟۔])|;\s++|\n++|(?<=\s)[-*•]\s++"
)
"""Pattern for the end of a sentence. A period after a number ends no sentence if a German month or a small letter
follows, as in `12. Oktober` and in the Polish `12. dnia`. No alternative starts with white space, because a long run
of white space would be scanned again from each of its characters. The caller strips white space around a sentence."""
_BULLET = Anchored(r"\s*+(?:(?:[-*•]|\d{1,2}[.)])\s++|\d{1,2}、\s*+)")

_NOT_A_RULE = Pattern(
    r"\bI (?:do not|don['’]t|can ?not|can['’]t|could ?n[o'’]?t|did ?n[o'’]?t|have never|never|won['’]t)"
    r" (?:\w{1,30} )?(?:remember|recall|know|have|see|find|think|understand|access|get|mind|received?|got|notice)"
    r"|\b(?:don['’]t|do not) (?:worry|mind|have to|need to)\b"
    r"|\b(?:I|we) must have (?:been|left|lost|made|missed|taken|thought|forgot\w{0,20}|mis\w{1,20}|mixed)\b"
    r"|\bI(?:['’]ll| will) (?:make sure|ensure|be sure)\b|\b[Ii]f I need\b|\bshould be (?:all|fine|ok|okay)\b"
    r"|^(?:(?:yes|yeah|sure|ok(?:ay)?|alright|great|perfect|thanks?|thank you|in that case)\b[,.!]?\s++){0,3}+"
    r"(?:please\s++|let['’]s\s++|(?:I['’]d|I would) like (?:you )?to\s++|I want (?:you )?to\s++"
    r"|you (?:can|may)\s++){1,2}+(?:go ahead|proceed|continue)\b"
    r"|\bplease (?:go ahead|proceed|continue)\b|\bneed (?:some |your )?help\b"
    r"|\bnot only\b|\bnever ?mind\b|(?:我|还)不?(?:知道|记得|清楚|确定)|不要紧|别客气|没关系",
    IGNORE_CASE,
)
_STRONG = Pattern(
    r"\b(?:must|never|always|do not|don['’]t|mustn['’]t|shall|shan['’]t|under no circumstances|no longer"
    r"|not allowed|not permitted|forbidden|prohibited|mandatory|required?|requires|make sure|ensure|be sure"
    r"|no (?:more|less|fewer|later|earlier|sooner) than|at (?:most|least)|not exceed|from now on|refrain"
    r"|stop \w{1,20}ing|unless|without (?:my|asking|first|any|prior|changing|touching|telling)|on no account"
    r"|may not|cannot be|can['’]t be|should(?: not|n['’]t)|leave .{1,60}\b(?:alone|unchanged|untouched|as))\b"
    r"|必须|务必|一定要|一定不|不得|不能|不可以?|不许|不准|不允许|禁止|严禁|切勿|请勿|切记|勿[^忘]|不要|只能|只可|只准"
    r"|绝不|决不|绝对|千万|从不|永不|永远|始终|一律|至少|至多|最多|不超过|不少于|不低于|不高于|不晚于|不早于|不应|不该"
    r"|除非|避免|确保|保证|(?<![特区分级类个性告送辨识])别(?![人的处名样墅扭致称])",
    IGNORE_CASE,
)
_FIRM = Pattern(
    r"\b(?:only|prefer\w{0,20}|should|avoid|keep|within (?:\d{1,9}|an?|one|two|three)|maximum|minimum|max|min|up to"
    r"|limit(?:ed)?|budget|exactly|instead of|rather than|as long as|provided that|except|exclud\w{1,20}|strictly"
    r"|need(?:s)? to be|have to|allergic|vegetarian|vegan|important|remember (?:to|that)|by default|stick to"
    r"|every ?time|each time|(?:when(?:ever)?|if|before|after|once|while|until) you"
    r"|(?:every|each|all) of (?:your|the)"
    r"|(?:express|format|give|keep|mark|name|put|quote|show|sign|spell|state|use|write) (?:all|any|each|every)"
    r"|(?:every|each|all|your|any) (?:single |future )?(?:repl(?:y|ies)|answers?|responses?|messages?|outputs?)"
    r"|no (?:need|changes?)|not (?:want|interested|willing|okay|ok|before|after|on|in)"
    r"|(?:would|I['’]d) (?:rather|prefer)|(?:don['’]t|do not|doesn['’]t) (?:want|like|use|care)|hate"
    r"|deadline|allerg\w{1,20}|intoleran\w{1,20}|kosher|halal|confidential|off[- ]limits|read[- ]only|priorit\w{1,20}"
    r"|(?:call|address|refer to) me|in (?:place|lieu) of|no longer than"
    r"|(?:less|more|fewer|later|earlier) than \S{0,20}\d"
    r"|(?:stay|stays|remain|remains|under|below|above|over|by|before|after) (?:at |on |\W)?\d"
    r"|(?:every|each|all|any)(?: \w{1,30}){1,6} (?:needs?|has to|have to|goes|go|gets?|should|ha(?:s|ve) a))\b"
    r"|,\s{0,9}(?:not|no|never) \w|^no (?!problem|worries|thank|idea|way|one|luck)\w"
    r"|只[要用看在做需给改选接想有点订买吃喝坐住付寄发走]|[要得][关开留放锁保][着好住在]|仅限?|应该|应当|需要?先|要求|限制|预算|优先|尽量|偏好|喜欢|不想|不用|最好|除了"
    r"|以内|之内|之前|以前|先.{1,12}再|每[次个条份封天]|凡是?|一旦|默认|统一|记住|保持|按照|请用|改用|以.{1,8}为[准主]"
    r"|都[要用得须]|[把将](?:所有|全部|每).{1,12}(?:成|作|为)|(?:所有|全部).{1,12}[用要须]|用.{1,10}(?:回答|回复|格式|单位)|回[答复].{0,6}[时用要里中]"
    r"|不(?:接受|吃|喝|写|发|买|选|坐|带|含|提|碰|改|动|加|删|住|开|用|超|晚|早|过[^来去])|过敏|截止|上限|下限|称呼|叫我"
    r"|今后|以后[请都要叫称用只不]|从现在起|往后|[^没]同意|保密|(?:不|别)让|得先|统统|全都|一概",
    IGNORE_CASE,
)
_MILD = Pattern(
    r"^(?:(?:and|also|but|so|then|ok(?:ay)?|yes|no|well|thanks?|finally|first)[,.]?\s++){0,9}+(?:please\s++)?"
    r"(?:add|address|answer|ask|assume|be|begin|call me|check|choose|cite|confirm|consider|convert|do|draft|end"
    r"|exclude|explain|follow|format|give|group|ignore|include|leave|let me know|list|make|mark|mention|name|note"
    r"|notify|number|pick|put|quote|refer|remember|remove|reply|report|respond|restate|return|round|run|save|send|set"
    r"|show|sign|skip|sort|speak|split|start|stop|store|switch|tell|test|translate|treat|try|turn|use|wait|wrap|write)\b"
    r"(?! #?\d{1,9} ?[:)](?!\d))"  # "Note 2: ..." numbers a text and asks for nothing
    r"|\bI(?:['’]d like| would like| want| need|['’]m looking)\b|\bplease\b|\bwe (?:use|don['’]t|do not|want|need)\b"
    r"|请|我要|我想|希望|麻烦|需要",
    IGNORE_CASE,
)

_ASKS = Pattern(
    r"(?:^|[¿,.;:]\s{0,9})(?:(?:and|but|so|then|also|ok(?:ay)?|well)[, ]\s{0,9})?"
    r"(?:how|what|which|when|where|who|whose|why|wie|was|welche[rsnm]?|wann|wo|wer|warum|wieso|comment|quand|où|pourquoi|quelle?s?|combien"
    r"|cómo|qué|cuál\w{0,2}|cuándo|dónde|quién|como|quando|onde|quanto|come|cosa|quale|dove|perché"
    r"|как|что|какой|какая|какие|когда|где|кто|почему|сколько|jak|co|który|kiedy|gdzie|dlaczego"
    r"|hoe|wat|welke|wanneer|waar|waarom)\b"
    r"|什么|怎么|怎样|如何|为什么|哪|何时|多少|几[点个天]|どう|どこ|いつ|なぜ|誰",
    IGNORE_CASE,
)
"""Matches a question that asks for information, and so sets no rule."""

_KINDS = ((STRONG, "duty"), (FIRM, "limit"), (MILD, "wish"))
"""The kinds of cue words by strength, for languages other than English and Chinese."""

_GOAL, _REQUEST, _RULE, _LINE = 600, 240, 320, 320
"""Maximum number of characters of a goal, a request, a rule, and a line of an earlier summary."""

_GOAL_WORTH, _REQUEST_WORTH = 2.0, 0.9
_RULE_WORTH = {STRONG: 2.4, FIRM: 2.1, MILD: 0.15}
_STATEMENT_WORTH = 0.06
_QUESTION_FACTOR = 0.8
"""Factor for the worth of a rule that is phrased as a question."""
_FULL_SENTENCES, _EDGE = 8, 2
"""Number of sentences up to which a message counts in full (a longer message may be a pasted manual), and number of
sentences at each end of a longer message that count in full."""

_LINE_WORTH, _LINE_IDENTIFIER_WORTH = 0.5, 0.15

_TAGS = Pattern(r"</?summary>")
_DECORATION = Anchored(r"[\s#>*•-]+")


def goal(old: Sequence[AnyMessage], start: int, earlier: Sequence[Entry] = ()) -> list[Entry]:
    """Return the earlier digest's goal or, if there is none, the first user message cut to 600 characters."""
    first = next((index for index, message in enumerate(old) if is_real_user(message) and message.text), None)
    if earlier or first is None:
        return list(earlier)
    return [Entry("Goal", start + first, _GOAL_WORTH, one_line(old[first].text, _GOAL))]


def rules(old: Sequence[AnyMessage], start: int, earlier: Sequence[Entry] = ()) -> list[Entry]:
    """Return the rules that users set, in the users' words: the `earlier` ones, then new ones, none twice."""
    found = ((index, _rules_in(message.text)) for index, message in enumerate(old) if is_real_user(message))
    new = (Entry("Rules", start + index, worth, line) for index, lines in found for line, worth in lines)
    return _without_repetitions([*earlier, *new])


def rule_worth(sentence: str, strength: int) -> float:
    """Return the worth of a sentence that sets a rule of this strength."""
    return _RULE_WORTH.get(strength, _STATEMENT_WORTH) * (_QUESTION_FACTOR if is_question(sentence) else 1)


@cached_by_text
def _rules_in(text: str) -> tuple[tuple[str, float], ...]:
    """Return the lines of the rules in a user's text, none twice, each with its worth."""
    found = dict[str, float]()
    every = sentences_of(text)
    for place, (sentence, strength) in enumerate(every):
        if strength:
            worth = rule_worth(sentence, strength) * share_of_sentence(place, len(every))
            found.setdefault(one_line(sentence, _RULE), worth)
    return tuple(found.items())


def share_of_sentence(place: int, sentences: int) -> float:
    """Return the factor for the worth of a message's sentence: less than 1 in the middle of a long message."""
    if place < _EDGE or place >= sentences - _EDGE:
        return 1.0
    return math.sqrt(_FULL_SENTENCES / max(_FULL_SENTENCES, sentences))


def _without_repetitions(entries: Sequence[Entry]) -> list[Entry]:
    first: dict[str, Entry] = {}
    for entry in entries:
        first.setdefault(entry.value, entry)
    return list(first.values())


def requests(old: Sequence[AnyMessage], start: int, earlier: Sequence[Entry] = ()) -> list[Entry]:
    """Return the unanswered requests: user messages after the last answer that has text and no tool calls.

    If `old` has no such answer, the requests that were open in the earlier digest are still open and come first.
    """
    view = Transcript(old)
    waiting = [index for index in view.round_starts if index > view.last_answer and old[index].text]
    return [
        *(earlier if view.last_answer < 0 else ()),
        *(Entry("Open", start + i, _REQUEST_WORTH, one_line(old[i].text, _REQUEST)) for i in waiting),
    ]


def earlier_lines(text: str | None, at: int, earlier: Sequence[Entry] = ()) -> list[Entry]:
    """Return lines of earlier summaries: `earlier`, then each line of `text`. Identifiers make a line worth more."""
    lines = [_DECORATION.remove_prefix(line).strip() for line in _TAGS.sub("", text or "").splitlines()]
    return [
        *earlier,
        *(
            Entry(
                "Earlier",
                at,
                _LINE_WORTH + _LINE_IDENTIFIER_WORTH * min(4, len(identifiers(line))),
                one_line(line, _LINE),
            )
            for line in lines
            if line
        ),
    ]


def rules_of(text: str) -> list[tuple[str, int]]:
    """Return the sentences of a user's text that set a rule, verbatim, each with its strength.

    Quoted code and quoted lines are left out, because they are someone else's words.
    """
    return [(sentence, strength) for sentence, strength in sentences_of(text) if strength]


@cached_by_text
def sentences_of(text: str) -> tuple[tuple[str, int], ...]:
    """Return every sentence of a user's own text that has a letter or digit, verbatim, and its strength as a rule."""
    return tuple((sentence, strength_of(sentence)) for sentence in own_sentences(text))


@cached_by_text
def own_sentences(text: str) -> tuple[str, ...]:
    """Return every sentence of a text that has a letter or digit, verbatim, without quoted code and quoted lines."""
    own = _WRAPPED.sub(" ", without_quotations(text))
    sentences = (_BULLET.remove_prefix(sentence.strip()).strip() for sentence in _BREAK.split(own))
    said = (sentence[:_SENTENCE_CHARS] for sentence in sentences)
    return tuple(kept for kept in said if any(map(str.isalnum, kept)))


def is_statement(sentence: str, words: int = _STATEMENT_WORDS) -> bool:
    """Whether a sentence is a statement of at least so many words, and not a question."""
    wide = 0 if sentence.isascii() else sum(character >= "ぁ" for character in sentence)
    count = len(sentence.split()) + wide // 2
    return count >= words and not is_question(sentence)


def is_question(sentence: str) -> bool:
    """Whether a sentence is a question."""
    return sentence.rstrip("\"'”’)").endswith(("?", "？", "؟"))


@lru_cache(maxsize=32_768)
def strength_of(sentence: str) -> int:
    """Return how strictly a sentence sets a rule, in any of twenty languages."""
    if sentence.endswith((":", "：")) and not is_statement(sentence[:-1]):  # a heading
        return PLAIN
    claim = "" if is_foreign(sentence) else _NOT_A_RULE.sub(" ", sentence)
    strength = next((s for s, cue in ((STRONG, _STRONG), (FIRM, _FIRM), (MILD, _MILD)) if cue.occurs_in(claim)), 0)
    claim = without_cues(sentence, "no_rule")
    strength = max(strength, next((s for s, kind in _KINDS if has_cue(claim, kind)), 0))
    if is_question(sentence):
        return 0 if _ASKS.occurs_in(sentence) else max(0, strength - 1)
    return strength
