"""Decide whether a text refuses, continues the chat or explains a subject instead of reporting as a summary does."""

from collections.abc import Sequence

from langgraph_compaction.checkpoint.patterns import IGNORE_CASE, MULTILINE, Anchored, Pattern


def _any(*patterns: str) -> Pattern:
    return Pattern("|".join(patterns), IGNORE_CASE)


def _begins(*patterns: str) -> Anchored:
    return Anchored("|".join(patterns), IGNORE_CASE)


_HEARD = Pattern(
    r"^[ \t#*>-]*+(?:\d{1,2}[.)][ \t]*+)?+(?:goals?|rules?|constraints?|requirements?|requests?|preferences?|earlier"
    r"|open|context to preserve|用户要求|要求|诉求|目标|规则|限制|约束|偏好|需?保留的上下文)"
    r"[ \t*]*+(?:[:：][^\n]*+)?+$(?:\n{1,3}[ \t]*+(?:[-*•]|\d{1,2}[.)、])[^\n]*+)*+",
    IGNORE_CASE | MULTILINE,
)
"""Sections of a summary, such as goals, that are not judged because they are allowed to quote the user's words."""
_FENCE = "```"
_CODE = Pattern(r"`[^`\n]{1,400}+`|^[ \t]*+>[^\n]*+", MULTILINE)
_QUOTE = Pattern(
    r"\"[^\"\n]{1,400}\"|“[^“”\n]{1,400}”|「[^「」\n]{1,400}」|『[^『』\n]{1,400}』|«[^«»\n]{1,400}»"
    r"|(?<!\w)['‘][^'‘’\n]{1,400}['’](?!\w)"
)
_BREAK = Pattern(r"(?<=[.!?])[\"')\]*]{0,4}\s++(?=\S)|(?<=[。！？；])|\n++")
_MARKUP = Anchored(r"[\s>#*•\-–]*+(?:\(?\d{1,2}[.)、]|[一二三四五六七八九十]{1,2}、)?+[\s*]*+")

_PERSON = _any(
    r"(?<!your )(?<!our )\b(?:users?|customers?|patients?|callers?|passengers?|learners?|students?|assistant)\b",
    r"\btutor\b|(?:^|\b(?:the|an?|this) )(?:agent|client)\b|\b(?:he|she)\b",
    r"(?<!其)[他她]|用户|客户|旅客|患者|病人|助手|客服|学员|学生|乘客|顾客|主人",
)
_STATUS = _any(
    r"\b(?:(?:was|were) asked|next steps?|remain(?:s|ing)?|still (?:open|missing|to do)|pending|not yet|to[- ]?do"
    r"|blocked|goal|so far|waiting for|deadline)\b|^(?:done|open|next|state|status)(?:[:：]|$)",
    r"待办|未决|未完成|尚未|剩余|剩下|待定|目标|下一步|已完成|截止|等待.{0,8}(?:回复|确认|审核)",
)
_DEED = _any(
    r"\b(?:was|were|had|been|did|done|asked|wants?|wanted|requested|decided|agreed|chose|chosen|approved|booked|fixed"
    r"|changed|created|added|wrote|written|tested|verified|tried|failed|found|merged|sent|promised|confirmed"
    r"|cancell?ed|rejected|completed|finished|updated|installed|prefers?|so far|task|project|no longer)\b",
    r"已|未|了|曾|待|正在|要求|希望|决定|同意|选定|目前|进度|任务|过(?!程|滤|期)",
)
_EXPOSITION = _any(
    r"\b(?:is|are|means?|uses?|has|have|provides?|allows?|consists?|contains?|makes?|works?|helps?|refers?|can|does)\b",
    r"是|可以|能够|通常|属于|指|用于|包括|具有|称为",
)

_FIRST = _begins(r"(?:I|we|I['’](?:m|ve|ll|d)|we['’](?:re|ve|ll|d)|my|our)\b", r".*(?<!自)我(?![国司院])|本人")
_SECOND = _any(r"\b(?:you|your|yours|yourself)\b|您|你|咱们")
_ADVANCE = _any(
    r"\b(?:I|we)(?:['’]ll|['’]d|(?:['’][mr]e?| am| are) going to| will| shall| can| could(?! not|n)| should| would"
    r"| need to| recommend| suggest| think| understand| apologi[sz]e| look forward)\b",
    r"\bI (?:just )?need (?:a (?:bit|few|little)|some|more)\b",
    r"\b(?:let me|let['’]s|(?:shall|should|may|can|do) (?:I|we))\b",
    r"我们?(?:来|会|将|马上|这就|先|现在|可以|需要|打开|建议|更?推荐|觉得|想|再|接着|接下来|应该|换|立即|已经?[为给])",
    r"让我|接下来我|要我",
)
"""Announcements of what the writer is about to do, as in a chat."""
_POLITE = _any(
    r"\bplease (?:provide|confirm|let|paste|share|try|arrive|bring|wait|note|tell|send|specify|reply|contact)\b",
    r"\b(?:let me know|feel free|happy to help|look(?:ing)? forward|have a (?:great|nice|wonderful|good|safe)"
    r"|anything else|don['’]t hesitate|hope (?:this|that) helps|good luck|how can I (?:help|assist)|great question"
    r"|one moment|please hold)\b|\bignore (?:all |any |the |my |your ){0,4}+(?:previous|prior|above|earlier) ",
    r"请(?:提供|确认|稍[等候]|问(?!题)|告诉|提前|耐心|随时|放心|立[刻即]|马上|及时|尽快|务必|记得|重新|联系|拨打|回复|携带|点击"
    r"|查收|咨询|选择|输入)|祝[您你]|感谢|不客气|没问题|谢谢|告诉我|希望.{0,8}帮[助到]|如有.{0,8}(?:问题|需要|疑问)|深表歉意",
    r"带来不便|忽略.{0,8}指令|需要我|要不要|还有(?:什么|别的|其他).{0,12}吗|[啦哦呢吧呀嘛哈][。~～]?$",
    r"[!！]$|[\U0001F600-\U0001F64F\U0001F382\U0001F389]",
)
"""Phrases that address a reader who is present, such as thanks, requests and wishes."""
_SELF_OR_ORDER = _any(
    r"\b(?:I['’]m|I am) (?:just |only )?(?:an? |your )?(?:\w{1,30}[ -]){0,3}(?:AI|assistant|model|bot)\b",
    r"\byou (?:must|are now)\b|我只?是.{0,10}(?:助手|客服|模型|机器人|AI)",
    r"[你您](?:必须|现在是|现在处于)|从现在起.{0,4}[你您]",
)
"""Phrases by which a writer calls itself an assistant or gives the reader orders, as no summary does."""
_OPENER = _begins(
    r"(?:sure|certainly|of course|absolutely|okay|ok|alright|got it|understood|great|perfect|no problem"
    r"|no worries|thanks|hello|hi|hey|yes|no|right|hm{2,9}|well|wow|sounds good"
    r"|good (?:morning|afternoon|evening))(?: there)?[,!.]",
    r"(?:here(?:['’]s| is| are)|below is)\b(?!.{0,200}\b(?:what|where|how|overview|state|status)\b)",
    r"(?:以下|下面)是(?!.{0,100}(?:情况|进展|要点|内容))|很遗憾",
    r"sorry\b|apologies\b|unfortunately\b|great (?:question|idea)\b|thank you\b|you['’]re welcome\b|I see\b",
    r"(?:好的?|好嘞|当然(?:可以)?|没问题|收到|明白了?|嗯{1,9}|对|是的|可以|不客气|不用谢|了解|您好|你好"
    r"|早上好|下午好|晚上好|抱歉|对不起|不好意思|亲)[，,！!。～~]",
)

_SORRY = _any(
    r"^(?:(?:I['’]?m|I am|we['’]re|we are) )?(?:(?:so|very|truly|really|terribly) )?sorry\b",
    r"^(?:I |we |my )?apolog|^unfortunately|^regrettably|\bas an? (?:AI|artificial|large language|language model)\b",
    r"抱歉|对不起|不好意思|遗憾|恕|法律法规|(?:作为|我只?是).{0,10}(?:人工智能|AI|模型|助手)",
)
_CANNOT = (
    r"\b(?:I|we)(?>(?: can ?not| can['’]?t| am (?:not able|unable)| are (?:not able|unable)"
    r"|['’](?:m|re) (?:not able|unable)| won['’]t| will not| (?:must|have to) (?:\w{1,20} )?decline"
    r"| do(?: not|n['’]t) (?:have|feel)|['’]m not (?:comfortable|allowed)))\b"
)
_CANNOT_ZH = r"我.{0,12}(?:无法|不能|没法|没有?办法|不便|不会|做不到|办不到)"
_UNABLE = _any(_CANNOT, _CANNOT_ZH)
_REFUSAL = _any(
    rf"{_CANNOT}.{{0,60}}\b(?:help|assist|assistance|fulfil?l?|comply|complete|continue|summari[sz]\w{{0,9}}"
    r"|provide|answer|discuss|generate|engage|respond|process|share|write|access)\b",
    rf"{_CANNOT_ZH}.{{0,12}}(?:回答|协助|帮|提供|完成|总结|继续|访问|写|处理|参与)",
    r"désolée?\b|je ne peux pas|lo siento|no puedo ayudar|tut mir leid|desculpe|não posso|mi dispiace|non posso",
    r"申し訳|お応えできません|죄송|извините|не могу",
)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text without quotations, code, list markers and sections of users' words."""
    own = _QUOTE.sub(" ", _CODE.sub(" ", _without_fenced(_HEARD.sub("", text))))
    stripped = (_MARKUP.remove_prefix(part).strip() for part in _BREAK.split(own))
    return [part for part in stripped if any(map(str.isalnum, part))]


def _without_fenced(text: str) -> str:
    """Return the text without fenced code; a fence that is not closed is left, with what follows it."""
    parts = text.split(_FENCE)
    if len(parts) % 2 == 0:
        parts[-2:] = [_FENCE.join(parts[-2:])]
    return " ".join(parts[::2])


def refuses(said: Sequence[str]) -> bool:
    """Whether one of the first two sentences of a text is a refusal, in any of ten languages."""
    return any(map(_is_refusal, said[:2]))


def _is_refusal(sentence: str) -> bool:
    if _SORRY.search(sentence) and _UNABLE.search(sentence):
        return True
    return not _PERSON.search(sentence) and bool(_REFUSAL.search(sentence))


def continues_chat(said: Sequence[str]) -> bool:
    """Whether too many sentences address the user or announce what the writer will do, instead of reporting."""
    if not said:
        return False
    chats = [_is_chat(one) for one in said]
    chats[0] = chats[0] or bool(_OPENER.match(said[0]))
    begins = chats[0] or bool(_FIRST.match(said[0]) and not _PERSON.search(said[0]))
    asks = said[-1].endswith(("?", "？"))
    if (begins and (asks or chats[-1])) or (asks and chats[-1]):
        return True
    if not any(map(_is_record, said)):
        return asks or any(chats) or any(map(_FIRST.match, said))
    return sum(chats) * (4 if chats[0] else 3) >= len(said)


def explains_subject(said: Sequence[str]) -> bool:
    """Whether the sentences explain a subject in the present tense without mentioning a person or an action."""
    if len(said) == 1 or any(_is_record(one) or _DEED.search(one) for one in said):
        return False
    return sum(bool(_EXPOSITION.search(one)) for one in said) * 2 > len(said)


def _is_record(sentence: str) -> bool:
    return bool(_PERSON.search(sentence) or _STATUS.search(sentence)) and not _is_chat(sentence)


def _is_chat(sentence: str) -> bool:
    if _SELF_OR_ORDER.search(sentence):
        return True
    person, second = _PERSON.search(sentence), _SECOND.search(sentence)
    if person and not (second and second.start() < person.start()):
        return False
    return bool(second or _ADVANCE.search(sentence) or _POLITE.search(sentence))
