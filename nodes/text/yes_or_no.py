"""Read a person's answer to a question: a clear yes, a clear no, or neither."""

from collections.abc import Mapping
from unicodedata import normalize

YES: Mapping[str, tuple[str, ...]] = {
    "en": (
        *("accept", "accepted", "yes", "y", "yeah", "yep", "yup", "sure", "ok", "okay", "true", "agreed", "confirm"),
        *("yes please", "please do", "do it", "go ahead", "compact", "proceed"),
    ),
    "zh": (
        "是",
        "是的",
        "好",
        "好的",
        "好吧",
        "可以",
        "行",
        "要",
        "嗯",
        "对",
        "同意",
        "确认",
        "确定",
        "接受",
        "压缩",
    ),
}
"""By language of the settings, the answers that accept, as `_plain` returns them."""

NO: Mapping[str, tuple[str, ...]] = {
    "en": (
        *("decline", "declined", "no", "n", "nope", "nah", "false", "never", "cancel", "reject", "refuse", "abort"),
        *("no thanks", "no thank you", "not now", "later", "skip", "stop", "don't", "do not", "please don't"),
    ),
    "zh": (
        *("否", "不", "不要", "不用", "不用了", "不必", "不必了", "不需要", "不是", "不行", "不可以", "不好", "不了"),
        *(
            "不同意",
            "不确认",
            "不接受",
            "不压缩",
            "不要压缩",
            "别",
            "别压缩",
            "先不要",
            "暂不",
            "暂时不要",
            "以后再说",
        ),
        *("算了", "取消", "拒绝", "跳过", "停止"),
    ),
}
"""By language of the settings, the answers that decline, as `_plain` returns them."""

_YES = frozenset(word for words in YES.values() for word in words)
_NO = frozenset(word for words in NO.values() for word in words)
_SPACED = str.maketrans({**dict.fromkeys(".,!~。", " "), "’": "'"})
_LONGEST = 100
"""Characters of an answer that are read: more than any of these answers has."""


def yes_or_no(answer: str) -> bool | None:
    """Return whether the answer accepts or declines, in any language of the settings; `None` if it does neither.

    The whole answer has to be such a word or phrase: "yes" and "Yes!" accept; "yes, but not now" does neither.
    """
    said = _plain(answer) if len(answer) <= _LONGEST else ""
    if said in _YES:
        return True
    return False if said in _NO else None


def _plain(answer: str) -> str:
    """Return the answer in lower case, without punctuation, repeated spaces and full-width letters."""
    return " ".join(normalize("NFKC", answer).casefold().translate(_SPACED).split())
