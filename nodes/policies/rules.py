"""What a user demands of the agent: constraints, prohibitions, preferences, in English and Chinese."""

import re

STRONG, FIRM, MILD = 3, 2, 1
"""A duty or prohibition; a bound or a stated preference; a wish or a plain order."""

_LONGEST = 320
"""Characters of a rule that are kept."""

_QUOTED_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUOTED_LINE = re.compile(r"^\s*>.*$", re.MULTILINE)
_BREAK = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=\S)|(?<=[。！？；])|\s*;\s+|\n+|\s+[-*•]\s+")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)、])\s*")

_NO_RULE = re.compile(
    r"\bI (?:do not|don['’]t|can ?not|can['’]t|could ?n[o'’]?t|did ?n[o'’]?t|have never|never|won['’]t)"
    r" (?:\w+ )?(?:remember|recall|know|have|see|find|think|understand|access|get|mind|received?|got|notice)"
    r"|\b(?:don['’]t|do not) (?:worry|mind|have to|need to)\b"
    r"|\bnot only\b|\bnever ?mind\b|(?:我|还)不?(?:知道|记得|清楚|确定)|不要紧|别客气|没关系",
    re.IGNORECASE,
)
_STRONG = re.compile(
    r"\b(?:must|never|always|do not|don['’]t|mustn['’]t|shall|shan['’]t|under no circumstances|no longer"
    r"|not allowed|not permitted|forbidden|prohibited|mandatory|required?|requires|make sure|ensure|be sure"
    r"|no (?:more|less|fewer|later|earlier|sooner) than|at (?:most|least)|not exceed|from now on|refrain"
    r"|stop \w+ing|unless|without (?:my|asking|first|any|prior|changing|touching|telling)|on no account"
    r"|may not|cannot be|can['’]t be|should(?: not|n['’]t)|leave .{1,60}\b(?:alone|unchanged|untouched|as))\b"
    r"|必须|务必|一定要|一定不|不得|不能|不可以?|不许|不准|不允许|禁止|严禁|切勿|请勿|切记|勿[^忘]|不要|只能|只可|只准"
    r"|绝不|决不|绝对|千万|从不|永不|永远|始终|一律|至少|至多|最多|不超过|不少于|不低于|不高于|不晚于|不早于|不应|不该"
    r"|除非|避免|确保|保证|(?<![特区分级类个性告送辨识])别(?![人的处名样墅扭致称])",
    re.IGNORECASE,
)
_FIRM = re.compile(
    r"\b(?:only|prefer\w*|should|avoid|keep|within|maximum|minimum|max|min|up to|limit(?:ed)?|budget|exactly"
    r"|instead of|rather than|as long as|provided that|except|exclud\w+|strictly|need(?:s)? to be|have to"
    r"|allergic|vegetarian|vegan|important|remember (?:to|that)|whenever|every time|each time|before you"
    r"|by default|stick to|no (?:need|changes?)|not (?:want|interested|willing|okay|ok|before|after|on|in)"
    r"|(?:would|I['’]d) (?:rather|prefer)|(?:don['’]t|do not|doesn['’]t) (?:want|like|use|care)|hate)\b"
    r"|只[要用看在做需给改选接想有]|仅限?|应该|应当|需要?先|要求|限制|预算|优先|尽量|偏好|更喜欢|喜欢|不喜欢|不想|不用|最好"
    r"|除了|以内|之内|之前|以前|先.{1,12}再|每次|默认|统一|记住|保持|按照|请用|改用|以.{1,8}为准|用.{1,10}(?:回答|回复|格式|单位)",
    re.IGNORECASE,
)
_MILD = re.compile(
    r"^(?:(?:and|also|but|so|then|ok(?:ay)?|yes|no|well|thanks?|finally|first)[,.]?\s+)*(?:please\s+)?"
    r"(?:use|keep|write|answer|reply|respond|call me|address|treat|follow|include|exclude|skip|ask|confirm|leave"
    r"|note|remember|stop|give|show|send|add|format|name|put|test|check|run|start|choose|pick|ignore|report"
    r"|return|refer|speak|explain|wait|notify|tell|let me know|assume|consider)\b"
    r"|\bI(?:['’]d like| would like| want| need|['’]m looking)\b|\bplease\b|\bwe (?:use|don['’]t|do not|want|need)\b"
    r"|请|我要|我想|希望|麻烦|需要",
    re.IGNORECASE,
)


def rules_of(text: str) -> list[tuple[str, int]]:
    """The sentences of a user's text that demand something, verbatim, each with its strength.

    Quoted code and quoted lines are someone else's words (DESIGN §8). Which text is a user's is for the
    caller to know.
    """
    own = _QUOTED_LINE.sub("\n", _QUOTED_CODE.sub("\n", text))
    sentences = (_BULLET.sub("", sentence).strip() for sentence in _BREAK.split(own))
    found = ((sentence, _strength(sentence)) for sentence in sentences if sentence)
    return [(sentence[:_LONGEST], strength) for sentence, strength in found if strength]


def _strength(sentence: str) -> int:
    claim = _NO_RULE.sub(" ", sentence)
    strength = next((s for s, cue in ((STRONG, _STRONG), (FIRM, _FIRM), (MILD, _MILD)) if cue.search(claim)), 0)
    asks = sentence.rstrip("\"'”’)").endswith(("?", "？"))
    return max(0, strength - 1) if asks else strength
