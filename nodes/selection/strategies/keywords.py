"""Keywords in English and Chinese by which strategies classify messages, and the search for them.

In a list, words are separated by spaces and the forms of one word by `|`. English words match whole words only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage

from langgraph_compaction.checkpoint.patterns import Pattern, escape


@dataclass(frozen=True, kw_only=True)
class Words:
    """A list of keywords for one topic."""

    signs: str = ""
    """Character sequences that are searched for in every language, also inside words."""
    en: str = ""
    zh: str = ""

    def count(self, text: str) -> int:
        """Return how many different words a lower-case text contains; forms of one word count once."""
        pattern, word_of = _compiled(self)
        return len({word_of[found] for found in pattern.findall(text)})

    def within(self, text: str) -> bool:
        """Whether a lower-case text contains at least one of the words of the list."""
        return bool(_compiled(self)[0].search(text))


@cache
def _compiled(words: Words) -> tuple[Pattern, Mapping[str, int]]:
    """Return a pattern that matches all forms, and a map from each form to its word's number in the list."""
    entries = [entry.split("|") for entry in f"{words.signs} {words.en} {words.zh}".lower().split()]
    word_of = dict[str, int]()
    for place, forms in enumerate(entries):
        for form in forms:
            word_of.setdefault(form, place)
    bare = [form for form in word_of if not form.isascii() or form in words.signs.lower().split()]
    whole = "|".join(escape(form) for form in word_of if form not in bare)
    parts = [*([rf"(?<![a-z0-9_])(?:{whole})(?![a-z0-9_])"] if whole else []), *map(escape, bare)]
    return Pattern("|".join(parts) or "(?!)"), word_of


PIN = "<pin>"
_AUTHORS: Mapping[str, type[BaseMessage]] = {
    PIN: HumanMessage,
    "!!!summary!!!": AIMessage,
    "!!!complete!!!": AIMessage,
}
"""For each marker, the message type in which it counts; the marker is ignored in messages of other types."""


def searchable_text(message: AnyMessage) -> str:
    """Return a message's text in lower case, without markers that do not count in messages of its type."""
    text = message.text.lower()
    for marker, author in _AUTHORS.items():
        if not isinstance(message, author):
            text = text.replace(marker, " ")
    return text


KEYWORDS = Words(
    signs="tool_call !!!summary!!! !!!complete!!!",
    zh="bug 错误 失败 异常 修复 完成 成功 任务 目标 决策 方案 问题 解决 工具调用 关键 重要 必须 注意 警告",
    en="bug|bugs error|errors fail|fails|failed|failing|failure|failures exception|exceptions fix|fixes|fixed|fixing "
    "complete|completes|completed|finished success|successful|successfully|succeeded task|tasks goal|goals "
    "decision|decisions|decided plan|plans problem|problems|issue|issues solve|solves|solved|resolved "
    "critical|crucial important must attention|careful warning|warnings",
)
"""Each different keyword in a message makes it more important."""

CALLING = Words(signs="tool_call")
"""A tool call written as text."""

FAILURE = Words(
    zh="bug 错误 失败 异常 修复",
    en="bug|bugs error|errors fail|fails|failed|failing|failure|failures exception|exceptions fix|fixes|fixed|fixing",
)
DONE = Words(
    signs="!!!complete!!!", zh="完成 成功", en="complete|completed|finished success|successful|successfully|succeeded"
)
EMPHASIS = Words(signs=PIN, zh="重要 关键 必须", en="important critical|crucial must")

STARTED_OR_DONE = Words(
    signs="!!!complete!!! !!!summary!!!",
    zh="完成 任务开始 开始任务 开始执行",
    en="complete|completed|finished started|begun",
)
DECISION = Words(
    zh="决定 选择 方案 策略 计划 设计 架构 决策 采用 使用",
    en="decision|decisions|decided choose|chose|chosen plan|plans strategy design architecture adopt|adopted "
    "approach",
)
PROBLEM = Words(
    zh="bug 错误 失败 异常 修复 解决 问题 调试 排查",
    en="bug|bugs error|errors fail|fails|failed|failing|failure|failures exception|exceptions fix|fixes|fixed|fixing "
    "solve|solves|solved|resolved problem|problems|issue|issues debug|debugging|debugged",
)
EXECUTION = Words(signs="✅ ❌", zh="执行工具调用 成功 失败", en="succeeded|successful|successfully failed|failure")
USERS_MARK = Words(signs=PIN, zh="重要 关键 必须 注意", en="important critical|crucial must attention|careful")

CODE = Words(zh="文件 修改 创建 删除", en="edit_file read_code execute_script git code")
ANALYSIS = Words(
    zh="分析 检索 查询",
    en="rg fd grep retrieve_memory analyse|analyze|analysed|analyzed|analysis search|searched query",
)

CODE_TOOLS = Words(
    en="edit write patch code git bash shell terminal script execute exec python compile replace insert"
)
"""Words in the names of tools that work on code."""
ANALYSIS_TOOLS = Words(en="search rg fd grep find query retrieve lookup fetch browse list")
"""Words in the names of tools that search or read data."""
